/* The main loop of the program: which function begins its iterations, and how long they take. */
#ifndef INSITU_LOOP_H
#define INSITU_LOOP_H

#include "table.h"

/* The row of the main loop is entered: an iteration ends and another begins. */
void insitu_loop_turn(struct insitu_thread *self, uint64_t now);
/* The program says so itself; from then on nothing else does. */
void insitu_phase_turn(uint64_t now);
/* Look a few times a second which loop takes most of the time; `elapsed` in ticks of `tick_ns`. */
void insitu_loop_follow(uint32_t rows_used, double elapsed, double tick_ns);

#endif
