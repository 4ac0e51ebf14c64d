/* The library as the Python module insitu_native, loaded by collectors/library.py. */
#define _GNU_SOURCE
#include "annotations.h"
#include "budget.h"
#include "counters.h"
#include "cuda.h"
#include "endings.h"
#include "files.h"
#include "finish.h"
#include "frames.h"
#include "gomp.h"
#include "greenlets.h"
#include "hook.h"
#include "loop.h"
#include "maps.h"
#include "marks.h"
#include "mpi_wrapper.h"
#include "ompt.h"
#include "phases.h"
#include "python_abi.h"
#include "sample.h"
#include "table.h"

#include <dlfcn.h>
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
  unsigned long long root_pid = 0, root_started = 0;
  if (!_PyArg_ParseTuple_SizeT(arguments, "siisy#|KK", &path, &rank, &size, &program, &meta, &meta_bytes, &root_pid,
                               &root_started))
    return NULL;
  int failed = insitu_table_create(path, rank, size, program, meta, (size_t)meta_bytes);
  if (failed) {
    errno = failed;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
  }
  insitu_table->header->root_pid = root_pid;
  insitu_table->header->root_started = root_started;
  insitu_endings_start();
  return none();
}

static PyObject *py_configure(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *library, *user, *ours, *only, *skip;
  int depth, keeps_recursion;
  if (!_PyArg_ParseTuple_SizeT(arguments, "OOOOOip", &library, &user, &ours, &only, &skip, &depth, &keeps_recursion))
    return NULL;
  if (insitu_code_configure(library, user, ours, only, skip)) return NULL;
  insitu_frames_limit(depth > 0 ? (unsigned)depth : ~0u, keeps_recursion);
  return none();
}

