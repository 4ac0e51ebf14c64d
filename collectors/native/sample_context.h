/* Where a signal interrupted a thread. */
#ifndef INSITU_SAMPLE_CONTEXT_H
#define INSITU_SAMPLE_CONTEXT_H

#include <stdint.h>
#include <ucontext.h>

/* The instruction that is executed next; 0 if unknown. */
static inline uintptr_t insitu_context_pc(const void *context) {
  const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
  return (uintptr_t)machine->gregs[REG_RIP];
#elif defined(__aarch64__)
  return machine->pc;
#else
  (void)machine;
  return 0;
#endif
}

/* Whether a system call was running: it leaves the address behind it in a register, or its instruction stands before
 * that address. */
static inline int insitu_context_is_in_call(const void *context) {
#if defined(__x86_64__)
  return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_RCX] == (greg_t)insitu_context_pc(context);
#elif defined(__aarch64__)
  uintptr_t pc = insitu_context_pc(context);
  /* The page before this one may not be mapped. */
  return pc % 4096 && ((const uint32_t *)pc)[-1] == 0xD4000001u; /* svc #0 */
#else
  (void)context;
  return 0;
#endif
}

#endif
