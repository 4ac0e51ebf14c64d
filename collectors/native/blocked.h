/* How long the process was blocked outside MPI calls. */
#ifndef INSITU_BLOCKED_H
#define INSITU_BLOCKED_H

#include "mpi_library.h"
#include "table.h"

#include <stdatomic.h>

/* After MPI_Init: measuring begins. */
void insitu_blocked_begin(void);
/* Before MPI_Finalize, or at the end of a rank that does not call it: store the time in the header. */
void insitu_blocked_end(void);

/* The time is unknown: an MPI call is not recorded. */
void insitu_blocked_stop(void);
/* Count nothing since the last check: a long MPI call ends, or one that is left without its end. */
void insitu_blocked_discard(struct insitu_mpi_thread *mine, uint64_t now);
/* The slow path of the function below. */
void insitu_blocked_before_slow_call(struct insitu_mpi_thread *mine, uint64_t now);

/* Ticks of a millisecond; shorter intervals are not looked at one by one. */
extern _Atomic uint64_t insitu_blocked_interval;

/* An MPI call begins. */
static inline void insitu_blocked_before_call(struct insitu_mpi_thread *mine, uint64_t now) {
  if (__builtin_expect(now >= mine->blocked_check_at, 0)) insitu_blocked_before_slow_call(mine, now);
}

/* An MPI call ends that began at `start`. */
static inline void insitu_blocked_after_call(struct insitu_mpi_thread *mine, uint64_t start, uint64_t now) {
  mine->short_calls += now - start;
  if (__builtin_expect(now - start >= atomic_load_explicit(&insitu_blocked_interval, memory_order_relaxed), 0))
    insitu_blocked_discard(mine, now);
}

#endif
