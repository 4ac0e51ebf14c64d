/* The budget of the hook.
 *
 * A throttled function counts as part of its caller from then on. Functions with the least time per call are throttled
 * first, and those that call nothing recorded before others. */
#include "budget.h"

#include "code.h"
#include "frames.h"
#include "loop.h"
#include "table.h"
#include "traps.h"

#define FIRST_CHECK_S 0.05
#define CHECK_EVERY_S 0.1
#define THROTTLE_AFTER_S 0.25 /* a start-up makes many calls that are never made again */
#define CHECK_SHARE 500       /* a check takes at most this fraction of the time until the next one */
#define NEGLIGIBLE 0.01       /* functions that take less than this share of the budget are throttled last */
#define TARGET 0.75           /* throttle until the cost is this share of the budget, so as not to return at once */

uint64_t insitu_budget_check_at = UINT64_MAX;

static double tick_ns, event_ticks, allowed;
static uint64_t began, checked_at, visits_before[INSITU_ROWS];
static double spent;  /* ticks since the beginning */
static double window; /* ticks since the last check */

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
  began = checked_at = now;
  insitu_budget_check_at = now + (uint64_t)(FIRST_CHECK_S * 1e9 / tick_ns);
}

/* Return the code object of a row, NULL if it is not a Python function's. */
static struct insitu_code *code_of(const struct insitu_row *row) {
  if ((row->kind != INSITU_PYTHON && row->kind != INSITU_LIBRARY) || !row->key) return NULL;
  return insitu_code_find((PyObject *)(uintptr_t)row->key, NULL);
}

/* Sum up by function what happened since the last check. Returns the number of events. */
static uint64_t sum_by_function(uint32_t rows_used) {
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
    uint64_t new_visits = row->visits - visits_before[i];
    visits_before[i] = row->visits;

    code = row->flags & ROW_IS_IGNORED ? NULL : code_of(row);
    if (!(row->flags & ROW_IS_IGNORED) && row->visits && rows[row->parent].key != row->key) {
      struct insitu_code *caller = code_of(&rows[row->parent]);
      if (caller) caller->has_callees = 1;
    }
    if (!code) continue;

    events += new_visits;
    code->window += new_visits;
    code->ticks += row->time;
    code->visits += row->visits;
  }
  return events;
}

/* Whether `a` is to be throttled before `b`. */
static int goes_before(const struct insitu_code *a, const struct insitu_code *b) {
  if (!a->visits != !b->visits) return !a->visits; /* calls inside libraries: nothing is recorded of them */
  if (!a->visits) return a->window > b->window;
  if (a->has_callees != b->has_callees) return !a->has_callees;
  return (double)a->ticks * (double)b->visits < (double)b->ticks * (double)a->visits;
}

/* Whether throttling this function saves anything, and its own calls are short enough to do without. */
static int may_be_throttled(const struct insitu_code *code) {
  if (code->flags & ROW_IS_IGNORED || !code->window) return 0;
  return !code->visits || (double)code->visits * event_ticks > allowed * (double)code->ticks;
}

/* Whether the function alone takes a share of the budget that is worth it. Many that do not may still exceed it. */
static int is_negligible(const struct insitu_code *code) {
  return (double)code->window * event_ticks < NEGLIGIBLE * allowed * window;
}

static int precedes(const struct insitu_code *a, const struct insitu_code *b) {
  int is_small = is_negligible(a);
  return is_small != is_negligible(b) ? !is_small : goes_before(a, b);
}

/* Shell's method: it needs no memory, which qsort would take from the program's heap. */
static void sort_candidates(struct insitu_code **codes, unsigned count) {
  for (unsigned gap = count / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
    for (unsigned i = gap; i < count; i++) {
      struct insitu_code *moved = codes[i];
      unsigned at = i;
      for (; at >= gap && precedes(moved, codes[at - gap]); at -= gap) codes[at] = codes[at - gap];
      codes[at] = moved;
    }
}

/* Let the rows of throttled functions know it. */
static void mark_rows(uint32_t rows_used) {
  struct insitu_row *rows = insitu_table->rows;
  for (uint32_t i = 1; i < rows_used; i++) {
    const struct insitu_code *code = code_of(&rows[i]);
    if (code && code->flags & ROW_IS_THROTTLED) rows[i].flags |= ROW_IS_IGNORED | ROW_IS_THROTTLED;
  }
}

static void enforce(uint64_t events, double elapsed, uint32_t rows_used) {
  static struct insitu_code *candidates[INSITU_CODES];
  double cost = (double)events * event_ticks;
  spent += cost + (double)insitu_slow_ticks;
  insitu_slow_ticks = 0;
  insitu_table->header->hook_ticks = (uint64_t)spent;
  if (!(allowed > 0) || elapsed * tick_ns < THROTTLE_AFTER_S * 1e9) return;
  if (spent <= allowed * elapsed) return;

  struct insitu_code *code;
  unsigned count = 0, throttled = 0;
  for (unsigned i = 0; (code = insitu_code_at(i)); i++)
    if (may_be_throttled(code)) candidates[count++] = code;
  sort_candidates(candidates, count);
  for (; throttled < count && cost > TARGET * allowed * window; throttled++) {
    candidates[throttled]->flags |= ROW_IS_IGNORED | ROW_IS_THROTTLED;
    cost -= (double)candidates[throttled]->window * event_ticks;
  }
  insitu_table->header->throttled += throttled;
  if (throttled) mark_rows(rows_used);
}

void insitu_budget_check(uint64_t now) {
  /* Relaxed: rows of other threads may be counted at the next check. */
  uint32_t rows_used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  uint64_t began_ns = insitu_thread_cpu_ns(), traps = insitu_block_traps();
  double elapsed = (double)(now - began);
  window = (double)(now - checked_at);
  checked_at = now;
  enforce(sum_by_function(rows_used), elapsed, rows_used);
  insitu_loop_find(rows_used, elapsed, tick_ns);

  /* Of CPU time: a check that lost its core for 10 ms would not be made again for 5 s. */
  double pause_ns = (double)((insitu_thread_cpu_ns() - began_ns) * CHECK_SHARE);
  if (pause_ns < CHECK_EVERY_S * 1e9) pause_ns = CHECK_EVERY_S * 1e9;
  insitu_budget_check_at = now + (uint64_t)(pause_ns / tick_ns);
  insitu_restore_traps(traps);
}
