/* What a rank did between two collective calls of a communicator, for the agent to find out who caused waiting. */
#ifndef INSITU_INTERVALS_H
#define INSITU_INTERVALS_H

#include "table.h"

struct insitu_sequence;

/* Ticks, about 20 us. Shorter intervals count as part of the next one: closing one takes some 0.1 us. */
#define INSITU_SHORTEST_INTERVAL (1u << 16)

/* Where an interval begins. */
struct insitu_interval_base {
  uint64_t start;   /* ticks; 0 if there was no call yet */
  uint64_t key;     /* of the call that ended then */
  uint64_t journal; /* where the journal was then */
};

/* How it ends. */
struct insitu_interval_end {
  int32_t needs; /* as in insitu_collective */
  int is_synchronising;
  uint64_t now;
};

/* The collective call of the top frame ends: close the interval of its communicator, and begin the next one. */
void insitu_interval_close(struct insitu_thread *self, struct insitu_sequence *sequence, uint64_t key,
                           const struct insitu_interval_end *end);

#endif
