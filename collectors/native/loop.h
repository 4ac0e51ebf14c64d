/* The main loop of the program: which function begins its iterations, and how long they take. */
#ifndef INSITU_LOOP_H
#define INSITU_LOOP_H

#include "table.h"

/* The row of the main loop is entered: an iteration ends and another begins. */
void insitu_loop_iteration(struct insitu_thread *self, uint64_t now);
/* So many iterations suffice for the user; 0 for all. */
void insitu_loop_limit(uint64_t iterations);
/* The program marks an iteration itself; from then on only its marks count. Returns whether those made suffice. */
int insitu_loop_mark(uint64_t now);
/* Look for the loop that takes most of the time, a few times a second; `elapsed` is in ticks of `tick_ns`. */
void insitu_loop_find(uint32_t rows_used, double elapsed, double tick_ns);

#endif
