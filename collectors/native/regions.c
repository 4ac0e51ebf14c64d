/* Regions that a compiled program marks itself: rows of the call tree with a name.
 *
 * The key of a region is the hash of its name, so two copies of a name are one region. It is computed when a name is
 * first seen at its address below a call path; later, comparing the name with that of the row is enough.
 *
 * In a program whose call paths are read from stacks, a region is a row below the function that began it, and the
 * functions that are called until it ends are rows below the region (unwind.c). Elsewhere it is a row below the
 * innermost open frame, as regions of Python programs are (marks.c).
 *
 * A region ends where the program ends it, in whatever function, and at the latest with the thread. An end
 * without a beginning does nothing. Inside an MPI call, where callbacks run, regions are not recorded. */
#include "regions.h"

#include "loop.h"
#include "table.h"
#include "unwind.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CACHE 1024u /* cached rows by name and caller; a power of two */
#define IS_NAME (1ull << 63)

static _Atomic uint32_t cached_rows[CACHE];

/* Whether this is the row of the region `name` below `parent`. */
static inline int is_region(uint32_t row, uint32_t parent, const char *name) {
  const struct insitu_row *known = &insitu_rows[row];
  if (!row || known->parent != parent || known->kind != INSITU_REGION) return 0;
  return insitu_row_has_name(row, name);
}

/* Return the row of the region below `parent`, 0 if there is no room. */
static __attribute__((noinline)) uint32_t find_row(uint32_t parent, const char *name) {
  static const char unnamed[] = "(unnamed)";
  size_t bytes = strnlen(name, INSITU_NAME_BYTES);
  uint64_t key = insitu_hash_name(name, bytes) | IS_NAME; /* other keys are addresses */
  if (insitu_rows[parent].key == key) return parent;
  uint32_t row = insitu_find_child(parent, key);
  if (!row) row = insitu_row_fold(parent, key);
  if (row) return row;

  if (bytes) row = insitu_row_add(parent, key, INSITU_REGION, name, bytes, "", 0, 0);
  else row = insitu_row_add(parent, key, INSITU_REGION, unnamed, sizeof unnamed - 1, "", 0, 0);
  if (row) insitu_rows[row].flags |= insitu_rows[parent].flags / ROW_LEVEL * ROW_LEVEL + ROW_LEVEL;
  return row;
}

static inline __attribute__((always_inline)) void begin(struct insitu_thread *self, const char *name, uintptr_t wrapper,
                                                        const uintptr_t *caller) {
  struct insitu_region_call call = {.wrapper = wrapper};
  uint32_t parent = insitu_top(self)->row, flags = 0;
  if (insitu_is_unwinding && insitu_is_unwound(self)) {
    parent = insitu_unwind_region(self, caller, &call);
    flags = INSITU_UNWOUND;
  }

  uint64_t hash = ((uint64_t)(uintptr_t)name * 31 + parent) * 0x9E3779B97F4A7C15u;
  _Atomic uint32_t *slot = &cached_rows[hash >> 54 & (CACHE - 1)];
  /* Acquire: pairs with the release below, so that the row is complete. */
  uint32_t row = atomic_load_explicit(slot, memory_order_acquire);
  if (__builtin_expect(!is_region(row, parent, name), 0)) {
    row = find_row(parent, name);
    if (row) atomic_store_explicit(slot, row, memory_order_release);
  }
  /* No room: the region has no row, but it ends. */
  if (__builtin_expect(!row, 0)) row = parent, flags |= INSITU_UNNAMED | INSITU_FOLDED;
  if (insitu_rows[row].parent != parent) flags |= INSITU_FOLDED;

  uint64_t now = insitu_ticks();
  /* Relaxed: a thread that sees the flag late misses an iteration. */
  if (__atomic_load_n(&insitu_rows[row].flags, __ATOMIC_RELAXED) & ROW_IS_LOOP && !(flags & INSITU_FOLDED))
    insitu_loop_iteration(self, now);
  if (!(flags & INSITU_UNNAMED)) insitu_rows[row].visits++;
  const struct insitu_frame fresh = {
      .start = now, .row = row, .flags = flags | INSITU_MARKED, .skipped = call.functions};
  insitu_push_frame(self, fresh);
}

EXPORT void insitu_region_begin(const char *name) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self || !name || self->in_mpi, 0)) return;
  begin(self, name, 0, __builtin_frame_address(0));
}

void insitu_region_begin_at(const char *name, const uintptr_t *frame) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self || self->in_mpi, 0)) return;
  begin(self, name, 0, frame);
}

EXPORT void insitu_region_begin_fortran(const char *name, int32_t bytes, uintptr_t wrapper) {
  char text[INSITU_NAME_BYTES + 1];
  struct insitu_thread *self = insitu_thread_self();
  if (!self || bytes < 0 || self->in_mpi) return;
  if ((uint32_t)bytes > INSITU_NAME_BYTES) bytes = INSITU_NAME_BYTES;
  memcpy(text, name, (size_t)bytes);
  text[bytes] = 0;
  begin(self, text, wrapper, __builtin_frame_address(0));
}

EXPORT void insitu_region_end(void) {
  struct insitu_thread *self = insitu_thread_self();
  if (__builtin_expect(!self || self->in_mpi, 0)) return;
  uint64_t now = insitu_ticks();
  uint32_t depth = self->depth;
  if (__builtin_expect(!self->overflow && !(insitu_top(self)->flags & INSITU_MARKED), 0)) {
    /* The frames above the region are of functions that have not ended: they go on without rows. */
    while (depth > 1 && !(self->frames[depth - 1].flags & INSITU_MARKED)) depth--;
    if (depth <= 1) return;
    while (self->depth > depth) insitu_pop(self, now);
  }
  insitu_pop(self, now);
  while (insitu_top(self)->flags & INSITU_LEFT) insitu_pop(self, now);
}
