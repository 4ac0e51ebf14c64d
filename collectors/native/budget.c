/* The budget of the hook and the iterations of the main loop.
 *
 * A throttled function is from then on as if it were part of its caller. Those with the least time per call go first,
 * and those that call nothing recorded before others. */
#include "budget.h"

#include <string.h>

#define FIRST_LOOK_S 0.05
#define LOOK_EVERY_S 0.1
#define THROTTLE_AFTER_S 0.25 /* what starts up calls much that is not called again */
#define LOOK_SHARE 500        /* a look takes at most this part of the time to the next one */
#define LOOP_TURNS 8          /* entered that often by one caller, a function is a loop's */
#define LOOP_SHARE 0.1        /* of all time, at least */
#define TURN_NS 20000.0       /* an iteration is that long, on average: watching shorter ones would cost too much */

uint64_t insitu_look_at = UINT64_MAX;

static double tick_ns, event_ticks, allowed;
static uint64_t began, looked_at, seen[INSITU_ROWS];
static double spent; /* ticks, since the beginning */

void insitu_budget_begin(double event_ns, double budget) {
  struct insitu_header *header = insitu_table->header;
  uint64_t now = insitu_ticks(), now_ns = insitu_monotonic_ns();
  tick_ns = insitu_clock_is_tsc && now > header->start_tick
                ? (double)(now_ns - header->start_ns) / (double)(now - header->start_tick)
                : 1.0;
  if (!(tick_ns > 0)) tick_ns = 1.0;
  event_ticks = event_ns / tick_ns;
  allowed = budget;
  header->event_ns = event_ns;
  header->budget = budget;
  began = looked_at = now;
  insitu_look_at = now + (uint64_t)(FIRST_LOOK_S * 1e9 / tick_ns);
}

/* ---- the budget ----------------------------------------------------------------------------------------------- */

/* Whose row this is: a Python function's, else none. */
static struct insitu_code *code_of(const struct insitu_row *row) {
  if ((row->kind != INSITU_PYTHON && row->kind != INSITU_LIBRARY) || !row->key) return NULL;
  return insitu_code_find((PyObject *)(uintptr_t)row->key, NULL);
}

/* Gather by function what happened since the last look; the number of events. */
static uint64_t gather(uint32_t rows_used) {
  struct insitu_row *rows = insitu_table->rows;
  struct insitu_code *code;
  uint64_t events = 0;
  for (unsigned i = 0; (code = insitu_code_at(i)); i++) {
    events += code->window = code->skipped;
    code->skipped = code->ticks = code->visits = 0;
    code->has_callees = 0;
  }
  for (uint32_t i = 1; i < rows_used; i++) {
    struct insitu_row *row = &rows[i];
    uint64_t fresh = row->visits - seen[i];
    seen[i] = row->visits;
    code = row->flags & CODE_IS_IGNORED ? NULL : code_of(row);
    if (!(row->flags & CODE_IS_IGNORED) && row->visits && rows[row->parent].key != row->key) {
      struct insitu_code *caller = code_of(&rows[row->parent]);
      if (caller) caller->has_callees = 1;
    }
    if (!code) continue;
    events += fresh;
    code->window += fresh;
    code->ticks += row->time;
    code->visits += row->visits;
  }
  return events;
}

/* Which of two is to be throttled first. */
static int goes_before(const struct insitu_code *a, const struct insitu_code *b) {
  if (!a->visits != !b->visits) return !a->visits; /* calls inside libraries: nothing is recorded of them */
  if (!a->visits) return a->window > b->window;
  if (a->has_callees != b->has_callees) return !a->has_callees;
  return (double)a->ticks * (double)b->visits < (double)b->ticks * (double)a->visits;
}

static int is_worth_it(const struct insitu_code *code, double window) {
  if (code->flags & CODE_IS_IGNORED || (double)code->window * event_ticks < 0.01 * allowed * window) return 0;
  return !code->visits || (double)code->visits * event_ticks > allowed * (double)code->ticks;
}

static void throttle(struct insitu_code *code, uint32_t rows_used) {
  struct insitu_row *rows = insitu_table->rows;
  code->flags |= CODE_IS_IGNORED | CODE_IS_THROTTLED;
  for (uint32_t i = 1; i < rows_used; i++)
    if (rows[i].key == (uint64_t)(uintptr_t)code->code) rows[i].flags |= CODE_IS_IGNORED | CODE_IS_THROTTLED;
  insitu_table->header->throttled++;
}

