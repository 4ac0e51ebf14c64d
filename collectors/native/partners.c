/* The partners of each row: a set of pairs of a row and a rank in MPI_COMM_WORLD, in a hash table with open addressing.
 *
 * The set is exact. Most calls find their partner among the recent ones of their thread and never come here. The table
 * file only has the number of partners per row, which this file keeps; a row for which there was no room has none. */
#define _GNU_SOURCE
#include "partners.h"

#include "mpi_collectives.h"
#include "table.h"

#include <pthread.h>
#include <sys/mman.h>

#define INITIAL_SLOTS 1024u
#define LARGEST_SLOTS (1u << 20) /* 8 MiB: half a million pairs, as many as 5 all-to-all exchanges of 100,000 ranks */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *pairs; /* row and rank + 1; 0 for a free slot */
static uint64_t slots, used;

/* Without MPI_THREAD_MULTIPLE only one thread at a time is in MPI, and no lock is needed. */
static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

/* ---- the set; called with `lock` held -------------------------------------------------------------------------- */

/* Return the slot of a pair, or the free one where it belongs. */
static uint64_t *slot_of(uint64_t pair) {
  uint64_t at = (pair * 0x9E3779B97F4A7C15u >> 32) & (slots - 1);
  while (pairs[at] && pairs[at] != pair) at = (at + 1) & (slots - 1);
  return &pairs[at];
}

static __attribute__((noinline)) int grow(void) {
  uint64_t *before = pairs, count = slots, more = slots ? 2 * slots : INITIAL_SLOTS;
  if (more > LARGEST_SLOTS) return 0;
  void *fresh = mmap(NULL, more * sizeof *pairs, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return 0;
  pairs = fresh;
  slots = more;
  for (uint64_t i = 0; i < count; i++)
    if (before[i]) *slot_of(before[i]) = before[i];
  if (before) munmap(before, count * sizeof *pairs);
  return 1;
}

/* Return the number of partners of a row in the table file, NULL if there is no room or nothing is recorded. */
static uint32_t *count_of(uint32_t row) {
  if (!insitu_is_on || !insitu_table) return NULL;
  if (insitu_partners_reserve(row)) return &insitu_table->partners[row];
  insitu_table->header->partners_refused++;
  return NULL;
}

/* Add a partner to a row; a negative rank adds none, but the row then has a number of partners. */
static void add(uint32_t row, int rank) {
  uint32_t *count = count_of(row);
  if (!count || *count == INSITU_PARTNERS_UNKNOWN) return;
  if (!*count) *count = 1;
  if (rank < 0) return;

  if (used >= slots / 2 && !grow()) {
    insitu_table->header->partners_refused++;
    *count = INSITU_PARTNERS_UNKNOWN;
    return;
  }
  uint64_t pair = (uint64_t)row << 32 | ((uint64_t)(uint32_t)rank + 1), *slot = slot_of(pair);
  if (*slot) return;
  *slot = pair;
  used++;
  if (*count == 1) *count = INSITU_PARTNER_ONLY | (uint32_t)rank;
  else *count = *count & INSITU_PARTNER_ONLY ? 3 : *count + 1;
}

/* ---- ranks of communicators ------------------------------------------------------------------------------------ */

int insitu_partner_is_world(const struct insitu_comm *comm) {
  struct insitu_comm *cached = (struct insitu_comm *)comm;
  if (!cached->world) cached->world = insitu_mpi_is_world(cached->handle) ? INSITU_IS_WORLD : INSITU_IS_OTHER;
  return cached->world == INSITU_IS_WORLD;
}

void insitu_partner_add(uint32_t row, int rank, const struct insitu_comm *comm) {
  if (insitu_is_on && insitu_table) insitu_row_note_comm(row, comm);
  int world = rank; /* queried without the lock, because MPI may take its own */
  if (rank >= 0 && !insitu_partner_is_world(comm)) world = insitu_mpi_world_rank(comm, rank);
  if (world >= 0 || rank == (int)insitu_mpi.proc_null) insitu_partner_add_world(row, world);
  else insitu_partner_unknown(row); /* MPI_ANY_SOURCE, or a rank of another MPI_COMM_WORLD */
}

void insitu_partner_add_world(uint32_t row, int rank) {
  begin();
  add(row, rank);
  end();
}

void insitu_partner_unknown(uint32_t row) {
  begin();
  uint32_t *count = count_of(row);
  if (count) *count = INSITU_PARTNERS_UNKNOWN;
  end();
}

void insitu_partner_add_neighbours(uint32_t row, const struct insitu_comm *comm) {
  int count = 0;
  const int *ranks = insitu_mpi_neighbour_ranks(comm, &count);
  if (!ranks) {
    insitu_partner_unknown(row);
    return;
  }
  insitu_partner_add_world(row, -1); /* a rank without neighbours has 0 partners */
  for (int i = 0; i < count; i++) insitu_partner_add(row, ranks[i], comm);
}
