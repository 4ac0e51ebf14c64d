/* Rows that are no Python functions: the program's own regions, and built-in functions. */
#ifndef INSITU_MARKS_H
#define INSITU_MARKS_H

#include "frames.h"

/* The program's own region; `name` is an interned str. */
void insitu_region_enter(struct insitu_thread *self, PyObject *name);
void insitu_region_leave(struct insitu_thread *self, PyObject *name);
/* A function written in C is called from Python, or ends. */
void insitu_builtin_enter(struct insitu_thread *self, PyObject *callable);
void insitu_builtin_leave(struct insitu_thread *self, PyObject *callable);

#endif
