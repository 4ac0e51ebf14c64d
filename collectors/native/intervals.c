/* Intervals: what each rank did between two collective calls of a communicator.
 *
 * Where one rank arrives late, the others wait for what it did longer than they did since all left the previous call
 * [Böhme et al., "Identifying the root causes of wait states in large-scale parallel applications", TOPC 3(2) 2016,
 * delay costs]. So each rank keeps the exclusive times of its call paths in an interval, and the agent compares them.
 *
 * Times of an interval are differences. The first time that a call path is left in a segment, its total is noted
 * (insitu_interval_touch), so that only call paths that were used cost anything. A segment ends with each
 * collective call of any communicator; its times are appended to a journal, and the interval of a communicator is
 * the sum of the journal since its previous call. Where every rank needs all others, the interval since the previous
 * such call is kept as well, since a rank that is late at another call may delay nobody there, but all of them later.
 *
 * Ranks keep the same intervals without communication, and long ones always: an interval of length T is kept if the
 * key of its call, as a number from 0 to 1, is below T / threshold. All ranks keep it if that holds for the shortest T
 * of them. The threshold doubles whenever there is no room. */
#include "intervals.h"

#include "mpi_collectives.h"
#include "traps.h"

#define TOUCHED 4096u                      /* call paths in a segment; those with more are lost */
#define TOUCHED_ROOM (TOUCHED + 64u)       /* a signal handler may interrupt the check */
#define JOURNAL 8192u                      /* entries; a power of two */
#define DEEPEST 256u                       /* open frames in a segment; those with more are lost */
#define TIME_OF_SAMPLE ((uint64_t)1 << 24) /* for each sample of a sampled function; see intervals.py */

struct touched {
  uint64_t before; /* the row's total when the segment began, or when it was touched first */
  uint64_t open;   /* ticks of frames that are open at the end of the segment */
  uint32_t row;
};
struct entry {
  uint32_t row;
  float ticks;
};

uint32_t insitu_interval_stamps[INSITU_ROWS];
uint32_t insitu_interval_segment;

static struct insitu_thread *_Atomic recorded; /* the thread whose intervals are recorded: the first that closes one */
static struct touched touched[TOUCHED_ROOM];
static uint32_t slots[INSITU_ROWS]; /* where a touched row is in `touched` */
static uint32_t touched_used;
static int is_lost; /* the segment is incomplete */
static struct entry journal[JOURNAL];
static uint64_t journal_end;
static double sums[INSITU_ROWS]; /* of the interval that is being added up, 0 otherwise */
static uint32_t summed[JOURNAL];
static double threshold = INSITU_SHORTEST_INTERVAL;
static int is_full; /* the disk is full: no further attempts */

/* ---- segments ------------------------------------------------------------------------------------------------- */

/* What a row has taken itself, without frames that are open. */
static uint64_t total_of(uint32_t row) {
  const struct insitu_row *this = &insitu_rows[row];
  return this->kind == INSITU_STACK ? this->visits * TIME_OF_SAMPLE : this->time_exclusive;
}

void insitu_interval_touch(const struct insitu_thread *self, uint32_t row) {
  /* Relaxed: the segment only changes in the thread that is recorded. The other threads have rows of their own. */
  insitu_interval_stamps[row] = __atomic_load_n(&insitu_interval_segment, __ATOMIC_RELAXED);
  if (self != atomic_load_explicit(&recorded, memory_order_relaxed)) return;
  if (touched_used >= TOUCHED) {
    is_lost = 1;
    return;
  }
  uint32_t slot = touched_used++;
  slots[row] = slot;
  touched[slot] = (struct touched){total_of(row), 0, row};
}

/* Return the slot of an open row, NULL if there was no room. */
static struct touched *slot_of(const struct insitu_thread *self, uint32_t row) {
  if (insitu_interval_stamps[row] != insitu_interval_segment) insitu_interval_touch(self, row);
  struct touched *slot = &touched[slots[row]];
  return !is_lost && slot->row == row ? slot : NULL;
}

/* What an open frame has taken itself so far. */
static uint64_t open_time(const struct insitu_thread *self, uint32_t at, uint64_t now) {
  const struct insitu_frame *frame = &self->frames[at];
  int64_t ticks = (int64_t)((at + 1 < self->depth ? frame[1].start : now) - frame->start - frame->inside);
  return ticks > 0 ? (uint64_t)ticks : 0;
}

static void append(uint32_t row, uint64_t ticks) {
  journal[journal_end++ % JOURNAL] = (struct entry){row, (float)ticks};
}

/* Append what the rank did in this segment to the journal, and begin the next one. */
static void close_segment(const struct insitu_thread *self, uint64_t now) {
  uint32_t depth = self->depth;
  if (depth > DEEPEST) is_lost = 1;
  for (uint32_t at = 0; at < depth && !is_lost; at++) {
    struct touched *slot = slot_of(self, self->frames[at].row);
    if (slot) slot->open += open_time(self, at, now);
  }
  if (is_lost) journal_end += JOURNAL + 1; /* for every communicator, the interval began too long ago */
  for (uint32_t i = 0; i < touched_used && !is_lost; i++) {
    uint64_t after = total_of(touched[i].row) + touched[i].open;
    if (after > touched[i].before) append(touched[i].row, after - touched[i].before);
  }

  is_lost = 0;
  touched_used = 0;
  /* Relaxed: as above. 0 is the segment before the first call. */
  uint32_t next = insitu_interval_segment + 1;
  __atomic_store_n(&insitu_interval_segment, next ? next : 1, __ATOMIC_RELAXED);
  for (uint32_t at = 0; at < depth && depth <= DEEPEST; at++) {
    struct touched *slot = slot_of(self, self->frames[at].row);
    if (slot) slot->before += open_time(self, at, now);
  }
}

