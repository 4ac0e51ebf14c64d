/* Blocking collective calls, recorded so that the tables of all ranks show how long each waited for the others.
 *
 * The n-th blocking collective of a communicator is the same call in all its ranks. Its key is a hash of these ranks,
 * of the number of earlier communicators of exactly these ranks, and of n, so that ranks agree on it without
 * communication.
 *
 * All calls are recorded while there is room. Then the rows with most events drop those whose key does not begin with
 * one more zero bit. What remains is an even sample, and the same one in all ranks with the same sampling level. */
#define _GNU_SOURCE
#include "mpi_collectives.h"

#include <pthread.h>
#include <string.h>

#define SEQUENCES 1024u /* communicators at a time */
#define GROUPS 1024u    /* distinct sets of ranks that formed communicators */
#define LARGEST 65536   /* larger communicators are not recorded; one translates all their ranks */

uint8_t insitu_collective_levels[INSITU_ROWS];
static uint16_t recorded[INSITU_ROWS]; /* events of each row */
static int is_full;                    /* the disk is full: no further attempts */

static struct insitu_sequence sequences[SEQUENCES];
static struct insitu_sequence unrecorded = {
    .started = INSITU_NONE_STARTED}; /* of all communicators whose calls are not recorded */
static struct {
  uint64_t ranks;
  uint64_t communicators;
} groups[GROUPS];
static unsigned groups_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything above */

/* Without MPI_THREAD_MULTIPLE only one thread at a time is in MPI, and no lock is needed. */
static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

/* ---- sequences of communicators ------------------------------------------------------------------------------- */

/* Return a hash of the ranks in MPI_COMM_WORLD that form the communicator, in order; 0 if they are unknown. */
static uint64_t hash_of_ranks(const struct insitu_comm *comm) {
  int *here = insitu_mpi_scratch(2 * (uint64_t)comm->size * sizeof *here), *world = here + comm->size;
  if (!here || insitu_mpi_world_ranks(comm->handle, comm->size, here, world)) return 0;
  uint64_t hash = (uint64_t)comm->size;
  for (int i = 0; i < comm->size; i++) {
    if (world[i] < 0) return 0; /* a rank of another MPI_COMM_WORLD, which was spawned or has connected */
    hash = insitu_mix(hash, (uint64_t)world[i] + 1);
  }
  return hash | 1;
}

/* Return how many communicators of exactly these ranks there have been, with this one; 0 if there is no room. Called
 * with `lock` held. */
static uint64_t count_communicators(uint64_t ranks) {
  unsigned at = 0;
  while (at < groups_used && groups[at].ranks != ranks) at++;
  if (at == GROUPS) return 0;
  if (at == groups_used) groups[groups_used++].ranks = ranks;
  return ++groups[at].communicators;
}

/* Return the sequence of a communicator, and create it if there is none. Called with `lock` held. */
static struct insitu_sequence *find_sequence(const struct insitu_comm *comm, int is_ordered) {
  struct insitu_sequence *unused = NULL, *sequence = NULL;
  if (comm->is_inter || comm->size < 1 || comm->size > LARGEST || comm->rank < 0) return &unrecorded;
  for (unsigned at = 0; at < SEQUENCES && !sequence; at++) {
    if (sequences[at].size && sequences[at].handle == comm->handle) sequence = &sequences[at];
    else if (!sequences[at].size && !unused) unused = &sequences[at];
  }
  if (!sequence && unused) {
    uint64_t ranks = hash_of_ranks(comm), number = ranks ? count_communicators(ranks) : 0;
    sequence = unused;
    uint64_t id = number ? insitu_mix(ranks, number) | 1 : 0;
    *sequence = (struct insitu_sequence){
        .handle = comm->handle,
        .id = id,
        .next_key = id,
        .size = (uint32_t)comm->size,
        .rank = (uint32_t)comm->rank,
        .started = INSITU_NONE_STARTED,
        .is_recorded = id != 0,
        .is_ordered = id && is_ordered,
    };
  }
  return sequence ? sequence : &unrecorded;
}

