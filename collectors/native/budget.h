/* What the hook may cost, looked at a few times a second. */
#ifndef INSITU_BUDGET_H
#define INSITU_BUDGET_H

#include "frames.h"

/* Begin: a call and its return cost `event_ns` (0: not known), `budget` is the share of time that is allowed, 0 for
 * any. */
void insitu_budget_begin(double event_ns, double budget);
/* insitu_budget_look: throttle what is called too often; find the main loop. The interpreter's lock is held. */

#endif
