/* A signal handler calls functions and MPI at each instruction of a function in turn, also of those with which the
 * measurement notes a call. Prints how often the handler ran. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#define BARE __attribute__((no_instrument_function))
#define KEPT __attribute__((noinline))
#define SINGLE_STEP "$0x100"
#define CHANGE_FLAGS(how) __asm__ volatile("sub $128, %%rsp; pushfq; " how ", (%%rsp); popfq; add $128, %%rsp" ::: "cc")
#define STRIDE 50 /* instructions between two calls of the handler's functions in one run */

static volatile int steps, offset, runs, sink;
static int peer = MPI_PROC_NULL; /* nobody, so that MPI does nearly nothing */

KEPT static void send(void) { MPI_Send(&peer, 1, MPI_INT, peer, 0, MPI_COMM_SELF); }
KEPT static void leaf(void) { sink++; }
KEPT static void handle(void) {
  runs++;
  leaf();
  send();
}
BARE static void step(int number) {
  (void)number;
  if (steps++ % STRIDE == offset) handle();
}

KEPT static void inner(void) { sink++; }
KEPT static void outer(void) {
  inner();
  send();
  inner();
}

int main(int argc, char **argv) {
  struct sigaction action = {.sa_handler = step};
  MPI_Init(&argc, &argv);
  sigaction(SIGTRAP, &action, NULL);
  handle();
  outer();
  for (offset = 0; offset < STRIDE; offset++) {
    steps = 0;
    CHANGE_FLAGS("orq " SINGLE_STEP);
    outer();
    CHANGE_FLAGS("andq $~0x100");
  }
  printf("%d\n", runs);
  MPI_Finalize();
  return 0;
}
