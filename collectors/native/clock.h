/* One monotonic clock for all collectors. It counts ticks, whose length follows from the header of the table. */
#ifndef INSITU_CLOCK_H
#define INSITU_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Whether ticks are those of the time stamp counter, else nanoseconds. Set before any tick is read. */
extern int insitu_clock_is_tsc;

/* Choose the time stamp counter if the kernel itself uses it as its clock source, else clock_gettime. */
void insitu_clock_choose(void);

static inline uint64_t insitu_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of a clock whose ratio to ticks never changes. Unlike CLOCK_MONOTONIC, it is not slewed where ticks are
 * those of the time stamp counter. Agents read the same one: collectors/round_trips.py. */
static inline uint64_t insitu_unslewed_ns(void) {
  struct timespec now;
  clock_gettime(insitu_clock_is_tsc ? CLOCK_MONOTONIC_RAW : CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time of this thread: time that other processes take on its core is no cost of what it did. */
static inline uint64_t insitu_thread_cpu_ns(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds since 1970. */
static inline uint64_t insitu_wall_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t insitu_ticks(void) {
#if defined(__x86_64__)
  /* <x86intrin.h> has it as well, and 47,000 lines of preprocessed text for each of our files. */
  if (__builtin_expect(insitu_clock_is_tsc, 1)) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (__builtin_expect(insitu_clock_is_tsc, 1)) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
#endif
  return insitu_monotonic_ns();
}

#endif
