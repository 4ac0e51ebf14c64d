/* Call paths of compiled code (C, C++, Fortran) that was built with -finstrument-functions.
 *
 * The compiler calls __cyg_profile_func_enter and _exit around every function; in a program that runs unmeasured they
 * are empty functions of the C library. A row is named by the object file and the address of its function, for which
 * the agent looks up the symbol. longjmp leaves functions without calling _exit: their frames are recognised by their
 * position on the stack. */
#define _GNU_SOURCE
#include "compiled.h"

#include "annotations.h"
#include "eh_frame.h"
#include "files.h"
#include "gomp.h"
#include "loop.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "ompt.h"
#include "stack.h"
#include "table.h"
#include "traps.h"
#include "unwind.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CACHE 4096u        /* cached rows by caller and function; a power of two */
#define SPAN (1 << 23)     /* stack positions further apart than this (64 MiB) are on different stacks */
#define NEAR (1u << 20)    /* a function less far below its caller (8 MiB) is taken to be on the same stack */
#define FARTHEST (1 << 17) /* largest distance in words (1 MiB) at which a stack is searched */

static _Atomic uint32_t cached_rows[CACHE];

/* The stack position of a function in units of 8 bytes; 32 bits distinguish positions on one stack. It is never 0. */
static inline uint32_t stack_position(const void *frame) {
  return (uint32_t)((uintptr_t)frame >> 3) | 1u; /* no ambiguity: frames are at least 16 bytes apart */
}

/* Where a function was called from, and where it called the hook, as stored in the upper bits of the flags of its
 * frame: 16 bits of the one address and 8 of the other. */
static inline uint32_t site_flags(uintptr_t call_site, uintptr_t hook_site) {
  return (uint32_t)(call_site & 0xffff) << 8 | (uint32_t)hook_site << 24;
}

static inline int has_call_site(const struct insitu_frame *frame, uint32_t from) {
  return !((frame->flags ^ from) & 0xffff00);
}

/* Whether the new function is already among the frames on top with its stack position and its call site, entered by the
 * same instruction: longjmp left it, and it was called again. A function that was inlined into itself has an entry of
 * its own. */
static __attribute__((noinline)) int was_entered_here(const struct insitu_thread *self, uint32_t here, uint32_t from,
                                                      uint64_t key) {
  for (uint32_t depth = self->depth; depth > 1; depth--) {
    const struct insitu_frame *frame = &self->frames[depth - 1];
    if (frame->stack != here || !has_call_site(frame, from)) return 0;
    if ((frame->flags & ~0xffu) == from && insitu_table->rows[frame->row].key == key) return 1;
  }
  return 0;
}

/* Close the frames that a signal handler on the alternate stack entered and that siglongjmp left: this thread is no
 * longer on that stack. */
static void close_left_handlers(struct insitu_thread *self, uint64_t now) {
  uint32_t first = self->depth;
  for (uint32_t depth = self->depth; depth > 1; depth--)
    if (self->frames[depth - 1].flags & INSITU_ON_ALTERNATE) first = depth - 1;
  if (first < self->depth) self->overflow = 0;
  while (self->depth > first) insitu_pop(self, now);
}

/* The same as below, for a function that does not follow closely below the one on top. Returns INSITU_ON_ALTERNATE for
 * one that a handler on the alternate stack calls, else 0: there, positions say nothing. */
static __attribute__((noinline)) uint32_t close_far_frames(struct insitu_thread *self, uint32_t here, uint32_t from,
                                                           uint64_t key, uint64_t now) {
  if (insitu_top(self)->stack != here) {
    if (insitu_is_on_alternate_stack()) return INSITU_ON_ALTERNATE;
    close_left_handlers(self, now);
  }
  for (;;) {
    const struct insitu_frame *top = insitu_top(self);
    int32_t above = (int32_t)(here - top->stack);
    if (!top->stack || above < 0 || above >= SPAN) return 0;
    if (above) self->overflow = 0; /* what was called beyond the last frame was further down */
    if (self->overflow) return 0;
    if (!above && has_call_site(top, from) && !was_entered_here(self, here, from, key)) return 0;
    insitu_pop(self, now);
  }
}

/* Close the frames of functions that longjmp left. The stack grows downwards, so a function at a lower position than
 * the new one has been left, and so has one at the same position with another call site. With the same call site it is
 * the function into which the new one was inlined, or the new one itself, called before. Positions further apart than
 * SPAN are on different stacks, such as those of signal handlers, and say nothing. Returns a flag for the new frame. */
