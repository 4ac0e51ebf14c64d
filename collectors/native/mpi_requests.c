/* A hash table of open requests by handle: open addressing, linear probing.
 *
 * With several threads in MPI, a handle whose completion one thread has just seen may already belong to a new request
 * of another thread. The number of a request distinguishes them, and the same handle may be in the table twice. */
#define _GNU_SOURCE
#include "mpi_requests.h"

#include "partners.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { RECEIVE = 1, PERSISTENT = 2, ACTIVE = 4, CANCELLED = 8, MESSAGE = 16, FROM_ANY = 32, SAMPLED = 64 };
#define UNCLEAR 128 /* the waiting of the call that completes the request is not known */
#define ROW_AT 8    /* of a receive from any rank, the bits of the flags that hold its row */
struct request {
  A handle;
  uint64_t number; /* 0: the slot is free */
  uint64_t flags;
};

#define INITIAL_SLOTS 1024u
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *table;
/* Of the persistent or sampled request in the same slot: what a start of it moves, and its message or collective. */
struct details {
  struct insitu_traffic moves;
  struct insitu_started started;
};
static struct details *details;
static uint64_t slots, used;
_Atomic uint64_t insitu_requests_number = 1;

int insitu_requests_any(void) {
  return __atomic_load_n(&used, __ATOMIC_RELAXED) != 0; /* relaxed: a thread sees its own requests in any case */
}

/* Without MPI_THREAD_MULTIPLE only one thread at a time is in MPI, and no lock is needed. */
static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

static uint64_t home(A handle) {
  return (((uint64_t)handle * 0x9E3779B97F4A7C15u) >> 32) & (slots - 1);
}

static uint64_t insert(const struct request *request) {
  uint64_t at = home(request->handle);
  while (table[at].number) at = (at + 1) & (slots - 1);
  table[at] = *request;
  return at;
}

