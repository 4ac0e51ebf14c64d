/* Restrictions that a program puts on itself, under which it cannot be measured any more: filters of system calls
 * (seccomp), whose answer to a call that the program does not make itself is usually its end; calls that the kernel
 * hands to the program (user dispatch), which ends it where a handler of ours makes one; and time-stamp counters that
 * must not be read. Measuring ends before they apply; the header says why.
 *
 * The functions are exported, so they replace those of the C library where this library is preloaded. */
#define _GNU_SOURCE
#include "finish.h"
#include "sample.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59 /* since Linux 5.11 */
#endif

/* End the measurement of this process, if it is measured. */
static void stop(const char *reason) {
  if (!insitu_is_on || !insitu_is_owner()) return; /* not a child of vfork() */
  int saved = errno;
  insitu_sample_stop();
  insitu_finish_values();
  strncpy(insitu_table->header->stopped, reason, sizeof insitu_table->header->stopped - 1);
  errno = saved;
}

/* Programs ask the kernel whether it knows filters by passing none. */
static void before_filter(int is_strict, const void *filter) {
  if (is_strict || filter) stop("it restricted its system calls (seccomp)");
}

static void before_prctl(int option, unsigned long value, unsigned long next) {
  if (option == PR_SET_SECCOMP) before_filter(value == SECCOMP_MODE_STRICT, (const void *)next);
  if (option == PR_SET_SYSCALL_USER_DISPATCH && value) stop("it handles system calls itself (user dispatch)");
#ifdef __x86_64__
  if (option == PR_SET_TSC && value == PR_TSC_SIGSEGV) stop("it gave up reading the time-stamp counter (PR_SET_TSC)");
#endif
}

EXPORT int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  unsigned long values[4];
  for (int i = 0; i < 4; i++) values[i] = va_arg(rest, unsigned long);
  va_end(rest);
  before_prctl(option, values[0], values[1]);
  return (int)syscall(SYS_prctl, option, values[0], values[1], values[2], values[3]);
}

/* ---- syscall(), by which libraries for filters, and runtimes that handle signals, reach the kernel --------------- */

/* The function of the C library. */
__attribute__((visibility("hidden"))) long (*insitu_next_syscall)(long, ...);

__attribute__((constructor)) static void find_next(void) {
  insitu_next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

/* Called by the jump below, also from the constructors of other libraries. */
__attribute__((visibility("hidden"), used)) long insitu_syscall_slowly(long number, long a, long b, long c, long d,
                                                                       long e, long f) {
  if (!insitu_next_syscall) find_next();
  if (number == SYS_seccomp) before_filter(a == SECCOMP_SET_MODE_STRICT, (const void *)c);
  if (number == SYS_prctl) before_prctl((int)a, (unsigned long)b, (unsigned long)c);
  if (number == SYS_rt_sigaction) insitu_sample_give_back((int)a);
  if (insitu_next_syscall) return insitu_next_syscall(number, a, b, c, d, e, f);
  errno = ENOSYS;
  return -1;
}

/* A jump, since the call may return twice or on another stack (clone, vfork). */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  cmpq $317, %rdi\n" /* SYS_seccomp */
        "  je insitu_syscall_slowly\n"
        "  cmpq $157, %rdi\n" /* SYS_prctl */
        "  je insitu_syscall_slowly\n"
        "  cmpq $13, %rdi\n" /* SYS_rt_sigaction */
        "  je insitu_syscall_slowly\n"
        "  movq insitu_next_syscall(%rip), %rax\n"
        "  testq %rax, %rax\n"
        "  je insitu_syscall_slowly\n"
        "  jmp *%rax\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  hint 34\n"      /* bti c */
        "  cmp x0, #277\n" /* SYS_seccomp */
        "  b.eq insitu_syscall_slowly\n"
        "  cmp x0, #167\n" /* SYS_prctl */
        "  b.eq insitu_syscall_slowly\n"
        "  cmp x0, #134\n" /* SYS_rt_sigaction */
        "  b.eq insitu_syscall_slowly\n"
        "  adrp x16, insitu_next_syscall\n"
        "  ldr x16, [x16, :lo12:insitu_next_syscall]\n"
        "  cbz x16, insitu_syscall_slowly\n"
        "  br x16\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#endif
