/* The main loop of the program: which function begins its iterations, and how long they take.
 *
 * Rows are counted by the threads that run in them; values of other threads may be a moment old here. */
#include "loop.h"

#define LOOP_ITERATIONS 8    /* a function that one caller calls this often is called by a loop */
#define LOOP_SHARE 0.1       /* the main loop takes at least this share of all time */
#define ITERATION_NS 20000.0 /* mean duration of an iteration, at least: timing shorter ones would cost too much */
#define MARGIN 1.5           /* another loop replaces the current one if it takes this many times as long */
#define NOT_RECORDED (ROW_IS_IGNORED | ROW_IS_THROTTLED)

static atomic_flag is_locked = ATOMIC_FLAG_INIT; /* protects everything below */
static const struct insitu_thread *loop_thread;
static uint64_t caller_start;        /* when the caller of the loop's row was entered */
static uint64_t iteration_start;     /* 0 before the first iteration */
static int is_marked;                /* the program marks its iterations itself */
static uint64_t iteration_limit;     /* iterations that suffice, 0 for all; set before the program begins */
static _Atomic uint64_t marks;       /* of iterations; not dropped when the lock is held */
static uint32_t draws = 2463534242u; /* xorshift state [Marsaglia 2003] */

/* Never waits: whoever does not get the lock drops its event. Acquire and release order what it protects. */
static int try_lock(void) {
  return !atomic_flag_test_and_set_explicit(&is_locked, memory_order_acquire);
}

static void unlock(void) {
  atomic_flag_clear_explicit(&is_locked, memory_order_release);
}

static void restart_sample(uint32_t row) {
  struct insitu_header *header = insitu_table->header;
  header->loop_row = row;
  header->iterations = 0;
  iteration_start = 0;
}

/* Keep a sample in which all iterations are equally likely [Vitter 1985, algorithm R]. */
static void sample_iteration(uint64_t ticks) {
  struct insitu_header *header = insitu_table->header;
  uint64_t at = header->iterations++;
  if (at >= INSITU_ITERATIONS) {
    draws ^= draws << 13, draws ^= draws >> 17, draws ^= draws << 5;
    at = draws % header->iterations;
  }
  if (at >= INSITU_ITERATIONS) return;
  header->iteration_ticks[at] = ticks;
  header->iteration_numbers[at] = (uint32_t)(header->iterations - 1);
}

void insitu_loop_iteration(struct insitu_thread *self, uint64_t now) {
  uint64_t start = insitu_top(self)->start;
  if (!try_lock()) return;
  if (!is_marked && (!loop_thread || loop_thread == self)) {
    /* An interval between two calls of the caller is not an iteration. */
    if (iteration_start && start == caller_start) sample_iteration(now - iteration_start);
    loop_thread = self;
    caller_start = start;
    iteration_start = now;
  }
  unlock();
}

void insitu_loop_limit(uint64_t iterations) {
  iteration_limit = iterations;
}

int insitu_loop_mark(uint64_t now) {
  /* Relaxed: only the number matters. It depends on nothing but the marks of this process, so that all ranks that mark
   * the same iterations leave their loops together. */
  uint64_t before = atomic_fetch_add_explicit(&marks, 1, memory_order_relaxed);
  int is_enough = iteration_limit && before >= iteration_limit;
  if (!try_lock()) return is_enough;
  if (!is_marked) restart_sample(0);
  is_marked = 1;
  if (iteration_start) sample_iteration(now - iteration_start);
  iteration_start = now;
  unlock();
  return is_enough;
}

static int may_be_loop(const struct insitu_row *row) {
  return row->kind != INSITU_MPI && row->kind != INSITU_THREAD && row->kind != INSITU_PHASE &&
         !(row->flags & NOT_RECORDED);
}

/* Find the function that is called in a loop and takes most of the time. Of the functions called in the same loop,
 * return the one that is called once per iteration. */
__attribute__((no_sanitize("thread"))) static uint32_t find_loop(uint32_t rows_used, double elapsed, double tick_ns) {
  const struct insitu_row *rows = insitu_table->rows;
  uint32_t best = 0;
  for (uint32_t i = 1; i < rows_used; i++) {
    const struct insitu_row *row = &rows[i];
    if (!may_be_loop(row)) continue;
    uint64_t iterations = rows[row->parent].visits ? row->visits / rows[row->parent].visits : 0;
    if (iterations < LOOP_ITERATIONS || (double)row->time * tick_ns < ITERATION_NS * (double)row->visits) continue;
    if (!best || row->time > rows[best].time) best = i;
  }
  if (!best || (double)rows[best].time < LOOP_SHARE * elapsed) return 0;

  /* A sibling that is called rarer, by a whole number up to 8, is called once per iteration and `best` several times.
   */
  uint64_t most = rows[best].visits;
  uint32_t parent = rows[best].parent;
  for (uint32_t i = rows_used - 1; i; i--)
    if (rows[i].parent == parent && rows[i].kind == rows[best].kind && rows[i].visits < rows[best].visits &&
        rows[i].visits * 8 >= most && most % rows[i].visits < 2)
      best = i;
  return best;
}

static int is_above(uint32_t row, uint32_t other) {
  while (other && other != row) other = insitu_table->rows[other].parent;
  return other == row;
}

__attribute__((no_sanitize("thread"))) static int replaces(uint32_t candidate, uint32_t current) {
  const struct insitu_row *rows = insitu_table->rows;
  if (!current || rows[current].flags & NOT_RECORDED || is_above(candidate, current)) return 1;
  return (double)rows[candidate].time >= MARGIN * (double)rows[current].time;
}

void insitu_loop_find(uint32_t rows_used, double elapsed, double tick_ns) {
  struct insitu_row *rows = insitu_table->rows;
  uint32_t current = insitu_table->header->loop_row;
  uint32_t candidate = is_marked ? 0 : find_loop(rows_used, elapsed, tick_ns);
  if (!candidate || candidate == current || !replaces(candidate, current)) return;
  if (!try_lock()) return; /* the next call tries again */
  if (!is_marked) {
    /* Relaxed: a thread that sees the flag late misses an iteration. */
    if (current) __atomic_fetch_and(&rows[current].flags, ~(uint32_t)ROW_IS_LOOP, __ATOMIC_RELAXED);
    __atomic_fetch_or(&rows[candidate].flags, (uint32_t)ROW_IS_LOOP, __ATOMIC_RELAXED);
    loop_thread = NULL;
    restart_sample(candidate);
  }
  unlock();
}