/* ---- intervals ------------------------------------------------------------------------------------------------ */

/* Whether an interval belongs to the sample. The keys of a communicator are spread evenly. */
static int is_kept(uint64_t key, uint64_t ticks) {
  return (double)key * 0x1p-64 * threshold < (double)ticks;
}

/* Drop intervals until a quarter of the room is free. */
static uint32_t thin(struct insitu_interval *intervals, uint32_t used) {
  while (used > INSITU_INTERVALS * 3 / 4) {
    uint32_t left = 0;
    threshold *= 2;
    for (uint32_t i = 0; i < used; i++)
      if (is_kept(intervals[i].key, intervals[i].end - intervals[i].start)) intervals[left++] = intervals[i];
    used = left;
  }
  return used;
}

/* Add up the journal from `first` on, and store the rows that took longest. */
static void add_up(struct insitu_interval *interval, uint64_t first, uint32_t own_row, uint64_t own_ticks) {
  uint32_t count = 0;
  for (uint64_t at = first; at != journal_end; at++) {
    const struct entry *entry = &journal[at % JOURNAL];
    if (sums[entry->row] == 0) summed[count++] = entry->row;
    sums[entry->row] += (double)entry->ticks;
  }
  sums[own_row] -= (double)own_ticks; /* the call that ends the interval does not belong to it */

  for (uint32_t i = 0; i < count; i++) {
    uint32_t row = summed[i], at = interval->count;
    float ticks = (float)sums[row];
    sums[row] = 0;
    if (ticks <= 0) continue;
    if (at == INSITU_INTERVAL_ROWS) {
      if (interval->ticks[--at] >= ticks) continue;
    } else {
      interval->count++;
    }
    for (; at && interval->ticks[at - 1] < ticks; at--) {
      interval->ticks[at] = interval->ticks[at - 1];
      interval->rows[at] = interval->rows[at - 1];
    }
    interval->ticks[at] = ticks;
    interval->rows[at] = row;
  }
}

static void keep(const struct insitu_interval *interval) {
  struct insitu_header *header = insitu_table->header;
  struct insitu_interval *intervals = insitu_table->intervals;
  uint32_t used = header->intervals_used;
  if (used == INSITU_INTERVALS) {
    /* A sequence lock, as in mpi_collectives.c. */
    header->intervals_sequence++;
    atomic_thread_fence(memory_order_seq_cst);
    used = thin(intervals, used);
    header->intervals_used = used;
    header->intervals_threshold = (uint64_t)threshold;
    atomic_thread_fence(memory_order_seq_cst);
    header->intervals_sequence++;
    if (!is_kept(interval->key, interval->end - interval->start)) return;
  }
  if (!insitu_intervals_reserve(used + 1)) {
    is_full = 1;
    return;
  }
  intervals[used] = *interval;
  /* Release: readers take the intervals below intervals_used as complete. */
  __atomic_store_n(&header->intervals_used, used + 1, __ATOMIC_RELEASE);
}

/* Keep the interval from `base` on, if it belongs to the sample. Not inlined: the compiler may convert an argument to
 * floating point before traps are blocked. */
static __attribute__((noinline)) void record(struct insitu_thread *self, const struct insitu_sequence *sequence,
                                             const struct insitu_interval_base *base,
                                             const struct insitu_interval_end *end, uint64_t key) {
  if (!base->start || is_full || journal_end - base->journal > JOURNAL || !is_kept(key, end->now - base->start)) return;
  const struct insitu_frame *call = insitu_top(self);
  struct insitu_interval interval = {.key = key,
                                     .previous_key = base->key,
                                     .start = base->start,
                                     .begin = call->start,
                                     .end = end->now,
                                     .row = call->row,
                                     .needs = end->needs,
                                     .rank = sequence->rank,
                                     .size = sequence->size};
  add_up(&interval, base->journal, call->row, end->now - call->start - call->inside);
  keep(&interval);
}

void insitu_interval_close(struct insitu_thread *self, struct insitu_sequence *sequence, uint64_t key,
                           const struct insitu_interval_end *end) {
  struct insitu_thread *none = NULL;
  /* Relaxed: whichever thread is first. */
  if (atomic_load_explicit(&recorded, memory_order_relaxed) != self &&
      !atomic_compare_exchange_strong_explicit(&recorded, &none, self, memory_order_relaxed, memory_order_relaxed))
    return;
  uint64_t now = end->now, traps = insitu_block_traps();
  close_segment(self, now);

  const struct insitu_interval_base latest = sequence->latest, synchronised = sequence->synchronised;
  sequence->latest = (struct insitu_interval_base){now, key, journal_end};
  if (end->is_synchronising) sequence->synchronised = sequence->latest;
  record(self, sequence, &latest, end, key);
  if (end->is_synchronising && synchronised.key != latest.key) record(self, sequence, &synchronised, end, key);
  insitu_restore_traps(traps);
}
