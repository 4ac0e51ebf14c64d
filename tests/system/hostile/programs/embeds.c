/* A C program that runs Python inside, several times, beside MPI. */
#include <Python.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static int sum_all(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
static const char *text =
    "import sys, os\n"
    "def leaf(x): return x + 1\n"
    "def middle(n): return sum(leaf(i) for i in range(n))\n"
    "sys.stdout.write('python %d %s\\n' % (middle(100), sys.argv))\n"
    "sys.stdout.flush()\n";
static void *in_thread(void *unused) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyRun_SimpleString("def g(): return 3\nsys.stdout.write('thread %d\\n' % g()); sys.stdout.flush()");
  PyGILState_Release(state);
  return NULL;
}
int main(int argc, char **argv) {
  int provided;
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (int i = 0; i < 3; i++) {
    PyConfig config;
    if (i == 1) PyConfig_InitIsolatedConfig(&config);
    else PyConfig_InitPythonConfig(&config);
    PyConfig_SetBytesString(&config, &config.program_name, PROGRAM);
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) return printf("failed\n");
    PyRun_SimpleString(text);
    sum_all(i);
    PyThreadState *own = PyThreadState_Get();
    PyThreadState *other = Py_NewInterpreter();
    PyRun_SimpleString("import sys\ndef f(x): return x\nsys.stdout.write('other %d\\n' % f(4)); sys.stdout.flush()");
    Py_EndInterpreter(other);
    PyThreadState_Swap(own);
    PyThreadState *saved = PyEval_SaveThread();
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    PyEval_RestoreThread(saved);
    printf("finalized %d sum %d\n", Py_FinalizeEx(), sum_all(1));
  }
  MPI_Finalize();
  return 0;
}
