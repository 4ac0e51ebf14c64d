/* Call paths of compiled code that was built with -finstrument-functions, in C, C++ or Fortran.
 *
 * The compiler calls these two names around every function; in a program that runs unmeasured they are empty functions
 * of the C library. A row is named by the file and the address of its function: the agent looks up what that is called.
 * longjmp leaves functions without telling; their frames are recognised by where they were on the stack. */
#define _GNU_SOURCE
#include "mpi.h"
#include "table.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
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
    insitu_mpi_patch(); /* it may have been loaded just now, and call MPI */
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
  row = insitu_child(parent, key);
  /* Release: another thread that finds the row here finds it filled. */
  if (row) atomic_store_explicit(slot, row, memory_order_release);
  return row;
}

/* Whether the function on top was left by longjmp although it stands above the new one on the stack: then the place to
 * which the new one returns is not between them. Asked where the top never called that function before. */
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) static int was_left(
    const struct insitu_frame *top, const uintptr_t *here, uintptr_t call_site) {
  int32_t words = (int32_t)(top->stack - place(here));
  if (!top->stack || words <= 0 || words > FARTHEST || (top->flags & ~0xffu) == site((void *)call_site)) return 0;
  for (int32_t i = 0; i < words + 2; i++) /* a call puts where it returns to one word below the caller's */
    if (here[i] == call_site) return 0;
  return 1;
}

EXPORT void __cyg_profile_func_enter(void *function, void *call_site) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  const uintptr_t *frame = __builtin_frame_address(0);
  uint32_t here = place(frame), from = site(call_site), row, flags = 0;
  uint64_t now = insitu_ticks(), key = (uint64_t)(uintptr_t)function;
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
  if (!(flags & INSITU_UNNAMED)) insitu_table->rows[row].visits++;
  uint32_t depth = self->depth;
  insitu_push(self, row, flags | from, now);
  if (__builtin_expect(self->depth != depth, 1)) insitu_top(self)->stack = here;
}

EXPORT void __cyg_profile_func_exit(void *function, void *call_site) {
  (void)call_site;
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self, 0)) return;
  uint64_t now = insitu_ticks(), key = (uint64_t)(uintptr_t)function;
  const struct insitu_row *rows = insitu_table->rows;
  const struct insitu_frame *top = insitu_top(self);
  if (__builtin_expect(self->overflow || (top->stack && (rows[top->row].key == key || top->flags & INSITU_UNNAMED)),
                       1)) {
    insitu_pop(self, now);
    return;
  }
  /* Functions above it were left by longjmp; one that was entered before the start is ignored. */
  for (uint32_t depth = self->depth; depth > 1 && self->frames[depth - 1].stack; depth--) {
    if (rows[self->frames[depth - 1].row].key != key) continue;
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
}
