/* Blocking collective calls, recorded so that the tables of all ranks show how long each waited for the others. */
#ifndef INSITU_MPI_MEETINGS_H
#define INSITU_MPI_MEETINGS_H

#include "intervals.h"
#include "mpi_library.h"
#include "table.h"

/* How a communicator of all ranks was made, if it may have fewer of them in a larger run: by MPI_Comm_split or
 * MPI_Comm_create, as one for the ranks with the same name of a host; or by MPI_Comm_split_type, whose ranks share a
 * node. A communicator that is made from such a one is as the latter. */
enum { INSITU_WHOLE = 0, INSITU_SPLIT = 1, INSITU_OF_NODE = 2 };

/* The sequences of collective calls and messages of a communicator; or of the collective calls of a window or file. */
struct insitu_sequence {
  A handle;
  uint64_t id;       /* the same in all ranks of the communicator; 0 if its calls are not recorded */
  uint64_t next_key; /* the key of its next blocking call */
  struct insitu_interval_base latest, synchronised; /* where intervals begin: at its latest call, or the latest in
                                                     * which every rank needed all others */
  uint32_t size, rank;
  int32_t sources;      /* what the rank needs of its neighbours, as in insitu_collective; 0 until it is looked up */
  uint32_t origin;      /* INSITU_WHOLE, INSITU_SPLIT or INSITU_OF_NODE */
  uint32_t is_recorded; /* whether its collective calls are recorded */
  uint32_t is_ordered;  /* whether its ranks agree on its id however they use it first */
  struct insitu_sampled started; /* its latest non-blocking collective */
  uint32_t persistent;           /* its persistent collectives so far */
  uint32_t objects;              /* windows and files that were created on it so far */
  uint32_t has_threads;          /* several threads exchange messages on it, which have no order */
  uint32_t is_wildcard_open;     /* a receive from any rank or with any tag is open */
  uint32_t has_lost_receives;    /* the order of receives is unknown from now on */
  _Atomic uint32_t its_thread;   /* the only thread that exchanges messages on it; 0: none yet */
};

/* Before the first of the non-blocking collectives with the same id. */
#define INSITU_NONE_STARTED {.number = UINT32_MAX, .flags = INSITU_COLLECTIVE}

/* One step of a hash, with the multiplier of splitmix64. */
static inline uint64_t insitu_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 29;
}

/* The sampling level of each row: one of 2^level calls is recorded. */
extern uint8_t insitu_collective_levels[INSITU_ROWS];

/* Look up the sequence of a communicator, and create it at first. */
struct insitu_sequence *insitu_sequence_find(const struct insitu_comm *comm);
/* Return the same, which is looked up once. */
static inline struct insitu_sequence *insitu_sequence_of(const struct insitu_comm *comm) {
  if (__builtin_expect(!comm->sequence, 0)) ((struct insitu_comm *)comm)->sequence = insitu_sequence_find(comm);
  return comm->sequence;
}
/* A communicator was created by a collective call of its ranks. All of them number it now, in the same order. */
void insitu_sequence_create(A handle, A parent, uint32_t origin);
/* Return how a communicator was made, without numbering it. */
uint32_t insitu_sequence_origin(const struct insitu_comm *comm);
/* A communicator is about to be freed: forget its sequence. */
void insitu_sequence_forget(A handle);
/* A window or file was created by a collective call of the ranks of a communicator. */
void insitu_object_create(A handle, const struct insitu_comm *comm);
/* Forget the sequence of a window or file that is about to be freed, and return a copy of it. */
struct insitu_sequence insitu_object_forget(A handle);
/* A collective call on a window or file ends now. Where the library lets ranks leave it before others have entered, the
 * reader of the events sees that. */
void insitu_object_end(struct insitu_thread *self, A handle, uint64_t now);
/* The last one, which frees it, with what insitu_object_forget has returned. */
void insitu_object_end_last(struct insitu_thread *self, struct insitu_sequence *sequence, uint64_t now);
/* What this rank needs in a neighbourhood collective: its sources. */
int32_t insitu_collective_sources(const struct insitu_comm *comm);
/* The collective call of the top frame is not compared with those of other ranks. */
void insitu_collective_uncompared(struct insitu_thread *self, const struct insitu_comm *comm, uint64_t now);
/* Record a call; first halve the sample if there is no room. */
void insitu_collective_record(const struct insitu_collective *event);

/* A call of this row is on this communicator. Atomic because another thread may set other flags of the row. */
static inline void insitu_row_note_comm(uint32_t row, const struct insitu_comm *comm) {
  uint32_t origin = comm->sequence ? comm->sequence->origin : insitu_sequence_origin(comm);
  uint32_t *flags = &insitu_rows[row].flags, flag = (uint32_t)ROW_ON_OTHER << origin;
  if (__builtin_expect(!(__atomic_load_n(flags, __ATOMIC_RELAXED) & flag), 0))
    __atomic_fetch_or(flags, flag, __ATOMIC_RELAXED);
}

/* The blocking collective of the top frame of this thread ends now, in a sequence that is recorded. The keys of a
 * sequence are a Weyl sequence: those below a bound are spread evenly, and without a period that could coincide with
 * that of a loop. */
static inline void insitu_sequence_end(struct insitu_thread *self, struct insitu_sequence *sequence, int32_t needs,
                                       int is_synchronising, uint64_t now) {
  uint64_t key = sequence->next_key;
  sequence->next_key = key + 0x9E3779B97F4A7C15u; /* 2^64 divided by the golden ratio */
  /* Ranks leave synchronising calls together: all of them find the same intervals too short. */
  uint64_t start = is_synchronising ? sequence->synchronised.start : sequence->latest.start;
  if (now - start >= INSITU_SHORTEST_INTERVAL && sequence->size > 1)
    insitu_interval_close(self, sequence, key, &(struct insitu_interval_end){needs, is_synchronising, now});
  const struct insitu_frame *frame = insitu_top(self);
  if (__builtin_expect(needs == INSITU_NEEDS_UNKNOWN, 0)) return;
  if (__builtin_expect(key >> 1 >> (63 - insitu_collective_levels[frame->row]) != 0, 1)) return;
  insitu_collective_record(
      &(struct insitu_collective){key, frame->start, now, frame->row, needs, sequence->rank, sequence->size});
}

/* The same on a communicator. */
static inline void insitu_collective_end(struct insitu_thread *self, const struct insitu_comm *comm, int32_t needs,
                                         int is_synchronising, uint64_t now) {
  struct insitu_sequence *sequence = insitu_sequence_of(comm);
  int is_recorded = sequence->is_recorded && insitu_is_on;
  if (__builtin_expect(is_recorded, 1)) insitu_sequence_end(self, sequence, needs, is_synchronising, now);
  if (__builtin_expect(!is_recorded || needs == INSITU_NEEDS_UNKNOWN, 0)) insitu_collective_uncompared(self, comm, now);
}

#endif
