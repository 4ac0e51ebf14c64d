/* A program may let the processor signal inexact results (feenableexcept), which would end it in calculations of ours,
 * and it may look whether its own results were inexact (fetestexcept). */
#ifndef INSITU_TRAPS_H
#define INSITU_TRAPS_H

#include <stdint.h>

#if defined __x86_64__
/* With the exceptions that there were. */
static inline uint64_t insitu_float_control(void) {
  return __builtin_ia32_stmxcsr();
}
static inline void insitu_set_float_control(uint64_t control) {
  __builtin_ia32_ldmxcsr((unsigned)control);
}
static inline uint64_t insitu_without_traps(uint64_t control) {
  return control | 0x1f80; /* MXCSR has a bit for each trap that is off */
}
#else
static inline uint64_t insitu_float_control(void) {
  uint64_t control, state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("mrs %0, fpsr" : "=r"(state));
  return control | state << 32; /* both registers have 32 bits */
}
static inline void insitu_set_float_control(uint64_t control) {
  __asm__ volatile("msr fpcr, %0" : : "r"(control & 0xffffffffu) : "memory");
  __asm__ volatile("msr fpsr, %0" : : "r"(control >> 32) : "memory");
}
static inline uint64_t insitu_without_traps(uint64_t control) {
  return control & ~(uint64_t)0x9f00; /* FPCR has a bit for each trap that is on; few processors have traps */
}
#endif

static inline void insitu_replace_float_control(uint64_t from, uint64_t to) {
  __asm__ volatile("" ::: "memory"); /* the compiler moves nothing that uses memory across this */
  if (__builtin_expect(from != to, 0)) insitu_set_float_control(to);
  __asm__ volatile("" ::: "memory");
}

/* Until the result is passed to insitu_restore_traps, no calculation of this thread ends in SIGFPE, and none is seen.
 */
static inline uint64_t insitu_block_traps(void) {
  uint64_t before = insitu_float_control();
  insitu_replace_float_control(before, insitu_without_traps(before));
  return before;
}
static inline void insitu_restore_traps(uint64_t before) {
  insitu_replace_float_control(insitu_float_control(), before);
}

#endif