static PyObject *py_start(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *uncaught;
  const char *how;
  int is_with_builtins;
  if (!_PyArg_ParseTuple_SizeT(arguments, "Osp", &uncaught, &how, &is_with_builtins)) return NULL;
  if (!insitu_table) {
    PyErr_SetString(PyExc_RuntimeError, "open a table first");
    return NULL;
  }
  if (strcmp(how, "evaluator") == 0 && insitu_hook_evaluator()) {
    PyErr_SetString(PyExc_RuntimeError, "another tool owns the frame evaluator of this interpreter");
    return NULL;
  }
  insitu_hook_on_uncaught(uncaught);
  strncpy(insitu_table->header->hook, how, sizeof insitu_table->header->hook - 1);
  insitu_counters_start();
  insitu_is_on = 1;
  insitu_sample_start_in_python(dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault"));
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
  insitu_cuda_patch();
  if (strcmp(how, "monitoring") == 0) return insitu_hook_callbacks();
  if (strcmp(how, "profile") == 0) insitu_hook_profile(is_with_builtins);
  return none();
}

static PyObject *py_profile_thread(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *frame, *unused;
  const char *event;
  if (!_PyArg_ParseTuple_SizeT(arguments, "OsO", &frame, &event, &unused)) return NULL;
  insitu_hook_profile_thread(frame, strcmp(event, "call") == 0);
  return none();
}

static PyObject *py_disable_with(PyObject *module, PyObject *object) {
  (void)module;
  insitu_hook_disable_with(object);
  return none();
}

static PyObject *py_budget(PyObject *module, PyObject *arguments) {
  (void)module;
  double event_ns, budget;
  if (!_PyArg_ParseTuple_SizeT(arguments, "dd", &event_ns, &budget)) return NULL;
  insitu_budget_begin(event_ns, budget);
  return none();
}

static PyObject *py_region_enter(PyObject *module, PyObject *name) {
  (void)module;
  struct insitu_thread *self = insitu_thread_self();
  if (self) insitu_region_enter(self, name);
  return none();
}

static PyObject *py_region_leave(PyObject *module, PyObject *name) {
  (void)module;
  struct insitu_thread *self = insitu_thread_self();
  if (self) insitu_region_leave(self, name);
  return none();
}

static PyObject *py_phase(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *name;
  int is_named;
  if (!_PyArg_ParseTuple_SizeT(arguments, "sp", &name, &is_named)) return NULL;
  return PyBool_FromLong(insitu_is_on && insitu_phase_mark(name, is_named));
}

static PyObject *py_limit_iterations(PyObject *module, PyObject *arguments) {
  (void)module;
  unsigned long long limit;
  if (!_PyArg_ParseTuple_SizeT(arguments, "K", &limit)) return NULL;
  insitu_loop_limit(limit);
  return none();
}

static PyObject *py_record(PyObject *module, PyObject *arguments) {
  (void)module;
  int is_on;
  if (!_PyArg_ParseTuple_SizeT(arguments, "p", &is_on)) return NULL;
  insitu_is_on = is_on && insitu_table;
  return none();
}

static PyObject *py_switch_greenlet(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *event;
  PyObject *origin, *target;
  insitu_has_greenlets = 1;
  if (!_PyArg_ParseTuple_SizeT(arguments, "s(OO)", &event, &origin, &target)) {
    PyErr_Clear(); /* an event of a later version */
    return none();
  }
  struct insitu_thread *self = insitu_thread_self();
  if (self && origin != target) insitu_greenlet_switch(self, origin, target);
  return none();
}

static PyObject *py_end(PyObject *module, PyObject *arguments) {
  (void)module;
  int status, is_aborted;
  if (!_PyArg_ParseTuple_SizeT(arguments, "ip", &status, &is_aborted)) return NULL;
  /* In C: Python would report an opened file to the program's audit hooks, or call what the program put in place of
   * os.open. */
  if (insitu_is_owner()) {
    insitu_finish(is_aborted ? INSITU_ABORTED : INSITU_ENDED, status);
    insitu_wake_agent();
  }
  return none();
}

static PyObject *py_patch_mpi(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  insitu_maps_patch();
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
  insitu_cuda_patch();
  return Py_BuildValue("i", insitu_table ? insitu_mpi_patch() : 0);
}

static PyMethodDef methods[] = {
    {"open", py_open, METH_VARARGS,
     "open(path, rank, size, program, meta, root_pid, root_started): create the table of this process"},
    {"configure", py_configure, METH_VARARGS,
     "configure(library, user, ours, only, skip, depth, keeps_recursion): set what is recorded"},
    {"start", py_start, METH_VARARGS,
     "start(uncaught, how, is_with_builtins): install the evaluator or the profile function, or return callbacks"},
    {"profile_thread", py_profile_thread, METH_VARARGS,
     "profile_thread(frame, event, argument): for threading.setprofile"},
    {"disable_with", py_disable_with, METH_O, "disable_with(DISABLE): set what callbacks return for ignored code"},
    {"budget", py_budget, METH_VARARGS,
     "budget(event_ns, share): set the cost of an event and the share of the time that all may take"},
    {"region_enter", py_region_enter, METH_O, "region_enter(name): a region of the program begins"},
    {"region_leave", py_region_leave, METH_O, "region_leave(name): it ends"},
    {"phase", py_phase, METH_VARARGS,
     "phase(name, is_named): a named phase or an iteration of the program begins; whether the iterations suffice"},
    {"limit_iterations", py_limit_iterations, METH_VARARGS, "limit_iterations(n): so many suffice; 0 for all"},
    {"record", py_record, METH_VARARGS, "record(is_on): switch recording on or off"},
    {"switch_greenlet", py_switch_greenlet, METH_VARARGS,
     "switch_greenlet(event, (origin, target)): for greenlet.settrace"},
    {"end", py_end, METH_VARARGS, "end(status, is_aborted): close open frames, mark the table, and wake the agent"},
    {"patch_mpi", py_patch_mpi, METH_NOARGS,
     "patch_mpi(): time the MPI calls of newly loaded objects, and count the memory that they map"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "insitu_native", "Collectors inside the rank.", -1, methods, NULL, NULL, NULL, NULL};

__attribute__((visibility("default"))) PyObject *PyInit_insitu_native(void) {
  return PyModule_Create2(&definition, PYTHON_API_VERSION);
}
