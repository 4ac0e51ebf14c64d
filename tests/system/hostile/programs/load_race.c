/* One thread loads and unloads a library that calls MPI, another makes MPI calls from functions that are new each time,
 * so that call paths are created all the while. Arguments: the library, how often. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int is_done;

/* Each instance is a function of its own: with -finstrument-functions, so is each call path. */
#define DEFINE(n)                                               \
  __attribute__((noinline)) static void call_##n(void) {        \
    int flag = 0;                                               \
    MPI_Iprobe(0, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE); \
  }
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n) \
  TEN(X, n##0)        \
  TEN(X, n##1) TEN(X, n##2) TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)
#define ALL(X) \
  HUNDRED(X, 1) HUNDRED(X, 2) HUNDRED(X, 3) HUNDRED(X, 4) HUNDRED(X, 5) HUNDRED(X, 6) HUNDRED(X, 7) HUNDRED(X, 8)
#define NAME(n) call_##n,
ALL(DEFINE)
static void (*const calls[])(void) = {ALL(NAME)};

static void *call_all(void *unused) {
  while (!is_done)
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !is_done; i++) calls[i]();
  return unused;
}

int main(int argc, char **argv) {
  int provided, made = 0;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  pthread_create(&thread, NULL, call_all, NULL);
  for (int i = 0; i < atoi(argv[2]); i++) {
    void *library = dlopen(argv[1], RTLD_LAZY);
    if (!library) return puts(dlerror()), 2;
    int (*call)(void) = (int (*)(void))dlsym(library, "plugin_call");
    made += call();
    dlclose(library);
  }
  is_done = 1;
  pthread_join(thread, NULL);
  printf("%d calls\n", made);
  MPI_Finalize();
  return 0;
}
