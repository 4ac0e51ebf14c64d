/* The function timer inside CPython: a frame evaluator on 3.11 (PEP 523), callbacks of sys.monitoring from 3.12 on. */
#define _GNU_SOURCE
#include "hook.h"

#include "frames.h"
#include "marks.h"
#include "table.h"

#include <pthread.h>
#include <string.h>

static PyObject *on_uncaught; /* called with the exception that leaves the body of __main__ */

static int is_main_code(PyObject *code) {
  return insitu_table && insitu_table->rows[0].key == (uint64_t)(uintptr_t)code;
}

static void report_uncaught(PyObject *exception) {
  if (!on_uncaught) return;
  PyObject *result = PyObject_CallFunctionObjArgs(on_uncaught, exception, NULL);
  if (result) Py_DecRef(result);
  else PyErr_Clear();
}

/* ---- CPython 3.11 ------------------------------------------------------------------------------------------- */

/* Deeper calls run without the hook: each hooked call takes C stack, while unhooked calls of Python functions do not.
 */
#define UNHOOK_DEPTH 1500

/* Nor does a call use the hook if less than this is left of the stack of its thread, or half of a small stack. */
#define UNHOOK_BYTES (64u << 10)

/* The position on the stack below which calls run without the hook; 0 until the first call in this thread. */
static __thread uintptr_t stack_limit;

static void find_stack_limit(void) {
  pthread_attr_t attributes;
  void *lowest = NULL;
  size_t bytes = 0;
  stack_limit = 1; /* if the bounds are unknown, only the depth counts */
  struct insitu_interrupts before = insitu_block_interrupts();
  if (!pthread_getattr_np(pthread_self(), &attributes)) {
    if (!pthread_attr_getstack(&attributes, &lowest, &bytes) && lowest)
      stack_limit = (uintptr_t)lowest + (bytes / 2 < UNHOOK_BYTES ? bytes / 2 : UNHOOK_BYTES);
    pthread_attr_destroy(&attributes);
  }
  insitu_restore_interrupts(&before);
}

static Evaluator311 next_evaluator;

static PyObject *evaluate(PyThreadState *state, Frame311 *frame, int is_throw);

/* Replace the evaluator only if it is the expected one: a tool that was installed later, and calls ours, keeps the
 * slot. */
static void replace_evaluator(Evaluator311 before, Evaluator311 after) {
  PyInterpreterState *interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == before)
    _PyInterpreterState_SetEvalFrameFunc(interpreter, after);
}

static int unhooked; /* how many calls run without the hook */

static PyObject *evaluate_unhooked(PyThreadState *state, Frame311 *frame, int is_throw) {
  replace_evaluator(evaluate, next_evaluator);
  unhooked++;
  PyObject *result = next_evaluator(state, frame, is_throw);
  unhooked--;
  if (insitu_is_on) replace_evaluator(next_evaluator, evaluate);
  return result;
}

static void report_unwound(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value) report_uncaught(value);
  PyErr_Restore(type, value, traceback);
}

/* A frame has ended with `result`, NULL if an exception leaves it. */
static __attribute__((noinline)) PyObject *leave(struct insitu_thread *self, PyObject *code, PyObject *result) {
  if (insitu_is_on) insitu_python_leave(self, code);
  if (!result && is_main_code(code)) report_unwound();
  return result;
}

static __attribute__((noinline)) PyObject *evaluate_slowly(PyThreadState *state, Frame311 *frame, int is_throw) {
  struct insitu_thread *self = insitu_thread_self();
  if (!self) return next_evaluator(state, frame, is_throw);
  PyObject *code = frame->f_code;
  enum insitu_begin how = INSITU_CALL;
  if (frame->owner == FRAME_OWNED_BY_GENERATOR)
    how = !is_throw && (*frame->prev_instr & 0xff) == RETURN_GENERATOR_311 ? INSITU_START : INSITU_RESUME;
  if (insitu_python_enter(self, code, frame->f_globals, how) != INSITU_BEGUN)
    return next_evaluator(state, frame, is_throw);
  if (!stack_limit) find_stack_limit();
  int is_deep = self->overflow >= UNHOOK_DEPTH - INSITU_DEPTH || (uintptr_t)__builtin_frame_address(0) < stack_limit;
  PyObject *result = is_deep ? evaluate_unhooked(state, frame, is_throw) : next_evaluator(state, frame, is_throw);
  return leave(self, code, result);
}

