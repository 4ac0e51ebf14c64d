/* Sampling: the CPU time of functions that were not built for it. */
#ifndef INSITU_SAMPLE_H
#define INSITU_SAMPLE_H

#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

/* Begin to sample this process `per_second` times per second of CPU time of each thread. Called once, in the main
 * thread, when the table exists. If it is not possible, the header contains the reason. */
void insitu_sample_start(unsigned per_second);
/* The same in Python, with the function that evaluates it: what is sampled are functions that Python calls, and only if
 * the user asks for it. */
void insitu_sample_start_in_python(const void *evaluator);
extern unsigned insitu_sample_rate_in_python;
/* End it, in all threads. */
void insitu_sample_stop(void);
/* End it if the program has set a handler of the signal by the kernel's interface, as the runtime of Go does. */
void insitu_sample_check(void);
/* Give a signal that is ours back before a function reads or sets its handler and its mask. */
void insitu_sample_give_back(int number);

/* ---- for sample_threads.c ---- */

/* Begin to sample the calling thread. Returns 0 or an errno. */
int insitu_sample_thread(void);

/* ---- for sample_entry.c ---- */

/* The handler of the signal. It does nothing while the thread pointer is not that of a sampled thread. */
void insitu_sample_enter(int number, siginfo_t *info, void *context);
/* What it calls then. */
void insitu_sample_take(siginfo_t *info, void *context);
/* From now on the calling thread is sampled, with the index of its area; the thread of this index is not any more. */
void insitu_sample_know_thread(ptrdiff_t index);
void insitu_sample_forget_thread(ptrdiff_t index);

/* ---- for sample_signals.c ---- */

#define INSITU_SAMPLE_SIGNAL SIGURG
#define INSITU_SAMPLE_TIMERS "the program has timers that send signals"

/* Whether the handler of the signal is ours. */
int insitu_sample_is_on(void);
/* End it for a reason, which the header then contains. Leaves errno alone. */
void insitu_sample_refuse(const char *reason);
/* Set what the program has set for the signal. */
void insitu_sample_restore(void);
/* Let the program have a signal that is not ours; sampling then ends. */
void insitu_sample_pass_on(siginfo_t *info, void *context);
/* Whether timers of CPU time send their signals on return to the program. Older kernels may send them just before a
 * call waits, which then ends with EINTR. */
int insitu_sample_has_late_signals(void);
/* Whether a timer or a task clock of ours sent a signal. */
int insitu_sample_sent(const siginfo_t *info);
/* Whether the signals of a timer of the process often come at the same tick as ours. */
int insitu_sample_meets(int which, const struct itimerval *times);
/* Let the timer of the calling thread stand still. Returns whether it ran. */
int insitu_sample_hold(void);
/* Let it go on, if it does not run. */
void insitu_sample_resume(void);
/* The same, unless the thread blocks the signal. */
void insitu_sample_release(void);

#endif
