/* Cancellation and signals, kept away while a lock is held. */
#define _GNU_SOURCE
#include "interrupts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNAL(number) ((uint64_t)1 << ((number) - 1))
/* Signals that the running instruction causes itself end the process if they are blocked. Two more belong to the C
 * library, which waits for their handlers in all threads. */
#define UNBLOCKED                                                                                          \
  (SIGNAL(SIGSEGV) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) | SIGNAL(SIGSYS) | \
   SIGNAL(SIGABRT) | SIGNAL(32) | SIGNAL(33))

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