static void keep_budget(uint64_t events, double window, double elapsed, uint32_t rows_used) {
  double cost = (double)events * event_ticks;
  spent += cost;
  insitu_table->header->hook_ticks = (uint64_t)spent;
  if (!(allowed > 0) || elapsed * tick_ns < THROTTLE_AFTER_S * 1e9) return;
  if (spent <= allowed * elapsed) return;
  while (cost > 0.75 * allowed * window) {
    struct insitu_code *code, *first = NULL;
    for (unsigned i = 0; (code = insitu_code_at(i)); i++)
      if (is_worth_it(code, window) && (!first || goes_before(code, first))) first = code;
    if (!first) return;
    throttle(first, rows_used);
    cost -= (double)first->window * event_ticks;
  }
}

/* ---- the main loop -------------------------------------------------------------------------------------------- */

static const struct insitu_thread *loop_thread;
static uint64_t loop_owner, turned_at; /* when the loop's caller was entered; when the last iteration began */
static int is_told;                    /* by the program itself */
static uint32_t draws = 2463534242u;

static void forget_turns(uint32_t row) {
  struct insitu_header *header = insitu_table->header;
  header->loop_row = row;
  header->turns = 0;
  turned_at = 0;
}

/* A sample of all iterations, each as likely as any other [Vitter 1985, algorithm R]. */
static void keep_turn(uint64_t ticks) {
  struct insitu_header *header = insitu_table->header;
  uint64_t at = header->turns++;
  if (at >= INSITU_TURNS) {
    draws ^= draws << 13, draws ^= draws >> 17, draws ^= draws << 5;
    at = draws % header->turns;
  }
  if (at >= INSITU_TURNS) return;
  header->turn_ticks[at] = ticks;
  header->turn_numbers[at] = (uint32_t)(header->turns - 1);
}

void insitu_loop_turn(struct insitu_thread *self, uint64_t now) {
  uint64_t owner = insitu_top(self)->start;
  if (is_told || (loop_thread && loop_thread != self)) return;
  if (turned_at && owner == loop_owner) keep_turn(now - turned_at);
  loop_thread = self;
  loop_owner = owner;
  turned_at = now;
}

void insitu_phase_turn(uint64_t now) {
  if (!is_told) forget_turns(0);
  is_told = 1;
  if (turned_at) keep_turn(now - turned_at);
  turned_at = now;
}

/* The function that a loop calls and that takes most time; of those that take part, the one called once a turn. */
static uint32_t find_loop(uint32_t rows_used, double elapsed) {
  const struct insitu_row *rows = insitu_table->rows;
  uint32_t found = 0;
  for (uint32_t i = 1; i < rows_used; i++) {
    const struct insitu_row *row = &rows[i];
    if (row->flags & CODE_IS_IGNORED || row->kind == INSITU_MPI || row->kind == INSITU_THREAD) continue;
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

static void follow_loop(uint32_t rows_used, double elapsed) {
  struct insitu_row *rows = insitu_table->rows;
  uint32_t before = insitu_table->header->loop_row, found = is_told ? 0 : find_loop(rows_used, elapsed);
  if (!found || found == before) return;
  int is_kept = before && !(rows[before].flags & CODE_IS_IGNORED) && !is_above(found, before);
  if (is_kept && (double)rows[found].time < 1.5 * (double)rows[before].time) return;
  if (before) rows[before].flags &= ~(uint32_t)ROW_IS_LOOP;
  rows[found].flags |= ROW_IS_LOOP;
  loop_thread = NULL;
  forget_turns(found);
}

void insitu_budget_look(uint64_t now) {
  uint32_t rows_used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  double window = (double)(now - looked_at), elapsed = (double)(now - began);
  looked_at = now;
  keep_budget(gather(rows_used), window, elapsed, rows_used);
  follow_loop(rows_used, elapsed);
  uint64_t took = insitu_ticks() - now, pause = (uint64_t)(LOOK_EVERY_S * 1e9 / tick_ns);
  insitu_look_at = now + (took * LOOK_SHARE > pause ? took * LOOK_SHARE : pause);
}