/* MPI_COMM_WORLD comes before all other communicators of its ranks. It is queried into memory of our own, because
 * `comm` may be in the slot of the cache that it would take. Called with `lock` held. */
static void find_world(void) {
  static int is_done;
  struct insitu_comm world;
  if (is_done || !insitu_mpi_is_initialised()) return; /* sessions have none */
  is_done = 1;
  insitu_mpi_query_comm(insitu_mpi_handle(insitu_mpi.comm_world), &world, 0);
  find_sequence(&world, 1);
}

struct insitu_sequence *insitu_sequence_find(const struct insitu_comm *comm) {
  begin();
  find_world();
  struct insitu_sequence *sequence = find_sequence(comm, 0);
  end();
  return sequence;
}

/* Append a list of ranks to those of the table. Called with `lock` held. */
static int32_t list(const int *ranks, uint32_t count) {
  struct insitu_header *header = insitu_table->header;
  uint32_t start = (uint32_t)header->listed_used, *listed = insitu_table->listed + start;
  if (!ranks || count + 1 > INSITU_LISTED - start || !insitu_listed_reserve()) return INSITU_NEEDS_UNKNOWN;
  listed[0] = 0;
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] >= 0) listed[++listed[0]] = (uint32_t)ranks[i]; /* absent neighbours are MPI_PROC_NULL */
  header->listed_used += 1 + listed[0];
  return INSITU_NEEDS_LISTED - (int32_t)start;
}

int32_t insitu_collective_sources(const struct insitu_comm *comm) {
  struct insitu_sequence *sequence = insitu_sequence_of(comm);
  if (!sequence->is_recorded || !insitu_is_on) return INSITU_NEEDS_UNKNOWN;
  if (__builtin_expect(!sequence->sources, 0)) {
    int count;
    const int *ranks = insitu_mpi_neighbour_ranks(comm, &count);
    begin();
    sequence->sources = list(ranks, (uint32_t)comm->sources);
    end();
  }
  return sequence->sources;
}

void insitu_collective_uncompared(struct insitu_thread *self, const struct insitu_comm *comm, uint64_t now) {
  if (!insitu_is_on) return;
  struct insitu_header *header = insitu_table->header;
  begin();
  header->uncompared_ticks += now - insitu_top(self)->start;
  if (comm->is_inter) header->uncompared_inter++;
  else if (!comm->sequence->is_recorded) header->uncompared_unnumbered++;
  else header->uncompared_unlisted++;
  end();
}

/* Return the sequence with this handle, NULL if there is none. Handles of windows, files and communicators differ in
 * all ABIs, so that one table holds all sequences. Called with `lock` held. */
static struct insitu_sequence *search(A handle) {
  for (unsigned at = 0; at < SEQUENCES; at++)
    if (sequences[at].size && sequences[at].handle == handle) return &sequences[at];
  return NULL;
}

void insitu_sequence_create(A handle, A parent, uint32_t origin) {
  if (handle == insitu_mpi.comm_null) return;
  struct insitu_comm *comm = (struct insitu_comm *)insitu_mpi_comm(handle);
  begin();
  find_world();
  const struct insitu_sequence *from = search(insitu_mpi_handle(parent));
  if (from && from->origin > origin) origin = from->origin;
  comm->sequence = find_sequence(comm, 1);
  int is_whole = insitu_table && comm->size == insitu_table->header->mpi_size;
  if (comm->sequence != &unrecorded) comm->sequence->origin = is_whole ? origin : INSITU_WHOLE;
  end();
}

uint32_t insitu_sequence_origin(const struct insitu_comm *comm) {
  begin();
  const struct insitu_sequence *sequence = search(comm->handle);
  uint32_t origin = sequence ? sequence->origin : INSITU_WHOLE;
  end();
  return origin;
}

void insitu_sequence_forget(A handle) {
  begin();
  for (unsigned at = 0; at < SEQUENCES; at++)
    if (sequences[at].handle == handle) sequences[at].size = 0;
  end();
}

/* ---- windows and files ---------------------------------------------------------------------------------------- */

