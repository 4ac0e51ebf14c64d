/* Hand-written declarations of the part of Python that the hook uses. No Python.h is needed to build, and one library
 * serves CPython 3.11 to 3.15.
 *
 * Everything is stable ABI (PEP 384) except what is marked below. The frame of 3.11 does not change any more: that
 * version gets security fixes only. tests/collectors/test_python_abi.py compares these declarations with the real
 * headers. All symbols are weak, because the same library is preloaded into programs without Python. Free-threaded and
 * debug builds have other object layouts: collectors/library.py refuses them, and the Python hook measures there. */
#ifndef INSITU_PYTHON_ABI_H
#define INSITU_PYTHON_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;
typedef struct PyObject {
  Py_ssize_t ob_refcnt;
  struct PyTypeObject *ob_type;
} PyObject;
typedef struct PyTypeObject PyTypeObject;
typedef struct PyThreadState PyThreadState;
typedef struct PyInterpreterState PyInterpreterState;

typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct PyMethodDef {
  const char *ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char *ml_doc;
} PyMethodDef;
typedef struct PyModuleDef {
  PyObject ob_base;
  PyObject *(*m_init)(void);
  Py_ssize_t m_index;
  PyObject *m_copy;
  const char *m_name;
  const char *m_doc;
  Py_ssize_t m_size;
  PyMethodDef *m_methods;
  void *m_slots;
  void *m_traverse, *m_clear, *m_free;
} PyModuleDef;
typedef struct PyMemberDef {
  const char *name;
  int type;
  Py_ssize_t offset;
  int flags;
  const char *doc;
} PyMemberDef;
typedef struct PyType_Slot {
  int slot;
  void *pfunc;
} PyType_Slot;
typedef struct PyType_Spec {
  const char *name;
  int basicsize;
  int itemsize;
  unsigned int flags;
  PyType_Slot *slots;
} PyType_Spec;

enum {
  METH_VARARGS = 1,
  METH_NOARGS = 4,
  METH_O = 8,
  PYTHON_API_VERSION = 1013,
  Py_tp_call = 50,
  Py_tp_members = 72,
  T_PYSSIZET = 19,
  READONLY = 1,
};
#define Py_TPFLAGS_DEFAULT 0u
#define Py_TPFLAGS_HAVE_VECTORCALL (1u << 11)
#define PyModuleDef_HEAD_INIT {1, NULL}, NULL, 0, NULL

#define WEAK __attribute__((weak, visibility("default")))
extern PyObject _Py_NoneStruct WEAK;
extern PyObject *PyExc_OSError WEAK;
extern PyObject *PyExc_RuntimeError WEAK;
WEAK PyObject *PyModule_Create2(PyModuleDef *, int);
WEAK int PyModule_AddObjectRef(PyObject *, const char *, PyObject *);
WEAK int _PyArg_ParseTuple_SizeT(PyObject *, const char *, ...); /* lengths of y# are Py_ssize_t */
WEAK PyObject *PyBool_FromLong(long);
WEAK PyObject *Py_BuildValue(const char *, ...);
WEAK PyObject *PyObject_GetAttrString(PyObject *, const char *);
WEAK PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
WEAK const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *);
WEAK long PyLong_AsLong(PyObject *);
WEAK PyObject *PyDict_GetItemString(PyObject *, const char *);
WEAK PyObject *PyEval_GetGlobals(void);
WEAK PyObject *PyType_FromSpec(PyType_Spec *);
WEAK void *PyType_GetSlot(PyTypeObject *, int);
WEAK PyObject *_PyObject_New(PyTypeObject *);
WEAK PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
WEAK PyObject *PyErr_SetFromErrnoWithFilename(PyObject *, const char *);
WEAK void PyErr_SetString(PyObject *, const char *);
WEAK void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
WEAK void PyErr_NormalizeException(PyObject **, PyObject **, PyObject **);
WEAK void PyErr_Restore(PyObject *, PyObject *, PyObject *);
WEAK void PyErr_Clear(void);
WEAK void PyErr_WriteUnraisable(PyObject *);
WEAK void Py_IncRef(PyObject *);
WEAK void Py_DecRef(PyObject *);
WEAK PyInterpreterState *PyInterpreterState_Get(void);
WEAK int PyBytes_AsStringAndSize(PyObject *, char **, Py_ssize_t *);
extern PyTypeObject PyCFunction_Type WEAK;
extern PyTypeObject PyMethodDescr_Type WEAK;
WEAK PyCFunction PyCFunction_GetFunction(PyObject *);
WEAK PyObject *PyFrame_GetCode(PyObject *);
extern const unsigned long Py_Version WEAK;

/* Not part of the stable ABI, but the same from 3.11 to 3.15. */
WEAK int PyFrame_GetLasti(PyObject *);
WEAK void PyEval_SetProfile(int (*)(PyObject *, PyObject *, int, PyObject *), PyObject *);
enum { RESUME_311 = 151, RESUME_313 = 149, RESUME_314 = 128 }; /* where a function's body begins; 3.15 as 3.14 */

/* CPython 3.11 only: the frame evaluator of PEP 523 and the frame that it gets. */
typedef struct Frame311 {
  PyObject *f_func;
  PyObject *f_globals;
  PyObject *f_builtins;
  PyObject *f_locals;
  PyObject *f_code;
  PyObject *frame_obj;
  struct Frame311 *previous;
  uint16_t *prev_instr;
  int stacktop;
  _Bool is_entry;
  char owner;
} Frame311;
enum { FRAME_OWNED_BY_GENERATOR = 1, RETURN_GENERATOR_311 = 75 };
typedef PyObject *(*Evaluator311)(PyThreadState *, Frame311 *, int);
WEAK Evaluator311 _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState *);
WEAK void _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState *, Evaluator311);
WEAK PyObject *_PyEval_EvalFrameDefault(PyThreadState *, Frame311 *, int);

#endif
