/* The function timer inside CPython. */
#ifndef INSITU_HOOK_H
#define INSITU_HOOK_H

#include "python_abi.h"

/* CPython 3.11: install the frame evaluator. Returns 0, or -1 if another tool owns it. */
int insitu_hook_evaluator(void);
/* What the program calls instead of the functions of Python: its evaluator runs behind ours, and it sees none of ours.
 */
void insitu_set_evaluator(PyInterpreterState *interpreter, Evaluator311 evaluator);
Evaluator311 insitu_get_evaluator(PyInterpreterState *interpreter);
/* Lead calls of all objects, also of those that are loaded later, to these two. */
void insitu_evaluators_patch(void);
/* At the end of measuring: report it if our evaluator is gone nevertheless. */
void insitu_evaluator_check(void);
/* CPython 3.12+: return a tuple of callables for PY_START, PY_RESUME, PY_THROW, PY_RETURN, PY_YIELD, PY_UNWIND, CALL,
 * C_RETURN and C_RAISE. */
PyObject *insitu_hook_callbacks(void);
/* Set what these callables return for code that is never recorded (sys.monitoring.DISABLE), so that it costs nothing
 * from then on. With None they return None for all code. */
void insitu_hook_disable_with(PyObject *object);
/* Install the profile function in this thread, or in a thread that has just entered `frame`. It is slower, and used
 * where another tool owns the other interfaces. */
void insitu_hook_profile(int is_with_builtins);
void insitu_hook_profile_thread(PyObject *frame, int is_call);
/* Set what is called with the exception that leaves the body of __main__, SystemExit included. */
void insitu_hook_on_uncaught(PyObject *callable);

#endif
