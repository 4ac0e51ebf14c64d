// Everything that a sample may interrupt: threads that enter regions, recurse, throw, longjmp, allocate, load and
// unload objects, change their signal masks and stacks and run coroutines, while children are forked. The program is
// not instrumented, so call paths are read from stacks. The test computes the expected counts.
#include "insitu.h"

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

extern "C" {
int insitu_table_create(const char *, int, int, const char *, const char *, size_t);
void insitu_finish(int, int);
void insitu_sample_start(unsigned);
void insitu_sample_stop(void);
void insitu_evaluator_check(void) {} // hook.c is not linked in
extern int insitu_is_unwinding;
struct insitu_gate {
  char before[65536];
  int is_on;
  char after[65536];
};
extern struct insitu_gate insitu_gate;
/* Of preload.c, which is not linked in. */
int insitu_may_load_mpi(void) { return 0; }
void insitu_loaded(void) {}
}

static const int threads = 4;
static int turns;
static const char *plugin;
static thread_local volatile int sink;

KEPT static int fib(int n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
KEPT static void fall() {
  insitu::region region("falls");
  fib(8);
  throw std::runtime_error(std::string(40, 'x'));
}
KEPT static void leap(jmp_buf &back) {
  fib(8);
  longjmp(back, 1);
}
KEPT static void load() {
  void *object = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  int (*work)(int) = object ? (int (*)(int))dlsym(object, "work") : nullptr;
  if (!work) abort();
  sink = sink + work(200);
  dlclose(object);
}
KEPT static void mask() {
  sigset_t set, before;
  stack_t stack;
  struct sigaction action;
  sigfillset(&set);
  if (pthread_sigmask(SIG_BLOCK, &set, &before)) abort();
  fib(8);
  if (sigaltstack(nullptr, &stack) || sigaction(SIGURG, nullptr, &action) || action.sa_handler != SIG_DFL) abort();
  if (pthread_sigmask(SIG_SETMASK, &before, nullptr)) abort();
}
#ifndef WITHOUT_COROUTINES
static thread_local ucontext_t inside, outside;
static void coroutine() {
  insitu_region_begin("coroutine");
  fib(8);
  insitu_region_end();
}
KEPT static void switch_stacks() {
  static thread_local char stack[65536];
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = sizeof stack;
  inside.uc_link = &outside;
  makecontext(&inside, coroutine, 0);
  swapcontext(&outside, &inside);
}
#endif
KEPT static void turn() {
  jmp_buf back;
  insitu_region_begin("turn");
  fib(22);
  free(malloc(100));
  try {
    fall();
  } catch (const std::exception &) {}
  if (!setjmp(back)) leap(back);
  mask();
#ifndef WITHOUT_COROUTINES
  switch_stacks();
#endif
  load();
  insitu_region_end();
}
static void *work(void *) {
  for (int i = 0; i < turns; i++) turn();
  return nullptr;
}
KEPT static void bear() {
  pid_t child = fork();
  if (child == 0) {
    insitu_region_begin("of the child");
    sink = sink + fib(10);
    insitu_region_end();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

int main(int argc, char **argv) {
  if (argc < 4 || insitu_table_create(argv[1], 0, 1, "torture", "{}", 2)) return 3;
  turns = atoi(argv[2]);
  plugin = argv[3];
  insitu_is_unwinding = 1;
  insitu_gate.is_on = 1;
  insitu_sample_start(200);
  pthread_t all[threads];
  for (int i = 0; i < threads; i++)
    if (pthread_create(&all[i], nullptr, work, nullptr)) return 4;
#ifndef WITHOUT_FORK
  for (int i = 0; i < 3; i++) bear();
#endif
  for (int i = 0; i < threads; i++) pthread_join(all[i], nullptr);
  sink = sink + fib(30);
  insitu_sample_stop();
  insitu_finish(1, 0);
  return 0;
}
