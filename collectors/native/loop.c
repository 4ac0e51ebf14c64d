/* The main loop of the program: which function begins its iterations, and how long they take.
 *
 * Rows are counted by the threads that run in them; what is read of others here may be a moment old. */
#include "loop.h"

#define LOOP_TURNS 8    /* entered that often by one caller, a function is a loop's */
#define LOOP_SHARE 0.1  /* of all time, at least */
#define TURN_NS 20000.0 /* an iteration is that long, on average: watching shorter ones would cost too much */
#define IGNORED (ROW_IS_IGNORED | ROW_IS_THROTTLED)

static atomic_flag is_turning = ATOMIC_FLAG_INIT; /* held by whoever changes what follows */
static const struct insitu_thread *loop_thread;
static uint64_t loop_owner, turned_at; /* when the loop's caller was entered; when the last iteration began */
static int is_told;                    /* by the program itself */
static uint32_t draws = 2463534242u;

static int begin_turning(void) {
  return !atomic_flag_test_and_set_explicit(&is_turning, memory_order_acquire);
}

static void end_turning(void) {
  atomic_flag_clear_explicit(&is_turning, memory_order_release);
}

static void forget_turns(uint32_t row) {
  struct insitu_header *header = insitu_table->header;
  header->loop_row = row;
  header->iterations = 0;
  turned_at = 0;
}

/* A sample of all iterations, each as likely as any other [Vitter 1985, algorithm R]. */
static void keep_turn(uint64_t ticks) {
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

void insitu_loop_turn(struct insitu_thread *self, uint64_t now) {
  uint64_t owner = insitu_top(self)->start;
  if (!begin_turning()) return;
  if (!is_told && (!loop_thread || loop_thread == self)) {
    if (turned_at && owner == loop_owner) keep_turn(now - turned_at);
    loop_thread = self;
    loop_owner = owner;
    turned_at = now;
  }
  end_turning();
}

void insitu_phase_turn(uint64_t now) {
  if (!begin_turning()) return;
  if (!is_told) forget_turns(0);
  is_told = 1;
  if (turned_at) keep_turn(now - turned_at);
  turned_at = now;
  end_turning();
}

static int may_loop(const struct insitu_row *row) {
  return row->kind != INSITU_MPI && row->kind != INSITU_THREAD && row->kind != INSITU_PHASE && !(row->flags & IGNORED);
}

/* The function that a loop calls and that takes most time; of those that take part, the one called once a turn. */
__attribute__((no_sanitize("thread"))) static uint32_t find_loop(uint32_t rows_used, double elapsed, double tick_ns) {
  const struct insitu_row *rows = insitu_table->rows;
  uint32_t found = 0;
  for (uint32_t i = 1; i < rows_used; i++) {
    const struct insitu_row *row = &rows[i];
    if (!may_loop(row)) continue;
    uint64_t turns = rows[row->parent].visits ? row->visits / rows[row->parent].visits : 0;
    if (turns < LOOP_TURNS || (double)row->time * tick_ns < TURN_NS * (double)row->visits) continue;
    if (!found || row->time > rows[found].time) found = i;
  }
  if (!found || (double)rows[found].time < LOOP_SHARE * elapsed) return 0;
  uint64_t most = rows[found].visits;
  for (uint32_t i = rows[rows[found].parent].first_child; i; i = rows[i].next_sibling)
    if (rows[i].kind == rows[found].kind && rows[i].visits < rows[found].visits && rows[i].visits * 8 >= most &&
        most % rows[i].visits < 2)
      found = i;
  return found;
}

static int is_above(uint32_t row, uint32_t other) {
  while (other && other != row) other = insitu_table->rows[other].parent;
  return other == row;
}

__attribute__((no_sanitize("thread"))) static int is_better(uint32_t found, uint32_t before) {
  const struct insitu_row *rows = insitu_table->rows;
  if (!before || rows[before].flags & IGNORED || is_above(found, before)) return 1;
  return (double)rows[found].time >= 1.5 * (double)rows[before].time;
}

void insitu_loop_follow(uint32_t rows_used, double elapsed, double tick_ns) {
  struct insitu_row *rows = insitu_table->rows;
  uint32_t before = insitu_table->header->loop_row, found = is_told ? 0 : find_loop(rows_used, elapsed, tick_ns);
  if (!found || found == before || !is_better(found, before)) return;
  if (!begin_turning()) return; /* at the next look */
  if (!is_told) {
    if (before) __atomic_fetch_and(&rows[before].flags, ~(uint32_t)ROW_IS_LOOP, __ATOMIC_RELAXED);
    __atomic_fetch_or(&rows[found].flags, (uint32_t)ROW_IS_LOOP, __ATOMIC_RELAXED);
    loop_thread = NULL;
    forget_turns(found);
  }
  end_turning();
}
