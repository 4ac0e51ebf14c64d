/* A hash table from request handles to what they will move: open addressing, linear probing.
 *
 * With several threads in MPI a handle that one thread has just seen complete may already mean a new request of
 * another thread; the number of the request tells them apart, and the same handle may be in the table twice. */
#define _GNU_SOURCE
#include "mpi_requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { RECEIVE = 1, PERSISTENT = 2, ACTIVE = 4, CANCELLED = 8, MESSAGE = 16 };
struct request {
  A handle;
  uint64_t number; /* 0: the place is free */
  uint64_t flags;
};

#define FIRST_PLACES 1024u
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *table;
static struct insitu_traffic *each; /* what a start of the persistent request in the same place moves */
static uint64_t places, used;
_Atomic uint64_t insitu_requests_number = 1;

int insitu_requests_any(void) {
  return __atomic_load_n(&used, __ATOMIC_RELAXED) != 0; /* the caller's own requests are in it */
}

static void begin(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_lock(&lock);
}

static void end(void) {
  if (insitu_mpi_is_multiple) pthread_mutex_unlock(&lock);
}

static uint64_t home(A handle) {
  return (((uint64_t)handle * 0x9E3779B97F4A7C15u) >> 32) & (places - 1);
}

static uint64_t place(const struct request *request) {
  uint64_t at = home(request->handle);
  while (table[at].number) at = (at + 1) & (places - 1);
  table[at] = *request;
  return at;
}

static void *pages(uint64_t bytes) {
  void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return found == MAP_FAILED ? NULL : found;
}

static __attribute__((noinline)) int grow(void) {
  struct request *before = table;
  struct insitu_traffic *each_before = each, *each_fresh;
  uint64_t count = places, more = places ? 2 * places : FIRST_PLACES;
  void *fresh = pages(more * sizeof *table);
  if (!fresh) return 0;
  if (!(each_fresh = pages(more * sizeof *each))) {
    munmap(fresh, more * sizeof *table);
    return 0;
  }
  table = fresh;
  each = each_fresh;
  places = more;
  for (uint64_t i = 0; i < count; i++) {
    if (!before[i].number) continue;
    uint64_t at = place(&before[i]);
    if (before[i].flags & PERSISTENT) each[at] = each_before[i];
  }
  if (before) munmap(before, count * sizeof *table);
  if (each_before) munmap(each_before, count * sizeof *each);
  return 1;
}

/* Called with `lock` held, as the following are. */
static inline void add(A handle, uint64_t flags, const struct insitu_traffic *moves) {
  uint64_t number = atomic_load_explicit(&insitu_requests_number, memory_order_relaxed);
  atomic_store_explicit(&insitu_requests_number, number + 1, memory_order_relaxed);
  if (__builtin_expect(used >= places / 2, 0) && !grow()) return; /* no memory, its bytes are not counted */
  uint64_t at = place(&(struct request){handle, number, flags});
  if (moves) each[at] = *moves;
  __atomic_store_n(&used, used + 1, __ATOMIC_RELAXED);
}

/* The latest request of that handle that was made before: an earlier one has completed in another thread's call. */
static inline struct request *find(A handle, uint64_t before) {
  struct request *found = NULL;
  if (!used) return NULL;
  for (uint64_t at = home(handle); table[at].number; at = (at + 1) & (places - 1))
    if (table[at].handle == handle && table[at].number < before && (!found || table[at].number > found->number))
      found = &table[at];
  return found;
}

/* So that no search ends too early. */
static __attribute__((noinline)) void close_gap(uint64_t gap) {
  for (uint64_t at = (gap + 1) & (places - 1); table[at].number; at = (at + 1) & (places - 1)) {
    if (((at - home(table[at].handle)) & (places - 1)) < ((at - gap) & (places - 1))) continue;
    table[gap] = table[at];
    if (table[at].flags & PERSISTENT) each[gap] = each[at];
    gap = at;
  }
  table[gap].number = 0;
}

static inline void take_out(struct request *request) {
  uint64_t at = (uint64_t)(request - table);
  request->number = 0;
  __atomic_store_n(&used, used - 1, __ATOMIC_RELAXED);
  if (__builtin_expect(table[(at + 1) & (places - 1)].number != 0, 0)) close_gap(at);
}

/* The flags of a request that completed, 0 if it is not known. */
static inline uint64_t finish(A handle, uint64_t before) {
  struct request *request = find(handle, before);
  if (!request) return 0;
  uint64_t flags = request->flags;
  if (flags & PERSISTENT) request->flags &= ~(uint64_t)(ACTIVE | CANCELLED);
  else take_out(request);
  return flags;
}

static __attribute__((noinline)) void add_locked(A handle, uint64_t flags, const struct insitu_traffic *moves) {
  pthread_mutex_lock(&lock);
  add(handle, flags, moves);
  pthread_mutex_unlock(&lock);
}

void insitu_request_receive(A request, int is_message) {
  uint64_t flags = is_message ? RECEIVE | MESSAGE : RECEIVE;
  if (insitu_mpi_is_multiple) add_locked(request, flags, NULL);
  else add(request, flags, NULL);
}

void insitu_request_persistent(A request, const struct insitu_traffic *moves, int is_receive) {
  uint64_t kind = is_receive ? moves->messages_received ? RECEIVE | MESSAGE : RECEIVE : 0;
  begin();
  add(request, PERSISTENT | kind, moves);
  end();
}

void insitu_request_start(A handle, struct insitu_traffic *traffic) {
  begin();
  struct request *request = find(handle, UINT64_MAX);
  if (request) {
    request->flags |= ACTIVE;
    if (!(request->flags & RECEIVE)) {
      const struct insitu_traffic *moves = &each[request - table];
      traffic->sent += moves->sent;
      traffic->received += moves->received;
      traffic->messages_sent += moves->messages_sent;
      traffic->messages_received += moves->messages_received;
    }
  }
  end();
}

static __attribute__((noinline)) uint64_t finish_locked(A handle, uint64_t before) {
  pthread_mutex_lock(&lock);
  uint64_t flags = finish(handle, before);
  pthread_mutex_unlock(&lock);
  return flags;
}

struct insitu_arrival insitu_request_complete(A handle, uint64_t before, A status) {
  const struct insitu_arrival nothing = {0, 0};
  uint64_t flags = insitu_mpi_is_multiple ? finish_locked(handle, before) : finish(handle, before);
  if (!(flags & RECEIVE) || (flags & (PERSISTENT | ACTIVE)) == PERSISTENT) return nothing;
  if (flags & CANCELLED && insitu_mpi_is_cancelled(status)) return nothing;
  return (struct insitu_arrival){insitu_mpi_status_bytes(status), (flags & MESSAGE) != 0};
}

void insitu_request_cancel(A handle) {
  begin();
  struct request *request = find(handle, UINT64_MAX);
  if (request) request->flags |= CANCELLED;
  end();
}

void insitu_request_forget(A handle, uint64_t before) {
  begin();
  struct request *request = find(handle, before);
  if (request) take_out(request);
  end();
}
