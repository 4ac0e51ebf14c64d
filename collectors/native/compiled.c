/* Call paths of compiled code that was built with -finstrument-functions, in C, C++ or Fortran.
 *
 * The compiler calls these two names around every function; in a program that runs unmeasured they are empty functions
 * of the C library. A row is named by the file and the address of its function: the agent looks up what that is called.
 * longjmp leaves functions without telling; their frames are recognised by where they were on the stack. */
#define _GNU_SOURCE
#include "loop.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CACHE 4096u /* rows that were found by caller and function; a power of two */
#define SPAN (1 << 23)
#define FARTHEST (1 << 17) /* words between two functions on a stack, about */

static _Atomic uint32_t found[CACHE];

/* Where a function stands on its stack, in units of 8 bytes: enough to tell places on one stack apart. */
static inline uint32_t place(const void *frame) {
  return (uint32_t)((uintptr_t)frame >> 3) | 1u; /* frames are at least 16 bytes apart */
}

/* From where a function was called: goes into the flags of its frame. */
static inline uint32_t site(const void *call_site) {
  return (uint32_t)(uintptr_t)call_site << 8;
}

/* A stack grows downwards: what was entered below the caller's place has been left, and so has what stands at the same
 * place but was called from elsewhere (from the same place it is the function into which this one was inlined). Places
 * further apart than 64 MiB are on different stacks, as those of signal handlers. */
static inline void drop_left(struct insitu_thread *self, uint32_t here, uint32_t from, uint64_t now) {
  for (;;) {
    const struct insitu_frame *top = insitu_top(self);
    int32_t above = (int32_t)(here - top->stack);
    if (__builtin_expect(!top->stack || above < 0 || above >= SPAN || self->overflow, 1)) return;
    if (!above && (top->flags & ~0xffu) == from) return;
    insitu_pop(self, now);
  }
}

/* The program itself is called by its path: what the linker knows is the first word of its command line. Others may be
 * known by where they are seen from here. */
static size_t object_path(const struct link_map *object, const char *name, char *path, size_t capacity) {
  size_t used = 0, bytes = strlen(name);
  if (!object->l_name || !object->l_name[0]) {
    ssize_t got = readlink("/proc/self/exe", path, capacity);
    return got > 0 ? (size_t)got : 0;
  }
  if (name[0] != '/' && getcwd(path, capacity - 1)) {
    used = strlen(path);
    path[used++] = '/';
  }
  if (bytes > capacity - used) bytes = capacity - used;
  memcpy(path + used, name, bytes);
  return used + bytes;
}

static uint32_t add_row(uint32_t parent, void *function) {
  static _Atomic(const void *) last; /* relaxed: one look too many does no harm */
  Dl_info info;
  struct link_map *object = NULL;
  char path[512], name[24];
  if (!dladdr1(function, &info, (void **)&object, RTLD_DL_LINKMAP) || !object) return 0;
  if (atomic_exchange_explicit(&last, object, memory_order_relaxed) != object)
    insitu_mpi_patch(), insitu_maps_patch(); /* it may have been loaded just now, and call MPI */
  size_t path_bytes = object_path(object, info.dli_fname, path, sizeof path);
  uint64_t address = (uint64_t)((uintptr_t)function - object->l_addr);
  size_t used = sizeof name;
  do name[--used] = "0123456789abcdef"[address & 15];
  while ((address >>= 4) && used);
  return insitu_row_add(parent, (uint64_t)(uintptr_t)function, INSITU_COMPILED, name + used, sizeof name - used, path,
                        path_bytes, 0);
}

/* The row of a function below its caller's, 0 if there is none yet. */
static inline uint32_t row_below(uint32_t parent, uint64_t key) {
  const struct insitu_row *rows = insitu_table->rows;
  _Atomic uint32_t *slot = &found[((key >> 2) * 31 + parent * 0x9E3779B1u) >> 4 & (CACHE - 1)];
  uint32_t row = atomic_load_explicit(slot, memory_order_acquire);
  if (__builtin_expect(rows[row].key == key && rows[row].parent == parent && row, 1)) return row;
  row = insitu_find_child(parent, key);
  /* Release: another thread that finds the row here finds it filled. */
  if (row) atomic_store_explicit(slot, row, memory_order_release);
  return row;
}

/* Whether the place to which a call returns stands in these words of a stack. What lies between two functions that are
 * on different stacks may be no memory at all: the kernel reads it for us, and where it cannot, nothing is known. */
