/* Parallel regions of OpenMP: rows of the call tree below the function that begins the region.
 *
 * A row has the time of the thread that begins the region, and besides what all threads of the team did: how long they
 * worked, how long they waited at barriers and for tasks, and how many they were. Time that is neither passes between
 * the beginning of the region and that of a thread's work.
 *
 * The threads add to a record of the region, which its first thread adds to the row when all others have arrived at the
 * last barrier. There they stay: a thread that waits when the region ends has waited until then. The records are never
 * freed, and each use has a number of its own, so a thread that is late, such as one that learns of the end of its
 * barrier when the next region begins, does no harm.
 *
 * In a region that a worker begins inside another region, the row is below that of the worker's own stack. */
#include "teams.h"

#include "compiled.h"
#include "eh_frame.h"
#include "regions.h"
#include "table.h"
#include "unwind.h"

#include <errno.h>
#include <stdatomic.h>

#define TEAMS 512u /* regions that are executed at a time; others are not recorded */
#define IS_CALL (1ull << 62)
#define IS_OPENMP (1ull << 61)

/* A thread in its team. */
struct member {
  struct insitu_team *team;
  uint32_t use; /* of the record; the member is of no team if the record has another one by now */
  int is_waiting;
  uint64_t since;  /* ticks, when it began to work or to wait */
  uint64_t worked; /* ticks, without the current span */
};

/* Counters are relaxed: the last barrier of the region orders them before its end. */
struct insitu_team {
  _Alignas(64) _Atomic int is_taken; /* acquire and release order the rest */
  _Atomic uint32_t use;
  struct insitu_thread *thread; /* that began the region */
  struct member outer;          /* what that thread was before */
  uint32_t row, depth;
  _Alignas(64) _Atomic uint64_t worked, waited;
  _Atomic uint64_t most;        /* the longest work of a thread */
  _Atomic uint64_t waits_since; /* the sum of the ticks at which waiting threads began to wait */
  _Atomic uint32_t waiting, threads;
  _Atomic int is_unknown;
};

static struct insitu_team teams[TEAMS];
static __thread struct member mine;

static inline uint64_t add(_Atomic uint64_t *sum, uint64_t value) {
  return atomic_fetch_add_explicit(sum, value, memory_order_relaxed);
}

/* ---- the row -------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) uint32_t add_row(uint32_t parent, uint64_t key, uintptr_t address, const char *hint) {
  struct insitu_object object;
  if (!insitu_object_find(address, &object)) return 0;
  const struct insitu_function function = {.address = address - object.base, .object = object.name, .hint = hint};
  int saved = errno;
  uint32_t row = insitu_function_row(parent, key, INSITU_OPENMP, &function);
  errno = saved;
  if (row) insitu_rows[row].flags |= insitu_rows[parent].flags / ROW_LEVEL * ROW_LEVEL + ROW_LEVEL;
  return row;
}

/* Another object may be loaded where one was unloaded. A few numbers suffice to keep them apart; rows of a program that
 * loads an object again and again stay few. */
static uint64_t key_of(uintptr_t address, const char *hint) {
  uint64_t unloaded = atomic_load_explicit(&insitu_objects_unloaded, memory_order_relaxed); /* as unwind.h explains */
  return (uint64_t)address | (unloaded & 31) << 48 | (*hint ? IS_CALL : 0) | IS_OPENMP;
}

/* ---- the region ----------------------------------------------------------------------------------------------- */

static struct insitu_team *claim(const struct insitu_thread *self) {
  unsigned first = (unsigned)(self - insitu_table->threads);
  for (unsigned i = 0; i < TEAMS; i++) {
    struct insitu_team *team = &teams[(first + i) & (TEAMS - 1)];
    int free = 0;
    if (atomic_compare_exchange_strong_explicit(&team->is_taken, &free, 1, memory_order_acquire, memory_order_relaxed))
      return team;
  }
  return NULL;
}

struct insitu_team *insitu_team_begin(uintptr_t address, const char *hint, const uintptr_t *frame) {
  struct insitu_thread *self = insitu_thread_self();
  struct insitu_region_call call = {0};
  if (!self || self->in_mpi || self->overflow || self->depth == INSITU_DEPTH) return NULL;
  uint32_t parent = insitu_top(self)->row, flags = 0;
  if (insitu_is_unwinding && insitu_is_unwound(self)) {
    parent = insitu_unwind_region(self, frame, &call);
    flags = INSITU_UNWOUND;
  }

  uint64_t key = key_of(address, hint);
  uint32_t row = insitu_find_child(parent, key);
  if (__builtin_expect(!row, 0) && !(row = insitu_row_fold(parent, key)) &&
      !(row = add_row(parent, key, address, hint)))
    return NULL;
  struct insitu_team *team = claim(self);
  if (!team) return NULL;

