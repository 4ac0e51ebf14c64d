/* The kernel's task clock of a thread: a signal each time that the thread has run for a given time. */
#ifndef INSITU_TASK_CLOCK_H
#define INSITU_TASK_CLOCK_H

#include <signal.h>
#include <stdint.h>

struct insitu_task_clock {
  void *_Atomic page; /* NULL while it is off */
  int number; /* 1 + the descriptor that is closed already, which its signals contain; 0 before the first start */
};

/* Send the calling thread the signal each time that it has run for `interval_ns`, and runs code of its own at that
 * moment. Returns whether the kernel permits it. Safe in signal handlers. */
int insitu_task_clock_start(struct insitu_task_clock *clock, int number, int64_t interval_ns);
/* End it, from any thread of the process. Returns whether it ran. Safe in signal handlers. */
int insitu_task_clock_stop(struct insitu_task_clock *clock);
/* Whether the clock sent a signal, possibly before it was stopped. */
int insitu_task_clock_sent(const struct insitu_task_clock *clock, const siginfo_t *info);

#endif