static PyObject *evaluate(PyThreadState *state, Frame311 *frame, int is_throw) {
  PyObject *code = frame->f_code;
  /* Checked first, because in a program with throttled functions most calls are not recorded. */
  if (*insitu_ignored_at(code) == code) return next_evaluator(state, frame, is_throw);
  struct insitu_thread *self = insitu_self;
  if (__builtin_expect(!insitu_is_on || !self || frame->owner == FRAME_OWNED_BY_GENERATOR, 0) ||
      __builtin_expect((uintptr_t)__builtin_frame_address(0) < stack_limit || !stack_limit, 0))
    return evaluate_slowly(state, frame, is_throw);
  if (__builtin_expect(insitu_enter_quickly(self, code) != INSITU_BEGUN, 0))
    return evaluate_slowly(state, frame, is_throw);
  PyObject *result = next_evaluator(state, frame, is_throw);
  if (__builtin_expect(!result || !insitu_is_on, 0) || !insitu_leave_quickly(self, code))
    return leave(self, code, result);
  return result;
}

static PyInterpreterState *measured_interpreter;

int insitu_hook_evaluator(void) {
  PyInterpreterState *interpreter = PyInterpreterState_Get();
  next_evaluator = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (next_evaluator != _PyEval_EvalFrameDefault) return -1; /* another tool owns the slot */
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
  measured_interpreter = interpreter;
  insitu_evaluators_patch();
  return 0;
}

/* The interpreter lock protects the slot and `next_evaluator`. */
void insitu_set_evaluator(PyInterpreterState *interpreter, Evaluator311 evaluator) {
  if (interpreter == measured_interpreter && evaluator != evaluate) {
    int is_ours = _PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate;
    next_evaluator = evaluator ? evaluator : _PyEval_EvalFrameDefault;
    if (is_ours) return;
    /* Deep calls run without ours: it comes back when they end. */
  }
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluator);
}

Evaluator311 insitu_get_evaluator(PyInterpreterState *interpreter) {
  Evaluator311 evaluator = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  return evaluator == evaluate ? next_evaluator : evaluator;
}

void insitu_evaluator_check(void) {
  if (!measured_interpreter || unhooked) return;
  if (_PyInterpreterState_GetEvalFrameFunc(measured_interpreter) != evaluate)
    insitu_table->header->evaluator_replaced = 1;
}

/* ---- CPython 3.12 and later --------------------------------------------------------------------------------- */

typedef PyObject *(*Vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
typedef struct Callback {
  PyObject base;
  Vectorcall call;
} Callback;

static PyObject *disable;                      /* sys.monitoring.DISABLE: no more events from this location */
static PyObject *const none = &_Py_NoneStruct; /* immortal since 3.12 */

static PyObject *result_for(enum insitu_began began) {
  if (__builtin_expect(began != INSITU_IGNORED || !disable, 1)) return none;
  Py_IncRef(disable);
  return disable;
}

#define EVENT(NAME, QUICKLY, ACTION)                                                                                 \
  static __attribute__((noinline)) PyObject *NAME##_slowly(struct insitu_thread *self, PyObject *const *arguments) { \
    return ACTION;                                                                                                   \
  }                                                                                                                  \
  static PyObject *NAME(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names) {             \
    (void)callable, (void)count, (void)names;                                                                        \
    struct insitu_thread *self = insitu_thread_self();                                                               \
    if (__builtin_expect(self == NULL, 0) || (QUICKLY)) return none;                                                 \
    return NAME##_slowly(self, arguments);                                                                           \
  }
EVENT(on_start, insitu_enter_quickly(self, arguments[0]) == INSITU_BEGUN,
      result_for(insitu_python_enter(self, arguments[0], NULL, INSITU_START)))
