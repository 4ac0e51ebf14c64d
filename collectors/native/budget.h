/* The budget of the hook: what it may cost, checked a few times a second. */
#ifndef INSITU_BUDGET_H
#define INSITU_BUDGET_H

#include <stdint.h>

/* The tick of the next check; the hook compares it with the clock that it reads anyway. */
extern uint64_t insitu_budget_check_at;

/* Begin: a call and its return cost `event_ns` (0: unknown); `budget` is the largest share of the time that the hook
 * may take, 0 for no limit. */
void insitu_budget_begin(double event_ns, double budget);
/* Throttle functions that are called too often, and look for the main loop. The caller holds the interpreter's lock. */
void insitu_budget_check(uint64_t now);

#endif