/* Called with `lock` held. */
static struct insitu_sequence *find_object(A handle) {
  struct insitu_sequence **latest = &insitu_mpi_mine->object;
  if (!*latest || !(*latest)->size || (*latest)->handle != handle) *latest = search(handle);
  return *latest;
}

void insitu_object_create(A handle, const struct insitu_comm *comm) {
  struct insitu_sequence *on = insitu_sequence_of(comm);
  if (!on->is_recorded) return;
  begin();
  struct insitu_sequence *sequence = search(handle); /* of one that was freed unseen */
  uint64_t id = insitu_mix(insitu_mix(on->id, 3), ++on->objects) | 1;
  for (unsigned at = 0; at < SEQUENCES && !sequence; at++)
    if (!sequences[at].size) sequence = &sequences[at];
  if (sequence)
    *sequence = (struct insitu_sequence){
        .handle = handle, .id = id, .next_key = id, .size = on->size, .rank = on->rank, .is_recorded = 1};
  end();
}

struct insitu_sequence insitu_object_forget(A handle) {
  struct insitu_sequence copy = {0};
  begin();
  struct insitu_sequence *sequence = find_object(handle);
  if (sequence) {
    copy = *sequence;
    sequence->size = 0;
  }
  end();
  return copy;
}

void insitu_object_end_last(struct insitu_thread *self, struct insitu_sequence *sequence, uint64_t now) {
  if (sequence->is_recorded && insitu_is_on) insitu_sequence_end(self, sequence, INSITU_NEEDS_ALL, 0, now);
}

void insitu_object_end(struct insitu_thread *self, A handle, uint64_t now) {
  begin();
  struct insitu_sequence *sequence = find_object(handle);
  end();
  if (sequence) insitu_object_end_last(self, sequence, now);
}

/* ---- the sample ----------------------------------------------------------------------------------------------- */

/* Whether an event belongs to the sample of its row: its key begins with as many zero bits as the level says. */
static int is_sampled(const struct insitu_collective *event) {
  return !(event->key >> 1 >> (63 - insitu_collective_levels[event->row]));
}

/* Halve the sample of each row that has more than half as many events as the largest. Returns how many events remain.
 */
static uint32_t halve(struct insitu_collective *events, uint32_t used) {
  uint32_t left = 0;
  unsigned most = 0;
  for (uint32_t i = 0; i < used; i++)
    if (recorded[events[i].row] > most) most = recorded[events[i].row];
  for (uint32_t i = 0; i < used; i++) {
    uint32_t row = events[i].row;
    if (2u * recorded[row] > most && insitu_collective_levels[row] < 63) insitu_collective_levels[row]++;
    recorded[row] = 0; /* so that the level of a row rises only once */
  }
  for (uint32_t i = 0; i < used; i++) {
    if (!is_sampled(&events[i])) continue;
    recorded[events[i].row]++;
    events[left++] = events[i];
  }
  return left;
}

static void record(const struct insitu_collective *event) {
  struct insitu_header *header = insitu_table->header;
  struct insitu_collective *events = insitu_table->collectives;
  uint32_t used = header->collectives_used;
  if (is_full || !is_sampled(event)) return; /* another thread may have raised the level */
  if (used == INSITU_COLLECTIVES) {
    /* A sequence lock: readers discard what they read while the number is odd or changes. The fences keep the moves
     * between the two increments. */
    header->collectives_sequence++;
    atomic_thread_fence(memory_order_seq_cst);
    used = halve(events, used);
    header->collectives_used = used;
    atomic_thread_fence(memory_order_seq_cst);
    header->collectives_sequence++;
    if (used == INSITU_COLLECTIVES || !is_sampled(event)) return;
  }
  if (!insitu_collectives_reserve(used + 1)) {
    is_full = 1;
    return;
  }
  events[used] = *event;
  recorded[event->row]++;
  /* Release: readers take the events below collectives_used as complete. */
  __atomic_store_n(&header->collectives_used, used + 1, __ATOMIC_RELEASE);
}

void insitu_collective_record(const struct insitu_collective *event) {
  begin();
  if (insitu_table) record(event);
  end();
}
