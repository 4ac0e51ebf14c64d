/* What a table holds of single MPI calls: collective calls, what happened between them, and messages. A part of
 * table.h, which includes it. */
#ifndef INSITU_TABLE_EVENTS_H
#define INSITU_TABLE_EVENTS_H

#include <stdint.h>

#define INSITU_INTERVAL_ROWS 14 /* call paths of an interval: those that took longest */

/* What a rank needs to leave a collective call, if it is not one other rank. */
enum {
  INSITU_NEEDS_ALL = -1,
  INSITU_NEEDS_NOBODY = -2,
  INSITU_NEEDS_LOWER = -3,
  INSITU_NEEDS_LISTED = -4, /* this and below: the ranks of the list that many words behind the first list */
  INSITU_NEEDS_UNKNOWN = INT32_MIN,
};

/* A blocking collective call. From those of all ranks the reader computes how long each rank waited. */
struct insitu_collective {
  uint64_t key; /* the same in all ranks of the communicator */
  uint64_t begin, end;
  uint32_t row;
  int32_t needs; /* the rank that must arrive before this one can leave, or INSITU_NEEDS_... */
  uint32_t rank, size;
};

/* What a rank did from the end of a collective call to another one of the same communicator. */
struct insitu_interval {
  uint64_t key, previous_key; /* of the call that ends it and of the one before, the same in all ranks */
  uint64_t start;             /* the end of the call before */
  uint64_t begin, end;        /* of the call that ends it */
  uint32_t row;               /* of that call */
  int32_t needs;              /* this and the next two as in insitu_collective */
  uint32_t rank, size;
  uint32_t reserved;
  uint32_t count; /* of the following */
  uint32_t rows[INSITU_INTERVAL_ROWS];
  float ticks[INSITU_INTERVAL_ROWS]; /* what each of the rows took itself, descending */
};

/* A point-to-point message as one of its two ranks sees it, or a non-blocking collective as one of its ranks does. From
 * all of them the reader computes how long each waited. */
struct insitu_message {
  uint64_t key;        /* the same in all ranks */
  uint64_t posted;     /* when the send, the receive or the collective was started */
  uint64_t begin, end; /* of the call that completed it */
  uint32_t row;        /* of that call */
  uint32_t call;       /* the number of that call; messages that it completed together have the same */
  uint32_t number;     /* of this message between its ranks on its communicator */
  uint32_t size;       /* bytes of a message; of a collective the ranks of its communicator, 0 if it is not compared */
  uint32_t members;    /* messages of the call, all of which must be known; 0 if its waiting cannot be known */
  uint16_t flags;      /* INSITU_RECEIVED, ... */
  uint16_t level;      /* up to which sampling level the message belongs to the sample */
  int32_t needs;       /* this and the next one of a collective, as in insitu_collective */
  uint32_t rank;
};
_Static_assert(sizeof(struct insitu_message) == 64, "as in table.py");
/* Flags of a message, and of the call that completes it. FIRST: the call returns with the first message that arrives.
 * PROBED: the call only looked at the message. MATCHED: the receive starts after the call (MPI_Mprobe). UNCLEAR: the
 * call does not wait, or not all that it completes is known. COLLECTIVE: this is no message. */
enum {
  INSITU_RECEIVED = 1,
  INSITU_FIRST = 2,
  INSITU_PROBED = 4,
  INSITU_MATCHED = 8,
  INSITU_UNCLEAR = 16,
  INSITU_COLLECTIVE = 32,
};

#endif
