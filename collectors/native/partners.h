/* How many distinct ranks the calls of each row send to, receive from or access, by their ranks in MPI_COMM_WORLD. */
#ifndef INSITU_PARTNERS_H
#define INSITU_PARTNERS_H

#include "mpi_library.h"

/* Record a partner that is not among the recent ones of this thread. MPI_PROC_NULL is none. */
void insitu_partner_add(uint32_t row, int rank, const struct insitu_comm *comm);
/* The same for a rank in MPI_COMM_WORLD; a negative one is none, but the row has a number of partners from now on. */
void insitu_partner_add_world(uint32_t row, int rank);
/* A call of this row has a partner that cannot be known: from now on the row has no number of partners. */
void insitu_partner_unknown(uint32_t row);
/* Record the neighbours of this rank in the topology of the communicator. */
void insitu_partner_add_neighbours(uint32_t row, const struct insitu_comm *comm);
/* Whether the ranks of the communicator are those of MPI_COMM_WORLD, in the same order. */
int insitu_partner_is_world(const struct insitu_comm *comm);

#define INSITU_ALL_NEIGHBOURS 0xFFFFFFu /* in place of a rank */
#define INSITU_WORLD_ITSELF 0u          /* in place of the number of a communicator: MPI_COMM_WORLD */

/* Return whether this pair is among the recent partners of the thread; from now on it is. A key is used in one of two
 * adjacent slots, so that two pairs that meet in a slot do not replace each other at every call. */
static inline int insitu_partner_is_recent(uint32_t row, uint32_t rank, uint32_t number) {
  uint64_t key = (uint64_t)number << 40 | (uint64_t)row << 24 | (rank & 0xFFFFFF);
  unsigned at = (rank + row * 0x9E3779B1u + number * 0x85EBCA6Bu) & (INSITU_RECENT_PARTNERS - 1);
  uint64_t *recent = insitu_mpi_mine->recent_partners;
  if (__builtin_expect(recent[at] == key || recent[at ^ 1] == key, 1)) return 1;
  recent[at ^ 1] = recent[at];
  recent[at] = key;
  return 0;
}

/* A call of this row sends to or receives from `rank` of a communicator. */
static inline void insitu_partner(uint32_t row, A rank, A comm) {
  const struct insitu_comm *known = insitu_mpi_comm(comm);
  if (__builtin_expect(!insitu_partner_is_recent(row, (uint32_t)rank, known->number), 0))
    insitu_partner_add(row, (int)rank, known);
}

/* The same for `rank` of a window. */
static inline void insitu_partner_target(uint32_t row, A rank, A window) {
  const struct insitu_comm *known = insitu_mpi_window(window);
  if (__builtin_expect(!insitu_partner_is_recent(row, (uint32_t)rank, known->number), 0))
    insitu_partner_add(row, (int)rank, known);
}

#endif
