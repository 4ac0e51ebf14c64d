/* The handler of the signal of samples, until it may use what functions in C expect of registers.
 *
 * The kernel saves the registers of the program, but calls a handler with some of them as they are: the flag by which
 * the processor checks that accesses are aligned, and the thread pointer, which emulators of other systems exchange. */
#define _GNU_SOURCE
#include "sample.h"
#include "table.h"

#include <stdatomic.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <sys/syscall.h>
#define ALIGNMENT_CHECK ((greg_t)1 << 18)
#endif

/* The thread pointer of each sampled thread, 0 for none. Relaxed: a thread reads its own entry. */
static _Atomic uintptr_t pointers[INSITU_THREADS];
static _Atomic ptrdiff_t count; /* of the entries that were ever set */

/* Functions of the C library may use the thread pointer, as to set errno: there is none here. */
static uintptr_t thread_pointer(void) {
#if defined(__x86_64__)
  uintptr_t pointer = 0;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"((long)SYS_arch_prctl), "D"((long)ARCH_GET_FS), "S"(&pointer)
                   : "rcx", "r11", "memory");
  return pointer;
#elif defined(__aarch64__)
  uintptr_t pointer;
  __asm__ volatile("mrs %0, tpidr_el0" : "=r"(pointer));
  return pointer;
#else
  return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* Accesses of this library need not be aligned. The kernel sets the flag again when the handler returns. */
static void allow_unaligned(const void *context) {
#if defined(__x86_64__)
  if (__builtin_expect(!(((const ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] & ALIGNMENT_CHECK), 1)) return;
  /* The bytes below the stack pointer may be in use. */
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x40000, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
#else
  (void)context;
#endif
}

static int is_known(uintptr_t pointer) {
  ptrdiff_t used = atomic_load_explicit(&count, memory_order_relaxed);
  for (ptrdiff_t i = 0; i < used; i++)
    if (atomic_load_explicit(&pointers[i], memory_order_relaxed) == pointer) return 1;
  return 0;
}

void insitu_sample_enter(int number, siginfo_t *info, void *context) {
  (void)number;
  allow_unaligned(context);
  if (is_known(thread_pointer())) insitu_sample_take(info, context);
}

void insitu_sample_know_thread(ptrdiff_t index) {
  atomic_store_explicit(&pointers[index], thread_pointer(), memory_order_relaxed);
  ptrdiff_t used = atomic_load_explicit(&count, memory_order_relaxed);
  while (used <= index &&
         !atomic_compare_exchange_weak_explicit(&count, &used, index + 1, memory_order_relaxed, memory_order_relaxed)) {
  }
}

void insitu_sample_forget_thread(ptrdiff_t index) {
  atomic_store_explicit(&pointers[index], 0, memory_order_relaxed);
}
