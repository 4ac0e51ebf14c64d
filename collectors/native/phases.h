/* Phases of the program: the iterations of its main loop, and parts of it that it names. */
#ifndef INSITU_PHASES_H
#define INSITU_PHASES_H

#include <stdint.h>

/* The program says that a phase begins. One with a name has a row, which tells what the whole process does until the
 * next one with a name; others are iterations. */
void insitu_phase_mark(const char *name, int is_named);
/* The same for compiled programs: a phase with a name begins. */
void insitu_phase(const char *name);
/* The named phase that runs ends, and none begins. */
void insitu_phase_end(uint64_t now);

#endif
