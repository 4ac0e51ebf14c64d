/* The n-th blocking collective of a communicator is the same call in all its ranks. A number that follows from these
 * ranks, from how many communicators of just these ranks met before, and from n is a key on which ranks agree without
 * a word.
 *
 * All meetings are kept while there is room. Then the rows that hold most give up those whose key does not begin with
 * one more zero bit: what is left is an even sample, and the same one in all ranks that keep it equally rarely. */
#define _GNU_SOURCE
#include "mpi_collectives.h"

#include <pthread.h>
#include <string.h>

#define PARTIES 256u  /* communicators that are met in at a time */
#define CIRCLES 1024u /* sets of ranks that made communicators */
#define LARGEST 4096  /* no node has as many ranks */

uint8_t insitu_meeting_levels[INSITU_ROWS];
static uint16_t kept[INSITU_ROWS]; /* meetings of a row */
static int is_full;                /* no room, not even for the first ones: it is not asked for again */

static struct insitu_party parties[PARTIES], nobody;
static struct {
  uint64_t ranks;
  uint64_t communicators;
} circles[CIRCLES];
static unsigned circles_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

/* ---- which communicator --------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t hash, uint64_t more) {
  hash = (hash ^ more) * 0xBF58476D1CE4E5B9u;
  return hash ^ hash >> 29;
}

/* A hash of the ranks in MPI_COMM_WORLD that form the communicator, in order; 0 where they cannot be told. */
static uint64_t hash_of_ranks(const struct insitu_comm *comm) {
  int *here = insitu_mpi_scratch(2 * (uint64_t)comm->size * sizeof *here), *world = here + comm->size;
  if (!here || insitu_mpi_world_ranks(comm->handle, comm->size, here, world)) return 0;
  uint64_t hash = (uint64_t)comm->size;
  for (int i = 0; i < comm->size; i++) {
    if (world[i] < 0) return 0; /* of another MPI_COMM_WORLD: it was spawned, or has connected */
    hash = mixed(hash, (uint64_t)world[i] + 1);
  }
  return hash | 1;
}

/* Called with `lock` held. */
static uint64_t number_of(uint64_t ranks) {
  unsigned at = 0;
  while (at < circles_used && circles[at].ranks != ranks) at++;
  if (at == CIRCLES) return 0;
  if (at == circles_used) circles[circles_used++].ranks = ranks;
  return ++circles[at].communicators;
}

struct insitu_party *insitu_party_find(const struct insitu_comm *comm) {
  struct insitu_party *unused = NULL, *found = NULL;
  if (comm->is_inter || comm->size < 1 || comm->size > LARGEST || comm->rank < 0) return &nobody;
  begin();
  for (unsigned at = 0; at < PARTIES && !found; at++) {
    if (parties[at].size && parties[at].handle == comm->handle) found = &parties[at];
    else if (!parties[at].size && !unused) unused = &parties[at];
  }
  if (!found && unused) {
    uint64_t ranks = hash_of_ranks(comm), number = ranks ? number_of(ranks) : 0;
    found = unused;
    uint64_t id = number ? mixed(ranks, number) | 1 : 0;
    *found = (struct insitu_party){comm->handle, id, id, (uint32_t)comm->size, (uint32_t)comm->rank};
  }
  end();
  return found ? found : &nobody;
}

void insitu_party_forget(A handle) {
  begin();
  for (unsigned at = 0; at < PARTIES; at++)
    if (parties[at].handle == handle) parties[at].size = 0;
  end();
}

/* ---- which meetings ------------------------------------------------------------------------------------------- */

static int is_kept(const struct insitu_collective *meeting) {
  return !(meeting->key >> 1 >> (63 - insitu_meeting_levels[meeting->row]));
}

/* Rows that hold more than half of what the largest holds lose half of it. Returns what is left. */
static uint32_t thin(struct insitu_collective *meetings, uint32_t used) {
  uint32_t left = 0;
  unsigned most = 0;
  for (uint32_t i = 0; i < used; i++)
    if (kept[meetings[i].row] > most) most = kept[meetings[i].row];
  for (uint32_t i = 0; i < used; i++) {
    uint32_t row = meetings[i].row;
    if (2u * kept[row] > most && insitu_meeting_levels[row] < 63) insitu_meeting_levels[row]++;
    kept[row] = 0; /* its level rises once */
  }
  for (uint32_t i = 0; i < used; i++) {
    if (!is_kept(&meetings[i])) continue;
    kept[meetings[i].row]++;
    meetings[left++] = meetings[i];
  }
  return left;
}

static void keep(const struct insitu_collective *meeting) {
  struct insitu_header *header = insitu_table->header;
  struct insitu_collective *meetings = insitu_table->collectives;
  uint32_t used = header->collectives_used;
  if (is_full || !is_kept(meeting)) return; /* another thread may have thinned them */
  if (used == INSITU_COLLECTIVES) {
    header->collectives_sequence++; /* odd: readers wait */
    atomic_thread_fence(memory_order_seq_cst);
    used = thin(meetings, used);
    header->collectives_used = used;
    atomic_thread_fence(memory_order_seq_cst);
    header->collectives_sequence++;
    if (used == INSITU_COLLECTIVES || !is_kept(meeting)) return;
  }
  if (!insitu_collectives_reserve(used + 1)) {
    is_full = 1;
    return;
  }
  meetings[used] = *meeting;
  kept[meeting->row]++;
  /* A reader takes those below collectives_used as complete. */
  __atomic_store_n(&header->collectives_used, used + 1, __ATOMIC_RELEASE);
}

void insitu_meeting_keep(const struct insitu_collective *meeting) {
  begin();
  if (insitu_table) keep(meeting);
  end();
}
