/* A program may let the processor signal inexact results (feenableexcept). What is calculated here is inexact. */
#ifndef INSITU_TRAPS_H
#define INSITU_TRAPS_H

#include <stdint.h>

#if defined __x86_64__
enum { TRAPS_OFF = 0x1f80 }; /* bits of MXCSR that are set */
static inline uint64_t insitu_float_control(void) {
  return __builtin_ia32_stmxcsr();
}
static inline void insitu_set_float_control(uint64_t control) {
  __builtin_ia32_ldmxcsr((unsigned)control);
}
static inline int insitu_has_traps(uint64_t control) {
  return (control & TRAPS_OFF) != TRAPS_OFF;
}
static inline uint64_t insitu_without_traps(uint64_t control) {
  return control | TRAPS_OFF;
}
#else
enum { TRAPS_ON = 0x9f00 }; /* bits of FPCR that are clear; few processors have them */
static inline uint64_t insitu_float_control(void) {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
static inline void insitu_set_float_control(uint64_t control) {
  __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}
static inline int insitu_has_traps(uint64_t control) {
  return (control & TRAPS_ON) != 0;
}
static inline uint64_t insitu_without_traps(uint64_t control) {
  return control & ~(uint64_t)TRAPS_ON;
}
#endif

/* Until the result is restored, no calculation of this thread ends in SIGFPE. */
static inline uint64_t insitu_block_traps(void) {
  uint64_t before = insitu_float_control();
  if (__builtin_expect(insitu_has_traps(before), 0)) insitu_set_float_control(insitu_without_traps(before));
  __asm__ volatile("" ::: "memory"); /* the compiler does not move what is calculated from memory to before this */
  return before;
}
static inline void insitu_restore_traps(uint64_t before) {
  __asm__ volatile("" ::: "memory");
  if (__builtin_expect(insitu_has_traps(before), 0)) insitu_set_float_control(before);
}

#endif