static inline uint32_t close_left_frames(struct insitu_thread *self, uint32_t here, uint32_t from, uint64_t key,
                                         uint64_t now) {
  uint32_t top = insitu_top(self)->stack;
  if (__builtin_expect(!top || top - here - 1 < NEAR, 1)) return 0;
  return close_far_frames(self, here, from, key, now);
}

/* Write the absolute path of an object. The linker knows the program itself only by the first word of its command line,
 * and other objects possibly by a relative path. */
static size_t object_path(const char *object, char *path, size_t capacity) {
  size_t used = 0, bytes = strlen(object);
  if (!bytes) {
    ssize_t got = readlink("/proc/self/exe", path, capacity);
    if (got < 0) got = readlink("/proc/thread-self/exe", path, capacity); /* the main thread has ended */
    return got > 0 ? (size_t)got : 0;
  }
  if (object[0] != '/' && getcwd(path, capacity - 1)) {
    used = strlen(path);
    path[used++] = '/';
  }
  if (bytes > capacity - used) bytes = capacity - used;
  memcpy(path + used, object, bytes);
  return used + bytes;
}

uint32_t insitu_function_row(uint32_t parent, uint64_t key, enum insitu_kind kind,
                             const struct insitu_function *function) {
  char path[512], name[32]; /* no printf: it needs more stack than a signal handler of the program may have */
  size_t path_bytes = object_path(function->object, path, sizeof path);
  size_t used = sizeof name, hint_bytes = strlen(function->hint);
  if (hint_bytes) {
    memcpy(name + (used -= hint_bytes), function->hint, hint_bytes);
    name[--used] = ' ';
  }
  uint64_t address = function->address;
  do name[--used] = "0123456789abcdef"[address & 15];
  while ((address >>= 4) && used);
  const char *text = name + used;
  size_t bytes = sizeof name - used;
  uint32_t row = kind == INSITU_COMPILED ? insitu_row_again(parent, key, text, bytes, path, path_bytes) : 0;
  return row ? row : insitu_row_add(parent, key, kind, text, bytes, path, path_bytes, 0);
}

/* An object may have been loaded just now, and may call MPI. */
static __attribute__((noinline)) void patch_new(const struct insitu_object *object) {
  static _Atomic uint64_t seen[64]; /* relaxed: patching once too often does no harm */
  /* The beginning of a mapping, whose lower bits are 0, and how often objects were unloaded, since another one may have
   * been loaded there. */
  uint64_t unloaded = atomic_load_explicit(&insitu_objects_unloaded, memory_order_relaxed); /* as unwind.h explains */
  uint64_t id = (uint64_t)object->start | (unloaded & 4095);
  if (atomic_exchange_explicit(&seen[object->start * 0x9E3779B97F4A7C15u >> 58], id, memory_order_relaxed) == id)
    return;
  insitu_mpi_patch();
  insitu_maps_patch();
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
}

/* Add the row of a function. Signals are not blocked: handlers run in this thread, as they would without us. */
static __attribute__((noinline)) uint32_t add_row(uint32_t parent, void *function) {
  struct insitu_object object;
  if (insitu_is_on_small_stack()) {
    /* Relaxed: only a count. */
    __atomic_fetch_add(&insitu_table->header->rows_refused, 1, __ATOMIC_RELAXED);
    return 0;
  }
  if (!insitu_object_find((uintptr_t)function, &object)) return 0;
  patch_new(&object);
  const struct insitu_function named = {
      .address = (uintptr_t)function - object.base, .object = object.name, .hint = ""};
  int saved = errno;
  uint32_t row = insitu_function_row(parent, (uint64_t)(uintptr_t)function, INSITU_COMPILED, &named);
  errno = saved;
  return row;
}

/* Return the row of a function below its caller's, 0 if there is none yet. */
static inline uint32_t row_below(uint32_t parent, uint64_t key) {
  const struct insitu_row *rows = insitu_table->rows;
  _Atomic uint32_t *slot = &cached_rows[((key >> 2) * 31 + parent * 0x9E3779B1u) >> 4 & (CACHE - 1)];
  /* Acquire: pairs with the release below, so that the row is complete. */
  uint32_t row = atomic_load_explicit(slot, memory_order_acquire);
  if (__builtin_expect(rows[row].key == key && rows[row].parent == parent && row, 1)) return row;
  row = insitu_find_child(parent, key);
  /* Release: another thread that finds the row here finds it complete. */
  if (row) atomic_store_explicit(slot, row, memory_order_release);
  return row;
}