  team->thread = self;
  team->outer = mine;
  team->row = row;
  team->depth = self->depth;
  atomic_store_explicit(&team->worked, 0, memory_order_relaxed);
  atomic_store_explicit(&team->waited, 0, memory_order_relaxed);
  atomic_store_explicit(&team->most, 0, memory_order_relaxed);
  atomic_store_explicit(&team->waits_since, 0, memory_order_relaxed);
  atomic_store_explicit(&team->waiting, 0, memory_order_relaxed);
  atomic_store_explicit(&team->threads, 0, memory_order_relaxed);
  atomic_store_explicit(&team->is_unknown, 0, memory_order_relaxed);
  insitu_rows[row].visits++;
  const struct insitu_frame fresh = {.start = insitu_ticks(), .row = row, .flags = flags, .skipped = call.functions};
  insitu_push_frame(self, fresh);
  return team;
}

static void add_to_row(const struct insitu_team *team, uint64_t now) {
  struct insitu_row *row = &insitu_rows[team->row];
  uint64_t threads = atomic_load_explicit(&team->threads, memory_order_relaxed);
  uint64_t waiting = atomic_load_explicit(&team->waiting, memory_order_relaxed);
  uint64_t waited = atomic_load_explicit(&team->waited, memory_order_relaxed) + waiting * now -
                    atomic_load_explicit(&team->waits_since, memory_order_relaxed);
  /* A thread that still works was not seen to wait at the last barrier. */
  int is_known = threads && waiting == threads && !atomic_load_explicit(&team->is_unknown, memory_order_relaxed);
  if (!is_known) {
    row->comm_ranks++; /* regions_unknown */
    return;
  }
  row->bytes_sent += atomic_load_explicit(&team->worked, memory_order_relaxed);
  row->bytes_received += waited;
  row->messages_sent += threads;
  row->messages_received += threads * atomic_load_explicit(&team->most, memory_order_relaxed);
}

void insitu_team_end(struct insitu_team *team) {
  if (!team || !insitu_is_on) return; /* a child of fork inside the region */
  uint64_t now = insitu_ticks();
  struct insitu_thread *self = team->thread;
  if (mine.team == team) insitu_team_wait(); /* the runtime did not report the last barrier of this thread */
  add_to_row(team, now);
  while (self->depth > team->depth + 1) insitu_pop(self, now); /* regions of the program that it did not end */
  if (self->depth == team->depth + 1 && insitu_top(self)->row == team->row) insitu_pop(self, now);
  mine = team->outer;
  atomic_fetch_add_explicit(&team->use, 1, memory_order_relaxed);
  atomic_store_explicit(&team->is_taken, 0, memory_order_release);
}

/* ---- its threads ---------------------------------------------------------------------------------------------- */

static inline struct insitu_team *own_team(void) {
  struct insitu_team *team = mine.team;
  if (!team || !insitu_is_on || atomic_load_explicit(&team->use, memory_order_relaxed) != mine.use) return NULL;
  return team;
}

void insitu_team_join(struct insitu_team *team) {
  if (!team || !insitu_is_on) {
    mine.team = NULL;
    return;
  }
  atomic_fetch_add_explicit(&team->threads, 1, memory_order_relaxed);
  mine = (struct member){
      .team = team, .use = atomic_load_explicit(&team->use, memory_order_relaxed), .since = insitu_ticks()};
}

int insitu_team_wait(void) {
  struct insitu_team *team = own_team();
  if (!team || mine.is_waiting) return 0;
  uint64_t now = insitu_ticks(), span = now - mine.since, longest = mine.worked += span;
  add(&team->worked, span);
  uint64_t most = atomic_load_explicit(&team->most, memory_order_relaxed);
  while (most < longest && !atomic_compare_exchange_weak_explicit(&team->most, &most, longest, memory_order_relaxed,
                                                                  memory_order_relaxed))
    continue;
  add(&team->waits_since, now);
  atomic_fetch_add_explicit(&team->waiting, 1, memory_order_relaxed);
  mine.since = now;
  return mine.is_waiting = 1;
}

int insitu_team_work(void) {
  struct insitu_team *team = own_team();
  if (!team || !mine.is_waiting) return 0;
  uint64_t now = insitu_ticks();
  add(&team->waited, now - mine.since);
  add(&team->waits_since, 0 - mine.since);
  atomic_fetch_sub_explicit(&team->waiting, 1, memory_order_relaxed);
  mine.since = now;
  mine.is_waiting = 0;
  return 1;
}

void insitu_team_forget(void) {
  struct insitu_team *team = own_team();
  if (team) atomic_store_explicit(&team->is_unknown, 1, memory_order_relaxed);
}
