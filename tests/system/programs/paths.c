/* MPI calls from functions whose frames compilers lay out in different ways, from stacks of different kinds, and from
 * plug-ins. Compiled with -DPLUGIN=name it is such a plug-in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define KEPT __attribute__((noinline))
static volatile int sink; /* what follows a call keeps it from becoming a tail call */

#ifdef PLUGIN

KEPT static void inner(void (*call)(void)) {
  volatile char room[PLUGIN_BYTES];
  room[0] = 1;
  call();
  sink += room[0];
}
void PLUGIN(void (*call)(void)) {
  inner(call);
  sink++;
}

#else

KEPT static void barrier(void) {
  MPI_Barrier(MPI_COMM_SELF);
  sink++;
}

/* ---- frames --------------------------------------------------------------------------------------------------- */

KEPT static void variable(int n) {
  volatile char room[n];
  room[n - 1] = 1;
  barrier();
  sink += room[n - 1];
}
KEPT static void aligned(void) {
  volatile char room[256] __attribute__((aligned(64)));
  room[3] = 1;
  barrier();
  sink += room[3];
}
KEPT static void deep(int n) {
  if (n) deep(n - 1);
  else barrier();
  sink++;
}
static void odd(int n);
KEPT static void even(int n) {
  barrier();
  if (n) odd(n - 1);
  sink++;
}
KEPT static void odd(int n) {
  if (n) even(n - 1);
  sink++;
}
KEPT static int compare(const void *left, const void *right) {
  barrier();
  return *(const int *)left - *(const int *)right;
}
KEPT static void sort(void) {
  int values[] = {2, 1};
  qsort(values, 2, sizeof *values, compare);
  sink++;
}
static jmp_buf back;
KEPT static void jump(void) {
  barrier();
  longjmp(back, 1);
}
KEPT static void jumps(void) {
  if (!setjmp(back)) jump();
  barrier();
  sink++;
}
KEPT static void no_return(void) {
  barrier();
  MPI_Finalize();
  exit(0); /* the call of this function is the last instruction of its caller */
}

/* ---- stacks --------------------------------------------------------------------------------------------------- */

static ucontext_t home, other;
static char room[65536], signal_room[65536];
KEPT static void coroutine(void) {
  barrier();
  swapcontext(&other, &home);
  barrier();
  sink++;
}
KEPT static void coroutines(void) {
  getcontext(&other);
  other.uc_stack.ss_sp = room;
  other.uc_stack.ss_size = sizeof room;
  other.uc_link = &home;
  makecontext(&other, coroutine, 0);
  swapcontext(&home, &other);
  swapcontext(&home, &other);
}
static void handle(int number) {
  barrier();
  sink += number;
}
KEPT static void signals(void) {
  stack_t stack = {.ss_sp = signal_room, .ss_size = sizeof signal_room};
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  sink++;
}
static void *work(void *unused) {
  barrier();
  return unused;
}
KEPT static void threads(void) {
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
}

/* ---- plug-ins, loaded one after the other at the same addresses ------------------------------------------------ */

KEPT static void plugins(int times) {
  static const char *const names[][2] = {{"./first.so", "first"}, {"./second.so", "second"}};
  for (int i = 0; i < times; i++) {
    void *plugin = dlopen(names[i % 2][0], RTLD_NOW);
    if (!plugin) abort();
    ((void (*)(void (*)(void)))dlsym(plugin, names[i % 2][1]))(barrier);
    dlclose(plugin);
  }
}
static void *load(void *times) {
  plugins(atoi(times));
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (argc > 2) { /* several threads load plug-ins at once */
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, load, argv[2]);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  } else {
    barrier(), variable(argc + 100), aligned(), deep(500), even(9), sort(), jumps();
    if (argc > 1) coroutines(), signals(), threads(), plugins(20);
  }
  no_return();
}

#endif
