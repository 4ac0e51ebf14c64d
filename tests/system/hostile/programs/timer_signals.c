/* SIGPROF and SIGALRM at 1 kHz, whose handlers call MPI and allocate, in the middle of functions, malloc and MPI. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
static volatile sig_atomic_t ticks, is_inside;
static void handle(int number) {
  int flag;
  ticks++;
  if (!is_inside) free(malloc(10)); /* the program's own allocations are marked */
  MPI_Initialized(&flag);
}
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
  sigaction(SIGPROF, &action, NULL);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_PROF, &every, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  int sum = 0, one = 1, total, flag;
  for (double end = now() + 0.4; now() < end;) {
    sum += fib(10);
    is_inside = 1;
    void *block = malloc((size_t)(sum & 1023) + 1);
    block = realloc(block, 5000);
    free(block);
    is_inside = 0;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  }
  setitimer(ITIMER_PROF, &off, NULL);
  setitimer(ITIMER_REAL, &off, NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("%s %s\n", ticks > 50 ? "ticked" : "silent", sum > 0 ? "worked" : "idle");
  MPI_Finalize();
  return 0;
}
