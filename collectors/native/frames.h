/* From code objects to rows: which functions are recorded, below which call path, under which name. */
#ifndef INSITU_FRAMES_H
#define INSITU_FRAMES_H

#include "loop.h"
#include "python_abi.h"
#include "table.h"

/* The tick of the next look at what the hook costs (budget.h); the hook compares. */
extern uint64_t insitu_look_at;
void insitu_budget_look(uint64_t now);

/* Flags of rows that the quick path leaves to the slow one. */
enum { ROW_IS_SPECIAL = ROW_IS_GENERATOR | ROW_IS_IGNORED | ROW_IS_LOOP | ROW_IS_PROGRAM };

/* What is known of a code object. */
struct insitu_code {
  PyObject *code;
  unsigned flags;
  uint32_t first_resume; /* of a generator, in bytes of bytecode */
  uint64_t skipped;      /* calls inside libraries, which have no row */
  uint64_t window;       /* events since the last look of budget.c */
  uint64_t ticks;        /* its inclusive time */
  uint64_t visits;
  unsigned has_callees; /* something that is recorded is called from it */
};

/* Which functions are recorded, newline-separated; kept for ever. `library` and `user` are directories of library
 * code and exceptions to them, `ours` is insitu's; `only` and `skip` are patterns of names or, with a slash, files. */
int insitu_frames_configure(PyObject *library, PyObject *user, PyObject *ours, PyObject *only, PyObject *skip);
/* How far below the program rows are made; whether a function that calls itself gets a row per level. */
void insitu_frames_limit(unsigned depth, int keeps_recursion);
/* Whether nothing that this frame calls gets a row. */
int insitu_is_deepest(const struct insitu_frame *top);

/* The first question for each code object asks Python. `globals` may be NULL where the frame of this code runs. */
struct insitu_code *insitu_code_find(PyObject *code, PyObject *globals);
/* All that were asked for, in that order; NULL behind the last. */
struct insitu_code *insitu_code_at(unsigned index);

/* How a frame begins: a generator resumes, which is no new visit; a body starts; or a function is called, which only
 * makes the generator if it is one. */
enum insitu_begin { INSITU_RESUME = 0, INSITU_START = 1, INSITU_CALL = 3 };
/* What came of it: nothing was begun and nothing is to be left; a frame was begun; or this code is never recorded. */
enum insitu_began { INSITU_NOT_BEGUN, INSITU_BEGUN, INSITU_IGNORED };

/* Whether a function that calls itself gets a row per level. */
extern int insitu_keeps_recursion;

/* A frame begins in this thread: find or make its row and push a frame, or fold it. */
enum insitu_began insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                      enum insitu_begin how);
/* A function ends: returned, yielded or unwound. Frames above it whose end was never told are closed with it. */
enum insitu_began insitu_python_leave(struct insitu_thread *self, PyObject *code);

/* Code that was ignored lately, for a quick answer. */
#define INSITU_LATELY 1024u
extern const PyObject *insitu_ignored[INSITU_LATELY];
static inline const PyObject **insitu_ignored_at(const PyObject *code) {
  return &insitu_ignored[((uintptr_t)code >> 5) & (INSITU_LATELY - 1)];
}

/* The ordinary case of a function that starts: it is known below its caller, or known to be ignored. In any other
 * nothing is begun. */
static inline enum insitu_began insitu_enter_quickly(struct insitu_thread *self, PyObject *code) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_rows;
  uint64_t key = (uint64_t)(uintptr_t)code;
  uint32_t at = top->row, fold = 0;
  if (__builtin_expect(rows[at].key == key, 0)) { /* direct recursion: one row, time counted once */
    if (rows[at].kind == INSITU_LIBRARY || insitu_keeps_recursion) return INSITU_NOT_BEGUN;
    fold = INSITU_FOLDED;
  } else {
    at = rows[at].first_child;
    while (__builtin_expect(rows[at].key != key, 0) && at) at = rows[at].next_sibling;
  }
  struct insitu_row *row = &rows[at];
  if (__builtin_expect((top->skipped | (row->flags & ROW_IS_SPECIAL)) != 0, 0))
    return *insitu_ignored_at(code) == code ? INSITU_IGNORED : INSITU_NOT_BEGUN;
  if (__builtin_expect(self->depth == INSITU_DEPTH, 0)) return INSITU_NOT_BEGUN;
  uint64_t now = insitu_ticks();
  if (__builtin_expect(now >= insitu_look_at, 0)) return INSITU_NOT_BEGUN;
  row->visits++;
  struct insitu_frame *frame = top + 1;
  frame->start = now;
  frame->inside = 0;
  frame->row = at;
  frame->flags = fold;
  frame->skipped = frame->stack = 0;
  /* A reader takes the frames below depth as open: publish the frame before the depth. */
  atomic_signal_fence(memory_order_release);
  self->depth++;
  return INSITU_BEGUN;
}

/* The ordinary case of a function that ends: it is on top. */
static inline int insitu_leave_quickly(struct insitu_thread *self, PyObject *code) {
  uint64_t now = insitu_ticks();
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *row = &insitu_rows[top->row];
  if (__builtin_expect((top->skipped | self->overflow | (row->flags & (ROW_IS_IGNORED | ROW_IS_PROGRAM))) != 0, 0))
    return 0;
  if (__builtin_expect(row->key != (uint64_t)(uintptr_t)code, 0)) return 0;
  uint64_t elapsed = now - top->start;
  self->depth--;
  if (!(top->flags & INSITU_FOLDED)) row->time += elapsed;
  row->time_exclusive += elapsed - top->inside;
  top[-1].inside += elapsed;
  return 1;
}

#endif