static int returns_here(const uintptr_t *words, int32_t count, uintptr_t call_site) {
  uintptr_t part[256];
  for (int32_t at = 0; at < count; at += 256) {
    size_t bytes = (size_t)(count - at < 256 ? count - at : 256) * sizeof *part;
    struct iovec here = {part, bytes}, there = {(void *)(words + at), bytes};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)bytes) return 1;
    for (size_t i = 0; i < bytes / sizeof *part; i++)
      if (part[i] == call_site) return 1;
  }
  return 0;
}

/* Whether the function on top was left by longjmp although it stands above the new one on the stack: then the place to
 * which the new one returns is not between them. Asked where the top never called that function before. */
__attribute__((noinline)) static int was_left(const struct insitu_frame *top, const uintptr_t *here,
                                              uintptr_t call_site) {
  int32_t words = (int32_t)(top->stack - place(here));
  if (!top->stack || words <= 0 || words > FARTHEST || (top->flags & ~0xffu) == site((void *)call_site)) return 0;
  int saved = errno; /* a call puts where it returns to one word below the caller's */
  int is_left = !returns_here(here, words + 2, call_site);
  errno = saved;
  return is_left;
}

/* ---- the budget ----------------------------------------------------------------------------------------------- */

#define LEFT_OUT 1024u /* a power of two */
#define LOOK_EVERY_S 0.1
#define THROTTLE_AFTER_S 0.25 /* what starts up calls much that is not called again */
#define WITHOUT_CLOCK_NS 8.0  /* what an event takes besides two readings of the clock */

/* Functions that are as if they were part of their callers, each at the place that its address names. */
static _Atomic uint64_t left_out[LEFT_OUT];
static _Atomic uint64_t look_at;
static atomic_flag is_looking = ATOMIC_FLAG_INIT;
static uint64_t began, looked_at, seen[INSITU_ROWS];
static double tick_ns, event_ticks, spent;

static inline _Atomic uint64_t *place_of(uint64_t key) {
  return &left_out[(key >> 2) * 0x9E3779B1u >> 7 & (LEFT_OUT - 1)];
}

/* Relaxed: a thread that learns it late records a few calls more. */
static inline int is_left_out(uint64_t key) {
  return atomic_load_explicit(place_of(key), memory_order_relaxed) == key;
}

static void calibrate(uint64_t now) {
  const struct insitu_header *header = insitu_table->header;
  uint64_t first = insitu_ticks(), last = first;
  for (int i = 0; i < 64; i++) last = insitu_ticks();
  double elapsed_ns = (double)(insitu_monotonic_ns() - header->start_ns);
  tick_ns = header->is_tsc && now > header->start_tick ? elapsed_ns / (double)(now - header->start_tick) : 1.0;
  event_ticks = 2.0 * (double)(last - first) / 64.0 + WITHOUT_CLOCK_NS / tick_ns;
  began = looked_at = now;
}

static int is_open(uint32_t row) {
  uint32_t used = atomic_load_explicit(&insitu_table->header->threads_used, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++)
    for (uint32_t depth = 0; depth < insitu_table->threads[i].depth && depth < INSITU_DEPTH; depth++)
      if (insitu_table->rows[insitu_table->threads[i].frames[depth].row].key == insitu_table->rows[row].key) return 1;
  return 0;
}

static void leave_out(uint32_t row, uint32_t used) {
  struct insitu_row *rows = insitu_table->rows;
  uint64_t none = 0, key = rows[row].key;
  if (!atomic_compare_exchange_strong(place_of(key), &none, key)) return; /* another one's place: this one stays */
  for (uint32_t i = 1; i < used; i++)
    if (rows[i].key == key) __atomic_fetch_or(&rows[i].flags, (uint32_t)ROW_IS_THROTTLED, __ATOMIC_RELAXED);
  insitu_table->header->throttled++;
}

/* The call path that takes least time per call, of those whose recording takes more than they are worth. */
static uint32_t least_worth(uint32_t used, const uint32_t *fresh_at, double window) {
  const struct insitu_row *rows = insitu_table->rows;
  double allowed = insitu_table->header->budget, least = 0;
  uint32_t found = 0;
  for (uint32_t i = 1; i < used; i++) {
    if (rows[i].kind != INSITU_COMPILED || rows[i].flags & ROW_IS_THROTTLED || !rows[i].visits) continue;
    double fresh = (double)fresh_at[i] * event_ticks, each = (double)rows[i].time / (double)rows[i].visits;
    if (fresh < 0.01 * allowed * window || event_ticks < allowed * each || is_open(i)) continue;
    uint64_t other = atomic_load_explicit(place_of(rows[i].key), memory_order_relaxed);
    if (!other && (!found || each < least)) found = i, least = each;
  }
  return found;
}

