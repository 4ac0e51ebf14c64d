#ifndef INSITU_INTERRUPTS_H
#define INSITU_INTERRUPTS_H

#include <stdint.h>

/* Slow paths open files and take locks inside functions that POSIX does not allow to be cancelled, such as malloc. A
 * thread that was cancelled there, that left with siglongjmp, or that waits in a signal handler for another thread, as
 * garbage collectors stop threads, would keep the lock. So neither happens between these two functions. But a signal of
 * the process is handled by another thread meanwhile: no frequent path may use them. */
struct insitu_interrupts {
  int cancel_state;
  int has_signals; /* whether `signals` is known */
  uint64_t signals;
};
struct insitu_interrupts insitu_block_interrupts(void);
void insitu_restore_interrupts(const struct insitu_interrupts *before);

/* The same for asynchronous cancellation alone, where no lock is taken: no other thread gets a signal because of us. */
int insitu_hold_cancellation(void);
void insitu_release_cancellation(int is_held);

/* Open a file for a moment, without a child of fork() that inherits its descriptor: another thread that forks waits
 * until it is closed. The caller keeps cancellation away from before the one until after the other. */
int insitu_open_hidden(const char *path, int flags);
void insitu_close_hidden(int file);
/* The same for a descriptor that is opened otherwise, without waiting: returns 0 while another thread forks. */
int insitu_descriptor_begins(void);
void insitu_descriptor_ends(void);
/* Called before and after a fork, in the parent and in the child. */
void insitu_fork_begins(void);
void insitu_fork_ends(void);
void insitu_fork_ends_in_child(void);

#endif
