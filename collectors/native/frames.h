/* Calls of Python functions: the row of each call path, and the frames of open calls. */
#ifndef INSITU_FRAMES_H
#define INSITU_FRAMES_H

#include "budget.h"
#include "code.h"
#include "table.h"

/* Flags of rows that insitu_enter_quickly leaves to insitu_python_enter. */
enum { ROW_IS_SPECIAL = ROW_IS_GENERATOR | ROW_IS_IGNORED | ROW_IS_LOOP | ROW_IS_PROGRAM };

/* Set down to which level below the program rows are created, and whether a function that calls itself gets a row per
 * level. */
void insitu_frames_limit(unsigned depth, int keeps_recursion);
/* Whether nothing that this frame calls gets a row. */
int insitu_is_deepest(const struct insitu_frame *top);

/* How a frame begins: a generator resumes, which is not a new visit; a body starts; or a function is called, which only
 * creates the generator if it is one. Bit 0 says whether it counts as a visit. */
enum insitu_begin { INSITU_RESUME = 0, INSITU_START = 1, INSITU_CALL = 3 };
/* What the hook did: no frame was begun and none is to be left; a frame was begun; or this code is never recorded. */
enum insitu_began { INSITU_NOT_BEGUN, INSITU_BEGUN, INSITU_IGNORED };

/* Whether a function that calls itself gets a row per level. */
extern int insitu_keeps_recursion;

/* Ticks that calls have taken for which there was no row yet. Not exact if threads run at the same time. */
extern uint64_t insitu_slow_ticks;

/* A frame begins in this thread: find or create its row and push a frame, or fold it into its caller's. */
enum insitu_began insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                      enum insitu_begin how);
/* A function returns, yields or is unwound. Frames above it whose end was not reported are closed with it. */
enum insitu_began insitu_python_leave(struct insitu_thread *self, PyObject *code);

/* Recently ignored code objects, as a direct-mapped cache. */
#define INSITU_IGNORED_CACHE 1024u
extern const PyObject *insitu_ignored[INSITU_IGNORED_CACHE];
static inline const PyObject **insitu_ignored_at(const PyObject *code) {
  return &insitu_ignored[((uintptr_t)code >> 5) & (INSITU_IGNORED_CACHE - 1)];
}

/* The common case of a function that starts: its row exists below its caller's, or it is known to be ignored. In all
 * other cases nothing is begun, and the caller goes on with insitu_python_enter. */
static inline enum insitu_began insitu_enter_quickly(struct insitu_thread *self, PyObject *code) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_rows;
  uint64_t key = (uint64_t)(uintptr_t)code;
  uint32_t at = top->row;
  if (__builtin_expect(rows[at].key == key, 0)) { /* direct recursion: one row */
    if (rows[at].kind == INSITU_LIBRARY || insitu_keeps_recursion) return INSITU_NOT_BEGUN;
  } else {
    uint32_t parent = at;
    at = rows[parent].first_child;
    if (__builtin_expect(rows[at].key != key, 0)) at = insitu_find_child(parent, key);
  }
  struct insitu_row *row = &rows[at];
  if (__builtin_expect((top->skipped | (row->flags & ROW_IS_SPECIAL)) != 0, 0))
    return *insitu_ignored_at(code) == code ? INSITU_IGNORED : INSITU_NOT_BEGUN;
  if (__builtin_expect(self->depth == INSITU_DEPTH, 0)) return INSITU_NOT_BEGUN;
  uint64_t now = insitu_ticks();
  if (__builtin_expect(now >= insitu_budget_check_at, 0)) return INSITU_NOT_BEGUN;
  row->visits++;
  const uint32_t flags = row->open_frames++ ? INSITU_FOLDED : 0; /* recursion: its time counts once */
  insitu_put_frame(self, (struct insitu_frame){.start = now, .row = at, .flags = flags});
  return INSITU_BEGUN;
}

/* The common case of a function that ends: its frame is on top. Returns 0, and does nothing, in all other cases. */
static inline int insitu_leave_quickly(struct insitu_thread *self, PyObject *code) {
  uint64_t now = insitu_ticks();
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *row = &insitu_rows[top->row];
  if (__builtin_expect((top->skipped | self->overflow | (row->flags & (ROW_IS_IGNORED | ROW_IS_PROGRAM))) != 0, 0))
    return 0;
  if (__builtin_expect(row->key != (uint64_t)(uintptr_t)code, 0)) return 0;
  insitu_close_top(self, now);
  return 1;
}

#endif
