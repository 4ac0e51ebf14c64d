/* Sampling: the CPU time of functions that were not built for it. */
#ifndef INSITU_SAMPLE_H
#define INSITU_SAMPLE_H

/* Begin to sample this process `per_second` times per second of CPU time of each thread. Called once, in the main
 * thread, when the table exists. If it is not possible, the header contains the reason. */
void insitu_sample_start(unsigned per_second);
/* The same in Python, with the function that evaluates it: what is sampled are functions that Python calls, and only if
 * the user asks for it. */
void insitu_sample_start_in_python(const void *evaluator);
extern unsigned insitu_sample_rate_in_python;
/* End it, in all threads. */
void insitu_sample_stop(void);

#endif