/* Whether the return address of a call is among these words of a stack. Memory between two functions on different
 * stacks may not be mapped, so the kernel reads it; 1 if it cannot. */
static __attribute__((noinline)) int has_return_address(const uintptr_t *words, int32_t count, uintptr_t call_site) {
  uintptr_t chunk[256];
  for (int32_t at = 0; at < count; at += 256) {
    size_t bytes = (size_t)(count - at < 256 ? count - at : 256) * sizeof *chunk;
    struct iovec here = {chunk, bytes}, there = {(void *)(words + at), bytes};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)bytes) return 1;
    for (size_t i = 0; i < bytes / sizeof *chunk; i++)
      if (chunk[i] == call_site) return 1;
  }
  return 0;
}

/* Whether the function on top was left by longjmp although its stack position is above that of the new one: then the
 * return address of the new one is not between them. Only called if the top never called this function before, since
 * it reads the stack. */
__attribute__((noinline)) static int was_left(const struct insitu_frame *top, const uintptr_t *here,
                                              uintptr_t call_site) {
  int32_t words = (int32_t)(top->stack - stack_position(here));
  if (!top->stack || words <= 0 || words > FARTHEST || has_call_site(top, site_flags(call_site, 0))) return 0;
  if (insitu_is_on_small_stack()) return 0;
  int saved = errno;
  /* Two words more: a call stores its return address one word below the frame of its caller. */
  int is_left = !has_return_address(here, words + 2, call_site);
  errno = saved;
  return is_left;
}

/* ---- the budget ----------------------------------------------------------------------------------------------- */

#define THROTTLED 1024u /* capacity of the table of throttled functions; a power of two */
#define CHECK_EVERY_S 0.1
#define LONGEST_CHECK 100     /* intervals after which a check has ended or was left by a signal handler */
#define THROTTLE_AFTER_S 0.25 /* a start-up makes many calls that are never made again */
#define WITHOUT_CLOCK_NS 8.0  /* cost of an event besides two readings of the clock */
#define NEGLIGIBLE 0.01       /* call paths that take less than this share of the budget are not throttled */
#define TARGET 0.75           /* throttle until the cost is this share of the budget */

/* Functions that count as part of their callers, each in the slot given by its address. */
static _Atomic uint64_t throttled[THROTTLED];
static _Atomic uint64_t check_at, check_every;     /* relaxed: a thread that sees it late checks late */
static atomic_flag is_checking = ATOMIC_FLAG_INIT; /* acquire and release order what follows */
static uint64_t began, checked_at, visits_before[INSITU_ROWS];
static double tick_ns, event_ticks, spent;

static inline _Atomic uint64_t *slot_of(uint64_t key) {
  return &throttled[(key >> 2) * 0x9E3779B1u >> 7 & (THROTTLED - 1)];
}

/* Relaxed: a thread that sees it late records a few more calls. */
static inline int is_throttled(uint64_t key) {
  return atomic_load_explicit(slot_of(key), memory_order_relaxed) == key;
}

/* Measure the length of a tick and the cost of an event: two readings of the clock and a constant. */
static void calibrate(uint64_t now) {
  const struct insitu_header *header = insitu_table->header;
  uint64_t least = UINT64_MAX; /* a signal handler may interrupt some of the readings */
  for (int round = 0; round < 4; round++) {
    uint64_t first = insitu_ticks(), last = first;
    for (int i = 0; i < 16; i++) last = insitu_ticks();
    if (last - first < least) least = last - first;
  }
  insitu_pair_clocks();
  double elapsed = (double)(header->latest_tick - header->start_tick);
  tick_ns = header->is_tsc && elapsed > 0 ? (double)(header->latest_ns - header->start_ns) / elapsed : 1.0;
  event_ticks = 2.0 * (double)least / 16.0 + WITHOUT_CLOCK_NS / tick_ns;
  began = checked_at = now;
  atomic_store_explicit(&check_every, (uint64_t)(CHECK_EVERY_S * 1e9 / tick_ns), memory_order_relaxed);
}

