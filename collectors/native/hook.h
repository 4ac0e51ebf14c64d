/* Installing the function timer into a running interpreter. */
#ifndef INSITU_HOOK_H
#define INSITU_HOOK_H

#include "python_abi.h"

/* CPython 3.11: 0, or -1 when another tool owns the evaluator. */
int insitu_hook_evaluator(void);
/* CPython 3.12+: callables for PY_START, PY_RESUME, PY_THROW, PY_RETURN, PY_YIELD, PY_UNWIND, and for CALL, C_RETURN,
 * C_RAISE. */
PyObject *insitu_hook_callbacks(void);
/* What they answer about code that is never recorded, so that it costs nothing from then on; None: nothing. */
void insitu_hook_disable_with(PyObject *object);
/* The profile function of this thread, which takes more time; and that of a thread that has just entered `frame`. */
void insitu_hook_profile(int is_with_builtins);
void insitu_hook_profile_thread(PyObject *frame, int is_call);
/* `callable` is called with the exception that leaves the body of __main__, SystemExit included. */
void insitu_hook_on_uncaught(PyObject *callable);

#endif