static void *pages(uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static __attribute__((noinline)) int grow(void) {
  struct request *before = table;
  struct details *details_before = details, *fresh_details;
  uint64_t count = slots, more = slots ? 2 * slots : INITIAL_SLOTS;
  void *fresh = pages(more * sizeof *table);
  if (!fresh) return 0;
  if (!(fresh_details = pages(more * sizeof *details))) {
    munmap(fresh, more * sizeof *table);
    return 0;
  }
  table = fresh;
  details = fresh_details;
  slots = more;
  for (uint64_t i = 0; i < count; i++) {
    if (!before[i].number) continue;
    uint64_t at = insert(&before[i]);
    if (before[i].flags & (PERSISTENT | SAMPLED)) details[at] = details_before[i];
  }
  if (before) munmap(before, count * sizeof *table);
  if (details_before) munmap(details_before, count * sizeof *details);
  return 1;
}

/* Called with `lock` held, like the following functions. */
static inline void add(A handle, uint64_t flags, const struct details *more) {
  /* Relaxed: protected by the lock; insitu_requests_created reads a lower bound. */
  uint64_t number = atomic_load_explicit(&insitu_requests_number, memory_order_relaxed);
  atomic_store_explicit(&insitu_requests_number, number + 1, memory_order_relaxed);
  if (__builtin_expect(used >= slots / 2, 0) && !grow()) return; /* out of memory: its bytes are not counted */
  uint64_t at = insert(&(struct request){handle, number, flags});
  if (more) details[at] = *more;
  /* Relaxed: written under the lock; insitu_requests_any reads it without. */
  __atomic_store_n(&used, used + 1, __ATOMIC_RELAXED);
}

/* Return the latest request with this handle and a number below `before`: an earlier one has completed in a call of
 * another thread. NULL if there is none. */
static inline struct request *find(A handle, uint64_t before) {
  struct request *latest = NULL;
  if (!used) return NULL;
  for (uint64_t at = home(handle); table[at].number; at = (at + 1) & (slots - 1))
    if (table[at].handle == handle && table[at].number < before && (!latest || table[at].number > latest->number))
      latest = &table[at];
  return latest;
}

/* Move later entries of a probe sequence into a slot that became free, so that no search ends too early. */
static __attribute__((noinline)) void close_gap(uint64_t gap) {
  for (uint64_t at = (gap + 1) & (slots - 1); table[at].number; at = (at + 1) & (slots - 1)) {
    if (((at - home(table[at].handle)) & (slots - 1)) < ((at - gap) & (slots - 1))) continue;
    table[gap] = table[at];
    if (table[at].flags & (PERSISTENT | SAMPLED)) details[gap] = details[at];
    gap = at;
  }
  table[gap].number = 0;
}

static inline void remove_request(struct request *request) {
  uint64_t at = (uint64_t)(request - table);
  request->number = 0;
  __atomic_store_n(&used, used - 1, __ATOMIC_RELAXED); /* relaxed, as in `add` */
  if (__builtin_expect(table[(at + 1) & (slots - 1)].number != 0, 0)) close_gap(at);
}

/* Return the flags of a request that completed, 0 if it is unknown; and what was started, if it is sampled. */
static inline uint64_t finish(A handle, uint64_t before, struct insitu_started *started) {
  struct request *request = find(handle, before);
  if (!request) return 0;
  uint64_t flags = request->flags;
  if (__builtin_expect(flags & SAMPLED, 0)) *started = details[request - table].started;
  if (flags & PERSISTENT) request->flags &= ~(uint64_t)(ACTIVE | CANCELLED | SAMPLED);
  else remove_request(request);
  return flags;
}

static __attribute__((noinline)) void add_locked(A handle, uint64_t flags, const struct details *more) {
  pthread_mutex_lock(&lock);
  add(handle, flags, more);
  pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void add_sampled(A request, uint64_t flags, const struct insitu_started *started) {
  struct details more = {{0, 0, 0, 0, 0}, *started};
  begin();
  add(request, flags | SAMPLED, &more);
  end();
}

static inline void receive(A request, uint64_t flags, const struct insitu_started *started) {
  if (__builtin_expect(started->sampling != INSITU_UNSAMPLED, 0)) add_sampled(request, flags, started);
  else if (insitu_mpi_is_multiple) add_locked(request, flags, NULL);
  else add(request, flags, NULL);
}

void insitu_request_receive(A request, const struct insitu_started *started) {
  receive(request, RECEIVE | MESSAGE, started);
}

void insitu_request_read(A request) {
  receive(request, RECEIVE | UNCLEAR, &(struct insitu_started){.sampling = INSITU_UNSAMPLED});
}

void insitu_request_receive_any(A request, uint32_t row, const struct insitu_started *started) {
  receive(request, RECEIVE | MESSAGE | FROM_ANY | (uint64_t)row << ROW_AT, started);
}

void insitu_request_send(A request, const struct insitu_started *started) {
  add_sampled(request, 0, started);
}

void insitu_request_other(A request) {
  add_locked(request, 0, NULL);
}

void insitu_request_unclear(A request) {
  begin();
  add(request, UNCLEAR, NULL);
  end();
}

void insitu_request_collective(A request, const struct insitu_started *started) {
  add_sampled(request, UNCLEAR, started);
}

void insitu_request_persistent(A request, const struct insitu_traffic *moves, int is_receive,
                               const struct insitu_started *started) {
  struct details more = {.moves = *moves};
  if (started) more.started = *started;
  uint64_t kind = is_receive ? moves->messages_received ? RECEIVE | MESSAGE : RECEIVE : 0;
  if (!started || started->message.flags & INSITU_COLLECTIVE) kind |= UNCLEAR;
  begin();
  add(request, PERSISTENT | kind, &more);
  end();
}

void insitu_request_start(A handle, struct insitu_traffic *traffic, uint64_t now) {
  begin();
  struct request *request = find(handle, UINT64_MAX);
  if (request) {
    struct details *its = &details[request - table];
    const struct insitu_traffic *moves = &its->moves;
    struct insitu_started *started = &its->started;
    request->flags |= ACTIVE;
    started->sampling = started->message.flags & INSITU_COLLECTIVE
                            ? insitu_collective_start(started->envelope.id, now, &started->message)
                            : insitu_message_start(&started->envelope, now, moves->sent, &started->message);
    if (started->sampling != INSITU_UNSAMPLED) request->flags |= SAMPLED;
    if (!(request->flags & RECEIVE)) {
      traffic->sent += moves->sent;
      traffic->received += moves->received;
      traffic->messages_sent += moves->messages_sent;
      traffic->messages_received += moves->messages_received;
    }
  }
  end();
}

static __attribute__((noinline)) uint64_t finish_locked(A handle, uint64_t before, struct insitu_started *started) {
  pthread_mutex_lock(&lock);
  uint64_t flags = finish(handle, before, started);
  pthread_mutex_unlock(&lock);
  return flags;
}

struct insitu_arrival insitu_request_complete(A handle, uint64_t before, A status) {
  const struct insitu_arrival nothing = {0, 0};
  struct insitu_started started;
  uint64_t flags = insitu_mpi_is_multiple ? finish_locked(handle, before, &started) : finish(handle, before, &started);
  if ((flags & (PERSISTENT | ACTIVE)) == PERSISTENT) return nothing;
  if (__builtin_expect(flags & SAMPLED, 0) && !(flags & CANCELLED))
    insitu_message_complete(&started.envelope, started.sampling, &started.message, status);
  else if (__builtin_expect(flags & UNCLEAR, 0)) insitu_mpi_mine->call_flags |= INSITU_UNCLEAR;
  if (!(flags & RECEIVE)) return nothing;
  if (flags & CANCELLED && insitu_mpi_is_cancelled(status)) return nothing;
  if (__builtin_expect(flags & FROM_ANY, 0)) {
    uint32_t row = (uint32_t)(flags >> ROW_AT), source = (uint32_t)insitu_mpi_status_source(status);
    if (!insitu_partner_is_recent(row, source, INSITU_WORLD_ITSELF)) insitu_partner_add_world(row, (int)source);
  }
  return (struct insitu_arrival){insitu_mpi_status_bytes(status), (flags & MESSAGE) != 0};
}

void insitu_request_cancel(A handle) {
  begin();
  struct request *request = find(handle, UINT64_MAX);
  if (request) request->flags |= CANCELLED;
  insitu_messages_stop(INSITU_STOP_CANCEL); /* if a receive is cancelled, its number was that of no message */
  end();
}

void insitu_request_forget(A handle, uint64_t before) {
  begin();
  struct request *request = find(handle, before);
  if (request) remove_request(request);
  end();
}