/* Whether a thread is inside the function of this row: its end would otherwise not be recorded. */
static int is_open(uint32_t row) {
  /* Acquire: areas below threads_used are reserved. */
  uint32_t used = atomic_load_explicit(&insitu_table->header->threads_used, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++)
    for (uint32_t depth = 0; depth < insitu_table->threads[i].depth && depth < INSITU_DEPTH; depth++)
      if (insitu_table->rows[insitu_table->threads[i].frames[depth].row].key == insitu_table->rows[row].key) return 1;
  return 0;
}

static void throttle(uint32_t row, uint32_t used) {
  struct insitu_row *rows = insitu_table->rows;
  uint64_t none = 0, key = rows[row].key;
  /* If another function occupies the slot, this one goes on being recorded. Sequentially consistent by default; this is
   * a rare path. */
  if (!atomic_compare_exchange_strong(slot_of(key), &none, key)) return;
  /* Relaxed: the flags are for readers; threads look into `throttled`. */
  for (uint32_t i = 1; i < used; i++)
    if (rows[i].key == key) __atomic_fetch_or(&rows[i].flags, (uint32_t)ROW_IS_THROTTLED, __ATOMIC_RELAXED);
  insitu_table->header->throttled++;
}

/* Return the call path with the least time per call, of those whose recording takes more than the budget allows; 0 if
 * there is none. */
static uint32_t find_to_throttle(uint32_t used, const uint32_t *new_visits, double window) {
  const struct insitu_row *rows = insitu_table->rows;
  double allowed = insitu_table->header->budget, least = 0;
  uint32_t best = 0;
  for (uint32_t i = 1; i < used; i++) {
    if (rows[i].kind != INSITU_COMPILED || rows[i].flags & ROW_IS_THROTTLED || !rows[i].visits) continue;
    double cost = (double)new_visits[i] * event_ticks, each = (double)rows[i].time / (double)rows[i].visits;
    if (cost < NEGLIGIBLE * allowed * window || event_ticks < allowed * each || is_open(i)) continue;
    /* Relaxed: only the holder of `is_checking` fills slots. */
    uint64_t other = atomic_load_explicit(slot_of(rows[i].key), memory_order_relaxed);
    if (!other && (!best || each < least)) {
      best = i;
      least = each;
    }
  }
  return best;
}

static void enforce_budget(uint64_t now) {
  static uint32_t new_visits[INSITU_ROWS]; /* since the last check */
  struct insitu_row *rows = insitu_table->rows;
  /* Acquire: rows below rows_used are complete. */
  uint32_t row, used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  double events = 0, window = (double)(now - checked_at), elapsed = (double)(now - began);
  double allowed = insitu_table->header->budget;
  for (uint32_t i = 1; i < used; i++) {
    if (rows[i].kind != INSITU_COMPILED) continue;
    /* Relaxed: another thread may be counting; what is missed here is seen at the next check. */
    uint64_t visits = __atomic_load_n(&rows[i].visits, __ATOMIC_RELAXED);
    new_visits[i] = (uint32_t)(visits - visits_before[i]);
    visits_before[i] = visits;
    events += new_visits[i];
  }
  checked_at = now;
  double cost = events * event_ticks;
  spent += cost;
  if (!(allowed > 0) || elapsed * tick_ns < THROTTLE_AFTER_S * 1e9 || spent <= allowed * elapsed) return;
  while (cost > TARGET * allowed * window && (row = find_to_throttle(used, new_visits, window))) {
    throttle(row, used);
    cost -= (double)new_visits[row] * event_ticks;
  }
}

static void check_budget_and_loop(uint64_t now) {
  enforce_budget(now);
  /* Acquire: rows below rows_used are complete. */
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  insitu_loop_find(used, (double)(now - began), tick_ns);
}

/* Signals are not blocked, as above: a handler may interrupt the check, which then takes long or has no end. */
__attribute__((noinline)) static void check(uint64_t now) {
  static _Atomic uint32_t skipped; /* relaxed: checks that could not be made, because another was being made */
  uint64_t due = atomic_load_explicit(&check_at, memory_order_relaxed);
  if (now < due || insitu_is_on_small_stack()) return; /* the next function elsewhere checks */
  uint64_t next = now + atomic_load_explicit(&check_every, memory_order_relaxed);
  if (!atomic_compare_exchange_strong_explicit(&check_at, &due, next, memory_order_relaxed, memory_order_relaxed))
    return;
  if (atomic_flag_test_and_set_explicit(&is_checking, memory_order_acquire) &&
      atomic_fetch_add_explicit(&skipped, 1, memory_order_relaxed) < LONGEST_CHECK)
    return;
  uint64_t traps = insitu_block_traps();
  if (!began) calibrate(now);
  else check_budget_and_loop(now);
  insitu_restore_traps(traps);
  atomic_store_explicit(&skipped, 0, memory_order_relaxed);
  atomic_flag_clear_explicit(&is_checking, memory_order_release);
}

