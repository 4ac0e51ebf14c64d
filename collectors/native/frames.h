/* From code objects to rows: which functions are recorded, below which call path, under which name. */
#ifndef INSITU_FRAMES_H
#define INSITU_FRAMES_H

#include "python_abi.h"
#include "table.h"

enum { CODE_IS_LIBRARY = 1, CODE_IS_GENERATOR = 2, CODE_IS_MODULE = 4 };

/* Directories whose code is library code, and exceptions to them; kept for ever. */
int insitu_frames_configure(PyObject *library, PyObject *user);

/* What is known of a code object; the first question for each one asks Python. */
unsigned insitu_code_flags(PyObject *code);

/* How a frame begins: a generator resumes, which is no new visit; a body starts; or a function is called, which only
 * makes the generator if it is one. */
enum insitu_begin { INSITU_RESUME = 0, INSITU_START = 1, INSITU_CALL = 3 };

/* A frame begins in this thread: find or make its row and push a frame, or fold it. Returns 0 where nothing was begun
 * and so nothing is to be left. */
int insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals, enum insitu_begin how,
                        uint64_t now);

/* A function ends: returned, yielded or unwound. Frames above it whose end was never told are closed with it. */
void insitu_python_leave(struct insitu_thread *self, PyObject *code, uint64_t now);

#endif
