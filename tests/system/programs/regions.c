/* Regions of every shape, with MPI calls inside and around them: nested, recursive, begun and ended in other functions
 * than those that they enclose, left by longjmp, in threads and children, without beginning or end. With `cost`, how
 * long a region takes; with `samples`, work in a region. */
#define _GNU_SOURCE
#include "insitu.h"

#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))
static volatile int sink;
static jmp_buf back;

KEPT static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  sink++;
}
KEPT static void inner(void) {
  insitu_region_begin("inner");
  barrier();
  insitu_region_end();
  sink++;
}
KEPT static void nested(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  insitu_region_begin("outer");
  MPI_Barrier(MPI_COMM_WORLD);
  barrier();
  inner();
  inner();
  insitu_region_end();
  MPI_Barrier(MPI_COMM_WORLD);
  sink++;
}
KEPT static void start_timer(const char *name) {
  insitu_region_begin(name);
  sink++;
}
KEPT static void stop_timer(void) {
  insitu_region_end();
  sink++;
}
KEPT static void timers(void) {
  start_timer("timer");
  barrier();
  start_timer("second timer");
  barrier();
  stop_timer();
  barrier();
  stop_timer();
  barrier();
  sink++;
}
KEPT static void recursion(int levels) {
  insitu_region_begin("level");
  if (levels) recursion(levels - 1);
  else barrier();
  insitu_region_end();
  sink++;
}
KEPT static void sizes(int n) {
  char *text = __builtin_alloca((size_t)n * 64);
  memset(text, 1, (size_t)n * 64);
  insitu_region_begin("sizes");
  char *more = __builtin_alloca((size_t)n * 128);
  memset(more, text[0], (size_t)n * 128);
  barrier();
  insitu_region_end();
  sink += more[n];
}
KEPT static void leave(void) {
  insitu_region_begin("left");
  barrier();
  longjmp(back, 1);
}
KEPT static void jumps(void) {
  if (!setjmp(back)) leave();
  barrier();
  insitu_region_end();
  barrier();
  sink++;
}
KEPT static void names(void) {
  char name[2000];
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "buffer %d", i % 2);
    insitu_region_begin(name);
    barrier();
    insitu_region_end();
  }
  insitu_region_begin("");
  barrier();
  insitu_region_end();
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = 0;
  for (int i = 0; i < 2; i++) {
    insitu_region_begin(name);
    insitu_region_end();
  }
}
KEPT static void unbalanced(void) {
  insitu_region_end();
  insitu_region_end();
  barrier();
  sink++;
}
KEPT static void deep(void) {
  for (int i = 0; i < 2000; i++) insitu_region_begin("deep");
  for (int i = 0; i < 2000; i++) insitu_region_end();
  barrier();
  sink++;
}
static void *work(void *argument) {
  insitu_region_begin("of a thread");
  barrier();
  insitu_region_begin("never ended");
  barrier();
  return argument;
}
KEPT static void threads(void) {
  pthread_t thread;
  insitu_region_begin("threads");
  for (int i = 0; i < 2; i++) {
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
  barrier();
  insitu_region_end();
}
KEPT static void children(void) {
  insitu_region_begin("children");
  pid_t child = fork();
  if (!child) {
    for (int i = 0; i < 100; i++) {
      insitu_region_begin("of the child");
      insitu_region_end();
    }
    insitu_region_end();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  barrier();
  insitu_region_end();
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}
/* Samples of functions in a region. */
KEPT static void compute(double seconds) {
  clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); /* CPU time */
  while (clock() < end) sink++;
}
KEPT static void solve(double seconds) {
  compute(seconds);
  insitu_region_begin("solve it");
  compute(2 * seconds);
  insitu_region_end();
  sink++;
}

KEPT static double time_regions(int nesting) {
  double best = 1e18;
  for (int block = 0; block < 2000; block++) {
    double start = now_ns();
    for (int i = 0; i < 500; i++) {
      for (int j = 0; j < nesting; j++) insitu_region_begin(j % 2 ? "inner part" : "outer part");
      for (int j = 0; j < nesting; j++) insitu_region_end();
    }
    double took = (now_ns() - start) / (500 * nesting);
    if (took < best) best = took;
  }
  return best;
}
KEPT static void nest(int levels) {
  if (levels) nest(levels - 1);
  else printf("COST %.1f %.1f\n", time_regions(1), time_regions(2));
  sink++;
}

int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (argc > 1 && !strcmp(argv[1], "cost")) {
    nest(argc > 2 ? atoi(argv[2]) : 0);
  } else if (argc > 1 && !strcmp(argv[1], "samples")) {
    solve(0.4);
  } else {
    nested();
    timers();
    recursion(3);
    for (int i = 1; i < 4; i++) sizes(i);
    jumps();
    names();
    unbalanced();
    deep();
    threads();
    children();
    puts("done");
  }
  MPI_Finalize();
  return 0;
}