EVENT(on_resume, 0, result_for(insitu_python_enter(self, arguments[0], NULL, INSITU_RESUME)))
EVENT(on_throw, 0, (insitu_python_enter(self, arguments[0], NULL, INSITU_RESUME), none)) /* cannot be disabled */
EVENT(on_leave, insitu_leave_quickly(self, arguments[0]), result_for(insitu_python_leave(self, arguments[0])))
EVENT(on_call, 0, (insitu_builtin_enter(self, arguments[2]), none))
EVENT(on_called, 0, (insitu_builtin_leave(self, arguments[2]), none))

static PyObject *on_unwind(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names) {
  (void)callable, (void)names;
  struct insitu_thread *self = insitu_thread_self();
  if (self) insitu_python_leave(self, arguments[0]);
  if (is_main_code(arguments[0]) && (count & ~((size_t)1 << 63)) > 2) report_uncaught(arguments[2]);
  return none;
}

static PyMemberDef callback_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Callback, call), READONLY, NULL},
                                         {NULL, 0, 0, 0, NULL}};

static PyObject *new_callback(PyTypeObject *type, Vectorcall call) {
  Callback *callback = (Callback *)_PyObject_New(type);
  if (callback) callback->call = call;
  return (PyObject *)callback;
}

PyObject *insitu_hook_callbacks(void) {
  PyType_Slot slots[] = {{Py_tp_call, (void *)PyVectorcall_Call}, {Py_tp_members, callback_members}, {0, NULL}};
  PyType_Spec spec = {"insitu_native.Callback", sizeof(Callback), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                      slots};
  PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!type) return NULL;
  return Py_BuildValue("(NNNNNNNNN)", new_callback(type, on_start), new_callback(type, on_resume),
                       new_callback(type, on_throw), new_callback(type, on_leave), new_callback(type, on_leave),
                       new_callback(type, on_unwind), new_callback(type, on_call), new_callback(type, on_called),
                       new_callback(type, on_called));
}

void insitu_hook_disable_with(PyObject *object) {
  Py_IncRef(object);
  disable = object == &_Py_NoneStruct ? NULL : object;
}

/* ---- all versions: the profile function, if another tool owns the other interfaces ------------------------------ */

enum { TRACE_CALL = 0, TRACE_RETURN = 3, TRACE_C_CALL = 4, TRACE_C_EXCEPTION = 5, TRACE_C_RETURN = 6 };

static int profiles_builtins;

static int profile(PyObject *unused, PyObject *frame, int what, PyObject *argument) {
  (void)unused;
  struct insitu_thread *self = insitu_thread_self();
  if (!self) return 0;
  if (what != TRACE_CALL && what != TRACE_RETURN) {
    if (!profiles_builtins || !argument) return 0;
    if (what == TRACE_C_CALL) insitu_builtin_enter(self, argument);
    else if (what == TRACE_C_RETURN || what == TRACE_C_EXCEPTION) insitu_builtin_leave(self, argument);
    return 0;
  }
  PyObject *code = PyFrame_GetCode(frame);
  if (what == TRACE_RETURN) insitu_python_leave(self, code);
  else {
    const struct insitu_code *info = insitu_code_find(code, NULL);
    int is_resumed = info->flags & ROW_IS_GENERATOR && (uint32_t)PyFrame_GetLasti(frame) != info->first_resume;
    insitu_python_enter(self, code, NULL, is_resumed ? INSITU_RESUME : INSITU_START);
  }
  Py_DecRef(code);
  return 0;
}

void insitu_hook_profile(int is_with_builtins) {
  profiles_builtins = is_with_builtins;
  PyEval_SetProfile(profile, NULL);
}

void insitu_hook_profile_thread(PyObject *frame, int is_call) {
  PyEval_SetProfile(profile, NULL);
  if (is_call) profile(NULL, frame, TRACE_CALL, NULL);
}

void insitu_hook_on_uncaught(PyObject *callable) {
  Py_IncRef(callable);
  on_uncaught = callable;
}