static void keep_budget(uint64_t now) {
  static uint32_t fresh[INSITU_ROWS]; /* visits since the last look */
  struct insitu_row *rows = insitu_table->rows;
  uint32_t row, used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  double events = 0, window = (double)(now - looked_at), elapsed = (double)(now - began);
  double allowed = insitu_table->header->budget;
  for (uint32_t i = 1; i < used; i++) {
    if (rows[i].kind != INSITU_COMPILED) continue;
    uint64_t visits = __atomic_load_n(&rows[i].visits, __ATOMIC_RELAXED); /* another thread may count there */
    fresh[i] = (uint32_t)(visits - seen[i]);
    seen[i] = visits;
    events += fresh[i];
  }
  looked_at = now;
  double cost = events * event_ticks;
  spent += cost;
  if (!(allowed > 0) || elapsed * tick_ns < THROTTLE_AFTER_S * 1e9 || spent <= allowed * elapsed) return;
  while (cost > 0.75 * allowed * window && (row = least_worth(used, fresh, window))) {
    leave_out(row, used);
    cost -= (double)fresh[row] * event_ticks;
  }
}

static void follow(uint64_t now) {
  keep_budget(now);
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  insitu_loop_find(used, (double)(now - began), tick_ns);
}

__attribute__((noinline)) static void look(uint64_t now) {
  if (atomic_flag_test_and_set_explicit(&is_looking, memory_order_acquire)) return;
  if (!began) calibrate(now);
  else follow(now);
  uint64_t next = now + (uint64_t)(LOOK_EVERY_S * 1e9 / tick_ns);
  atomic_store_explicit(&look_at, next, memory_order_relaxed);
  atomic_flag_clear_explicit(&is_looking, memory_order_release);
}

/* ---- what the compiler calls ---------------------------------------------------------------------------------- */

EXPORT void __cyg_profile_func_enter(void *function, void *call_site) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  const uintptr_t *frame = __builtin_frame_address(0);
  uint32_t here = place(frame), from = site(call_site), row, flags = 0;
  uint64_t key = (uint64_t)(uintptr_t)function;
  if (__builtin_expect(is_left_out(key), 0)) return;
  uint64_t now = insitu_ticks();
  drop_left(self, here, from, now);
  const struct insitu_row *rows = insitu_table->rows;
  for (;;) {
    const struct insitu_frame *top = insitu_top(self);
    row = top->row;
    if (rows[row].key == key) flags = INSITU_FOLDED; /* direct recursion: its time counts once */
    else row = row_below(row, key);
    if (__builtin_expect(row || flags || self->overflow || !was_left(top, frame, (uintptr_t)call_site), 1)) break;
    insitu_pop(self, now);
  }
  if (__builtin_expect(!row && !flags, 0) && !(row = add_row(insitu_top(self)->row, function)))
    flags = INSITU_FOLDED | INSITU_UNNAMED, row = insitu_top(self)->row;
  if (__builtin_expect(__atomic_load_n(&rows[row].flags, __ATOMIC_RELAXED) & ROW_IS_LOOP, 0) && !flags)
    insitu_loop_iteration(self, now);
  if (!(flags & INSITU_UNNAMED)) { /* one thread counts in a row, others may read */
    uint64_t *visits = &insitu_table->rows[row].visits;
    __atomic_store_n(visits, *visits + 1, __ATOMIC_RELAXED);
  }
  uint32_t depth = self->depth;
  insitu_push(self, row, flags | from, now);
  if (__builtin_expect(self->depth != depth, 1)) insitu_top(self)->stack = here;
}

EXPORT void __cyg_profile_func_exit(void *function, void *call_site) {
  (void)call_site;
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  uint64_t key = (uint64_t)(uintptr_t)function;
  if (__builtin_expect(is_left_out(key), 0)) return;
  uint64_t now = insitu_ticks();
  const struct insitu_row *rows = insitu_table->rows;
  const struct insitu_frame *top = insitu_top(self);
  if (__builtin_expect(self->overflow || (top->stack && (rows[top->row].key == key || top->flags & INSITU_UNNAMED)),
                       1)) {
    insitu_pop(self, now);
    if (__builtin_expect(now >= atomic_load_explicit(&look_at, memory_order_relaxed), 0)) look(now);
    return;
  }
  /* Functions above it were left by longjmp; one that was entered before the start is ignored. */
  for (uint32_t depth = self->depth; depth > 1 && self->frames[depth - 1].stack; depth--) {
    if (rows[self->frames[depth - 1].row].key != key) continue;
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
}
