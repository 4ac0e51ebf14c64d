/* Rows that are not Python functions: regions marked by the program, and built-in functions. */
#ifndef INSITU_MARKS_H
#define INSITU_MARKS_H

#include "frames.h"

/* A region of the program begins or ends; `name` is an interned str. */
void insitu_region_enter(struct insitu_thread *self, PyObject *name);
void insitu_region_leave(struct insitu_thread *self, PyObject *name);
/* A function written in C is called from Python, or ends. */
void insitu_builtin_enter(struct insitu_thread *self, PyObject *callable);
void insitu_builtin_leave(struct insitu_thread *self, PyObject *callable);

#endif
