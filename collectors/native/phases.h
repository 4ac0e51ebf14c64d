/* Phases of the program: iterations of its main loop and named phases, both marked by the program. */
#ifndef INSITU_PHASES_H
#define INSITU_PHASES_H

#include <stdint.h>

/* The program marks the beginning of a phase. A named phase has a row, with the activity of the whole process until the
 * next named one; other marks begin an iteration. Returns whether the iterations made suffice for the user. */
int insitu_phase_mark(const char *name, int is_named);
/* The same for compiled programs: a named phase begins. */
void insitu_phase(const char *name);
/* An iteration begins. */
int insitu_iteration(void);
/* Wake the agent, which reads the memory of this process from outside. It does not matter if nobody listens. */
void insitu_wake_agent(void);
/* The running named phase ends, and no other begins. */
void insitu_phase_end(uint64_t now);

#endif
