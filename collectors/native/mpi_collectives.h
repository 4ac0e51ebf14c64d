/* Blocking collective calls, kept so that the tables of all ranks tell how long each waited for the others. */
#ifndef INSITU_MPI_MEETINGS_H
#define INSITU_MPI_MEETINGS_H

#include "mpi_library.h"
#include "table.h"

/* The ranks of a communicator, as they meet in its blocking collectives. */
struct insitu_party {
  A handle;
  uint64_t id;   /* the same in all its ranks; 0 of ranks whose meetings are not kept */
  uint64_t next; /* the key of the meeting to come */
  uint32_t size, rank;
};

/* How rarely meetings of a row are kept: one of 2 to the power of this. */
extern uint8_t insitu_meeting_levels[INSITU_ROWS];

/* The party of a communicator that is about to meet for the first time since this thread looked. */
struct insitu_party *insitu_party_find(const struct insitu_comm *comm);
/* A communicator is about to be freed. */
void insitu_party_forget(A handle);
void insitu_meeting_keep(const struct insitu_collective *meeting);

/* A call of the frame on top of this thread ends now, in which this rank needed others. The keys of a party are a Weyl
 * sequence: those below a bound are spread evenly, and with no period that a loop could have as well. */
static inline void insitu_meet(struct insitu_thread *self, const struct insitu_comm *comm, int32_t needs,
                               uint64_t now) {
  struct insitu_party *party = comm->party;
  if (__builtin_expect(!party, 0)) party = ((struct insitu_comm *)comm)->party = insitu_party_find(comm);
  if (__builtin_expect(!party->id || !insitu_is_on, 0)) return;
  uint64_t key = party->next;
  party->next = key + 0x9E3779B97F4A7C15u; /* 2^64 divided by the golden ratio */
  const struct insitu_frame *frame = insitu_top(self);
  if (__builtin_expect(key >> 1 >> (63 - insitu_meeting_levels[frame->row]) != 0, 1)) return;
  insitu_meeting_keep(&(struct insitu_collective){key, frame->start, now, frame->row, needs, party->rank, party->size});
}

#endif
