/* What the hook may cost, and which loop is the program's main one: both are looked at a few times a second. */
#ifndef INSITU_BUDGET_H
#define INSITU_BUDGET_H

#include "frames.h"

/* Begin: a call and its return cost `event_ns` (0: not known), `budget` is the share of time that is allowed, 0 for
 * any. */
void insitu_budget_begin(double event_ns, double budget);
/* insitu_budget_look: throttle what is called too often; find the main loop. The interpreter's lock is held. */

/* The row of the main loop is entered: an iteration ends and another begins. */
void insitu_loop_turn(struct insitu_thread *self, uint64_t now);
/* The program says so itself; from then on nothing else does. */
void insitu_phase_turn(uint64_t now);

#endif
