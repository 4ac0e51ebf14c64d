/* The budget of the hook.
 *
 * A throttled function is from then on as if it were part of its caller. Those with the least time per call go first,
 * and those that call nothing recorded before others. */
#include "budget.h"

#define FIRST_LOOK_S 0.05
#define LOOK_EVERY_S 0.1
#define THROTTLE_AFTER_S 0.25 /* what starts up calls much that is not called again */
#define LOOK_SHARE 500        /* a look takes at most this part of the time to the next one */

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
    code = row->flags & ROW_IS_IGNORED ? NULL : code_of(row);
    if (!(row->flags & ROW_IS_IGNORED) && row->visits && rows[row->parent].key != row->key) {
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
  if (code->flags & ROW_IS_IGNORED || (double)code->window * event_ticks < 0.01 * allowed * window) return 0;
  return !code->visits || (double)code->visits * event_ticks > allowed * (double)code->ticks;
}

static void throttle(struct insitu_code *code, uint32_t rows_used) {
  struct insitu_row *rows = insitu_table->rows;
  code->flags |= ROW_IS_IGNORED | ROW_IS_THROTTLED;
  for (uint32_t i = 1; i < rows_used; i++)
    if (rows[i].key == (uint64_t)(uintptr_t)code->code) rows[i].flags |= ROW_IS_IGNORED | ROW_IS_THROTTLED;
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

void insitu_budget_look(uint64_t now) {
  uint32_t rows_used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  double window = (double)(now - looked_at), elapsed = (double)(now - began);
  looked_at = now;
  keep_budget(gather(rows_used), window, elapsed, rows_used);
  insitu_loop_follow(rows_used, elapsed, tick_ns);
  uint64_t took = insitu_ticks() - now, pause = (uint64_t)(LOOK_EVERY_S * 1e9 / tick_ns);
  insitu_look_at = now + (took * LOOK_SHARE > pause ? took * LOOK_SHARE : pause);
}
