/* Cancellation and signals, kept away while a lock is held. */
#define _GNU_SOURCE
#include "interrupts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
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
