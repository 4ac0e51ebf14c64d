/* The library as a Python module: insitu_native, loaded by insitu.collectors.native. */
#include "frames.h"
#include "hook.h"
#include "mpi.h"
#include "python_abi.h"
#include "table.h"

#include <errno.h>
#include <string.h>

static PyObject *none(void) {
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

static PyObject *py_open(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *path, *program, *meta;
  Py_ssize_t meta_bytes;
  int rank, size;
  if (!_PyArg_ParseTuple_SizeT(arguments, "siisy#", &path, &rank, &size, &program, &meta, &meta_bytes)) return NULL;
  int failed = insitu_table_create(path, rank, size, program, meta, (size_t)meta_bytes);
  if (failed) {
    errno = failed;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
  }
  return none();
}

static PyObject *py_start(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *library, *user, *uncaught;
  int is_evaluator;
  if (!_PyArg_ParseTuple_SizeT(arguments, "OOOp", &library, &user, &uncaught, &is_evaluator)) return NULL;
  if (!insitu_table) {
    PyErr_SetString(PyExc_RuntimeError, "open a table first");
    return NULL;
  }
  if (insitu_frames_configure(library, user)) return NULL;
  insitu_hook_on_uncaught(uncaught);
  strcpy(insitu_table->header->hook, is_evaluator ? "evaluator" : "monitoring");
  if (!is_evaluator) {
    insitu_is_on = 1;
    return insitu_hook_callbacks();
  }
  if (insitu_hook_evaluator()) {
    PyErr_SetString(PyExc_RuntimeError, "another tool owns the frame evaluator of this interpreter");
    return NULL;
  }
  insitu_is_on = 1;
  return none();
}

static PyObject *py_record(PyObject *module, PyObject *arguments) {
  (void)module;
  int is_on;
  if (!_PyArg_ParseTuple_SizeT(arguments, "p", &is_on)) return NULL;
  insitu_is_on = is_on && insitu_table;
  return none();
}

static PyObject *py_end(PyObject *module, PyObject *arguments) {
  (void)module;
  int status;
  if (!_PyArg_ParseTuple_SizeT(arguments, "i", &status)) return NULL;
  insitu_table_end(INSITU_ENDED, status);
  return none();
}

static PyObject *py_patch_mpi(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return Py_BuildValue("i", insitu_table ? insitu_mpi_patch() : 0);
}

static PyMethodDef methods[] = {
    {"open", py_open, METH_VARARGS, "open(path, rank, size, program, meta): make this process's table"},
    {"start", py_start, METH_VARARGS,
     "start(library, user, uncaught, is_evaluator): install the evaluator, or return six callbacks"},
    {"record", py_record, METH_VARARGS, "record(is_on): whether events are recorded"},
    {"end", py_end, METH_VARARGS, "end(status): close open frames and mark the table"},
    {"patch_mpi", py_patch_mpi, METH_NOARGS, "patch_mpi(): time the MPI calls of newly loaded objects"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "insitu_native", "Collectors inside the rank.", -1, methods, NULL, NULL, NULL, NULL};

__attribute__((visibility("default"))) PyObject *PyInit_insitu_native(void) {
  return PyModule_Create2(&definition, PYTHON_API_VERSION);
}