/* ---- unloaded objects ------------------------------------------------------------------------------------------- */

static int is_loaded(uint64_t key) {
  struct insitu_object object;
  if (insitu_object_find((uintptr_t)key, &object)) return 1;
  uint64_t throttled_key = key;
  atomic_compare_exchange_strong(slot_of(key), &throttled_key, 0); /* the function at this address may be another one */
  return 0;
}

void insitu_compiled_unloaded(void) {
  insitu_rows_forget(is_loaded);
}

/* ---- the functions that the compiler calls -------------------------------------------------------------------- */

EXPORT INSITU_TIMING void __cyg_profile_func_enter(void *function, void *call_site) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  const uintptr_t *frame = __builtin_frame_address(0);
  uint32_t here = stack_position(frame), row, flags = 0;
  uint32_t from = site_flags((uintptr_t)call_site, (uintptr_t)__builtin_return_address(0));
  uint64_t key = (uint64_t)(uintptr_t)function;
  if (__builtin_expect(is_throttled(key), 0)) return;

  uint64_t now = insitu_ticks();
  from |= close_left_frames(self, here, from, key, now);
  const struct insitu_row *rows = insitu_table->rows;
  for (;;) {
    const struct insitu_frame *top = insitu_top(self);
    row = top->row;
    if (rows[row].key == key) flags = INSITU_FOLDED; /* direct recursion: its time counts once */
    else row = row_below(row, key);
    if (__builtin_expect(row || flags || self->overflow || !was_left(top, frame, (uintptr_t)call_site), 1)) break;
    insitu_pop(self, now);
  }

  uint32_t parent = insitu_top(self)->row;
  if (__builtin_expect(!row && !flags, 0)) {
    if (!(row = insitu_row_fold(parent, key)) && !(row = add_row(parent, function)))
      flags = INSITU_FOLDED | INSITU_UNNAMED, row = parent;
    now = insitu_ticks(); /* what handlers have taken meanwhile is the caller's */
  }
  if (__builtin_expect(row != parent && rows[row].parent != parent, 0)) flags |= INSITU_FOLDED; /* mutual recursion */
  /* Relaxed: a thread that sees the flag late misses an iteration. */
  if (__builtin_expect(__atomic_load_n(&rows[row].flags, __ATOMIC_RELAXED) & ROW_IS_LOOP, 0) && !flags)
    insitu_loop_iteration(self, now);
  if (!(flags & INSITU_UNNAMED)) {
    /* Relaxed: only this thread writes the row; others may read it at any time. */
    uint64_t *visits = &insitu_table->rows[row].visits;
    __atomic_store_n(visits, *visits + 1, __ATOMIC_RELAXED);
  }

  insitu_push_frame(self, (struct insitu_frame){.start = now, .row = row, .flags = flags | from, .stack = here});
}

EXPORT INSITU_TIMING void __cyg_profile_func_exit(void *function, void *call_site) {
  (void)call_site;
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  uint64_t key = (uint64_t)(uintptr_t)function;
  if (__builtin_expect(is_throttled(key), 0)) return;
  uint64_t now = insitu_ticks();
  const struct insitu_row *rows = insitu_table->rows;
  const struct insitu_frame *top = insitu_top(self);
  if (__builtin_expect(self->overflow || (top->stack && (rows[top->row].key == key || top->flags & INSITU_UNNAMED)),
                       1)) {
    insitu_pop(self, now);
    if (__builtin_expect(now >= atomic_load_explicit(&check_at, memory_order_relaxed), 0)) check(now);
    return;
  }
  /* The functions above it were left by longjmp. A function that was entered before the start is ignored. */
  for (uint32_t depth = self->depth; depth > 1 && self->frames[depth - 1].stack; depth--) {
    if (rows[self->frames[depth - 1].row].key != key) continue;
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
  /* Relaxed: only a count. */
  __atomic_fetch_add(&insitu_table->header->exits_unmatched, 1, __ATOMIC_RELAXED);
}
