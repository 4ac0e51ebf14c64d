/* From code objects to rows: which functions are recorded, below which call path, under which name. */
#ifndef INSITU_FRAMES_H
#define INSITU_FRAMES_H

#include "python_abi.h"
#include "table.h"

enum {
  CODE_IS_LIBRARY = 1,
  CODE_IS_GENERATOR = 2,
  CODE_IS_MODULE = 4,
  CODE_IS_IGNORED = 8,    /* filtered, throttled or our own: as if it were part of its caller */
  CODE_IS_THROTTLED = 16, /* table.py knows it of a row as THROTTLED */
  ROW_IS_LOOP = 32,       /* entering it begins an iteration of the main loop */
  ROW_LEVEL = 256,        /* times how far below the program a row is */
};

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

/* The first question for each code object asks Python. `globals` may be NULL where the frame of this code runs. */
struct insitu_code *insitu_code_find(PyObject *code, PyObject *globals);
/* All that were asked for, in that order; NULL behind the last. */
struct insitu_code *insitu_code_at(unsigned index);

/* How a frame begins: a generator resumes, which is no new visit; a body starts; or a function is called, which only
 * makes the generator if it is one. */
enum insitu_begin { INSITU_RESUME = 0, INSITU_START = 1, INSITU_CALL = 3 };
/* What came of it: nothing was begun and nothing is to be left; a frame was begun; or this code is never recorded. */
enum insitu_began { INSITU_NOT_BEGUN, INSITU_BEGUN, INSITU_IGNORED };

/* A frame begins in this thread: find or make its row and push a frame, or fold it. */
enum insitu_began insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                      enum insitu_begin how);
/* A function ends: returned, yielded or unwound. Frames above it whose end was never told are closed with it. */
enum insitu_began insitu_python_leave(struct insitu_thread *self, PyObject *code);

#endif
