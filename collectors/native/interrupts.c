/* Cancellation and signals, kept away while a lock is held; and forks, kept away while a descriptor is open. */
#define _GNU_SOURCE
#include "interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL(number) ((uint64_t)1 << ((number) - 1))
/* The C library's signal that cancels a thread. */
#define CANCEL SIGNAL(32)
/* Signals that the running instruction causes itself end the process if they are blocked. setuid waits until all
 * threads have handled signal 33 of the C library. Its signal 32, which cancels a thread, is blocked: it may be sent
 * before cancellation is disabled and arrive afterwards, and then the thread ended with a lock held in 2 of 18 runs of
 * `interrupted cancel` (glibc 2.36). */
#define UNBLOCKED                                                                                          \
  (SIGNAL(SIGSEGV) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) | SIGNAL(SIGSYS) | \
   SIGNAL(SIGABRT) | SIGNAL(33))

/* The kernel's call, because sample.c has functions for programs in place of those of the C library. */
struct insitu_interrupts insitu_block_interrupts(void) {
  struct insitu_interrupts before;
  const uint64_t blocked = ~UNBLOCKED;
  int saved = errno;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel_state);
  before.has_signals = !syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before.signals, sizeof before.signals);
  errno = saved;
  return before;
}

void insitu_restore_interrupts(const struct insitu_interrupts *before) {
  int unused, saved = errno;
  if (before->has_signals) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before->signals, NULL, sizeof before->signals);
  errno = saved;
  pthread_setcancelstate(before->cancel_state, &unused);
}

/* Returns whether the thread did not block it. */
int insitu_hold_cancellation(void) {
  const uint64_t blocked = CANCEL;
  uint64_t before = 0;
  int saved = errno, failed = (int)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof before);
  errno = saved;
  return !failed && !(before & CANCEL);
}

void insitu_release_cancellation(int is_held) {
  const uint64_t blocked = CANCEL;
  int saved = errno;
  if (is_held) syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &blocked, NULL, sizeof blocked);
  errno = saved;
}

/* ---- descriptors and forks ------------------------------------------------------------------------------------ */

/* Neither side waits without end, nor again after having waited in vain once: one more descriptor in a child is the
 * lesser harm.
 *
 * Whoever opens a file may hold a lock that a handler of the program waits for before the fork, so it waits for 20 ms.
 * Who forks waits longer, since a thread that has a file open waits for nothing but a processor, up to some 100 ms on a
 * crowded node. A debugger may have stopped it, or a handler left it with longjmp. */
#define WAIT_NS 50000 /* a file is open for some 20 us */
#define WAITS_FOR_FORKS 400
#define WAITS_FOR_FILES 20000

static atomic_uint open_files, forks;
static atomic_int has_waited_for_forks, has_waited_for_files; /* in vain */

static void wait_until_none(atomic_uint *count, int waits, atomic_int *is_in_vain) {
  const struct timespec pause = {0, WAIT_NS};
  int saved = errno;
  for (int i = 0; atomic_load(count) && !atomic_load(is_in_vain); i++) {
    if (i == waits) atomic_store(is_in_vain, 1);
    syscall(SYS_nanosleep, &pause, NULL);
  }
  errno = saved;
}

/* Sequentially consistent: of a thread that opens a file and one that forks, at least one sees the other. */
int insitu_descriptor_begins(void) {
  atomic_fetch_add(&open_files, 1);
  if (!atomic_load(&forks)) return 1;
  atomic_fetch_sub(&open_files, 1);
  return 0;
}

void insitu_descriptor_ends(void) {
  atomic_fetch_sub(&open_files, 1);
}

/* The kernel's calls: the program may define functions with the names of the C library's, which are cancellation points
 * besides. */
int insitu_open_hidden(const char *path, int flags) {
  while (!insitu_descriptor_begins()) {
    wait_until_none(&forks, WAITS_FOR_FORKS, &has_waited_for_forks);
    if (!atomic_load(&has_waited_for_forks)) continue; /* another fork may have begun meanwhile */
    atomic_fetch_add(&open_files, 1);
    break;
  }
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
  if (file < 0) insitu_descriptor_ends();
  return file;
}

void insitu_close_hidden(int file) {
  syscall(SYS_close, file);
  insitu_descriptor_ends();
}

void insitu_fork_begins(void) {
  atomic_fetch_add(&forks, 1);
  wait_until_none(&open_files, WAITS_FOR_FILES, &has_waited_for_files);
}

void insitu_fork_ends(void) {
  atomic_fetch_sub(&forks, 1);
}

/* It has one thread only. */
void insitu_fork_ends_in_child(void) {
  atomic_store(&forks, 0);
  atomic_store(&open_files, 0);
}
