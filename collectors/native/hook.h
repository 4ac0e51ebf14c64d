/* Installing the function timer into a running interpreter. */
#ifndef INSITU_HOOK_H
#define INSITU_HOOK_H

#include "python_abi.h"

/* CPython 3.11: 0, or -1 when another tool owns the evaluator. */
int insitu_hook_evaluator(void);
/* CPython 3.12+: six callables for PY_START, PY_RESUME, PY_THROW, PY_RETURN, PY_YIELD, PY_UNWIND. */
PyObject *insitu_hook_callbacks(void);
/* `callable` is called with the exception that leaves the body of __main__, SystemExit included. */
void insitu_hook_on_uncaught(PyObject *callable);

#endif
