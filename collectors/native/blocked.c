/* How long the process was blocked outside MPI calls: neither on a processor nor ready to run.
 *
 * Ranks that take locks in turn, wait for files or sleep use no processor time, and their wall times say little where
 * ranks share cores. The kernel counts how long the main thread ran and was ready to run; the rest of the elapsed time
 * it was blocked. Some MPI libraries sleep while they wait, so intervals outside and inside calls are told apart: at
 * the begin of a call and at the end of a long one the kernel is asked whether the thread has slept since the last time
 * (0.3 us, at most twice a millisecond), and only then how long (5 us). Shorter calls count in full as sleeping, so
 * that the result is a lower bound.
 *
 * Time stolen by a hypervisor looks like sleeping, but comes without a voluntary switch to another thread. Since it
 * adds up until the next one, no more is counted than has passed since the last check.
 *
 * The time is unknown if the main thread may have slept while others worked, waited for a processor or were in MPI:
 * other threads that ran or called MPI, and child processes. */
#define _GNU_SOURCE
#include "blocked.h"

#include "clock.h"
#include "interrupts.h"
#include "processor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTERVAL_NS 1000000u
#define WORKED_ELSEWHERE 20 /* unknown if other threads and children used this fraction of the time on processors */
#define WORKED_NS 10000000u /* and more than this: helper threads of MPI libraries do little */

/* Relaxed: set once, in MPI_Init, and other threads call MPI later. */
_Atomic uint64_t insitu_blocked_interval = UINT64_MAX;

static _Atomic int is_unknown; /* relaxed: only ever set, by any thread */

/* Of the main thread, the only one that is measured. */
static uint64_t blocked_ns;
static long sleeps;         /* voluntary switches at the last check */
static uint64_t checked_at; /* ticks */
static uint64_t idle_ns;    /* elapsed, but neither run nor queued, when it had slept for the last time */
static uint64_t worked_at_begin;

void insitu_blocked_stop(void) {
  atomic_store_explicit(&is_unknown, 1, memory_order_relaxed);
}

static uint64_t interval(void) {
  return atomic_load_explicit(&insitu_blocked_interval, memory_order_relaxed);
}

static uint64_t to_ns(uint64_t ticks) {
  return (uint64_t)((unsigned __int128)ticks * INTERVAL_NS / interval());
}

static int is_main_thread(void) {
  return syscall(SYS_gettid) == getpid();
}

static long count_sleeps(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

/* Elapsed time in which the main thread neither ran nor was ready to. The kernel updates the time that it ran in
 * schedstat at its ticks only. */
static uint64_t read_idle(void) {
  char text[128], *end;
  /* No cancellation points: a thread that is cancelled here would leave the file open. */
  int held = insitu_hold_cancellation();
  int file = insitu_open_hidden("/proc/self/schedstat", O_RDONLY);
  long length = file < 0 ? 0 : syscall(SYS_read, file, text, sizeof text - 1);
  if (file >= 0) insitu_close_hidden(file);
  insitu_release_cancellation(held);
  if (length <= 0) {
    insitu_blocked_stop();
    insitu_table->header->unread |= INSITU_UNREAD_BLOCKED;
    return idle_ns;
  }
  text[length] = 0;
  strtoull(text, &end, 10);
  return insitu_monotonic_ns() - insitu_thread_cpu_ns() - strtoull(end, NULL, 10);
}

/* The time of other threads and of children that have ended on processors. */
static uint64_t worked_elsewhere(void) {
  struct rusage children;
  if (getrusage(RUSAGE_CHILDREN, &children)) return 0;
  uint64_t ran = insitu_thread_cpu_ns(), all = insitu_processor_ns();
  uint64_t seconds = (uint64_t)(children.ru_utime.tv_sec + children.ru_stime.tv_sec);
  uint64_t micros = (uint64_t)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
  return (all > ran ? all - ran : 0) + seconds * 1000000000u + micros * 1000u;
}

/* Whether there are child processes that have not been waited for: what they use is not known yet. */
static int has_children(void) {
  siginfo_t unused;
  return !waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT);
}

/* How long the main thread has slept since the last check. A signal handler may call MPI between any two lines. */
static uint64_t slept(uint64_t now) {
  uint64_t elapsed_ns = now > checked_at ? to_ns(now - checked_at) : 0;
  checked_at = now;
  long count = count_sleeps();
  if (count == sleeps) return 0;
  sleeps = count;
  uint64_t idle = read_idle(), before = idle_ns;
  idle_ns = idle;
  uint64_t ns = idle > before ? idle - before : 0;
  return ns < elapsed_ns ? ns : elapsed_ns;
}

static void end_interval(struct insitu_mpi_thread *mine, uint64_t now) {
  uint64_t ns = slept(now), of_calls = mine ? to_ns(mine->short_calls) : 0;
  if (ns > of_calls) blocked_ns += ns - of_calls;
  if (mine) mine->short_calls = 0;
}

void insitu_blocked_begin(void) {
  if (interval() != UINT64_MAX || !insitu_is_owner()) return;
  int error = errno;
  const struct insitu_header *header = insitu_table->header;
  insitu_pair_clocks();
  uint64_t elapsed = header->latest_tick - header->start_tick, ns = header->latest_ns - header->start_ns;
  if (is_main_thread() && ns) {
    uint64_t ticks = (uint64_t)((unsigned __int128)elapsed * INTERVAL_NS / ns) + 1;
    if (insitu_mpi_mine) insitu_mpi_mine->short_calls = 0; /* MPI_Init */
    sleeps = count_sleeps();
    checked_at = insitu_ticks();
    idle_ns = read_idle();
    worked_at_begin = worked_elsewhere();
    atomic_store_explicit(&insitu_blocked_interval, ticks, memory_order_relaxed);
  }
  errno = error;
}

void insitu_blocked_before_slow_call(struct insitu_mpi_thread *mine, uint64_t now) {
  if (interval() == UINT64_MAX) return; /* MPI_Initialized and the like */
  int error = errno;
  if (is_main_thread() && insitu_is_owner()) {
    end_interval(mine, now);
    mine->blocked_check_at = now + interval();
  } else {
    insitu_blocked_stop();
    mine->blocked_check_at = UINT64_MAX;
  }
  errno = error;
}

void insitu_blocked_discard(struct insitu_mpi_thread *mine, uint64_t now) {
  if (mine->blocked_check_at == UINT64_MAX || interval() == UINT64_MAX) return;
  int error = errno;
  slept(now);
  mine->short_calls = 0;
  mine->blocked_check_at = now + interval();
  errno = error;
}

void insitu_blocked_end(void) {
  if (interval() == UINT64_MAX || !insitu_is_owner() || insitu_is_stopped()) return; /* a child of fork has no table */
  struct insitu_header *header = insitu_table->header;
  if (header->blocked_ns) return;
  int error = errno, is_in_mpi = insitu_self && insitu_self->in_mpi; /* where the rank is killed or aborts */
  if (!is_main_thread() || has_children()) insitu_blocked_stop();
  else if (!is_in_mpi) end_interval(insitu_mpi_mine, insitu_ticks());
  uint64_t worked = worked_elsewhere(), most = insitu_processor_ns() / WORKED_ELSEWHERE;
  if (most < WORKED_NS) most = WORKED_NS;
  if (worked > worked_at_begin + most) insitu_blocked_stop();
  if (!atomic_load_explicit(&is_unknown, memory_order_relaxed)) header->blocked_ns = blocked_ns ? blocked_ns : 1;
  errno = error;
}
