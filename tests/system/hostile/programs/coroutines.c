/* Stacks that change inside functions: ucontext, longjmp out of several frames, and out of a signal handler. */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t main_context, contexts[3];
static int total;
static jmp_buf back;
static sigjmp_buf back_from_signal;
static int leaf(int n) { return n; }
static void routine(int number) {
  for (int i = 0; i < 5; i++) {
    total += leaf(number);
    int flag;
    MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    swapcontext(&contexts[number], &main_context);
  }
}
static void descend(int n) {
  if (!n) longjmp(back, 1);
  descend(n - 1);
}
static void handle(int number) { siglongjmp(back_from_signal, leaf(number)); }
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 3; i++) {
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = malloc(65536);
    contexts[i].uc_stack.ss_size = 65536;
    contexts[i].uc_link = &main_context;
    makecontext(&contexts[i], (void (*)(void))routine, 1, i);
  }
  for (int turn = 0; turn < 6; turn++)
    for (int i = 0; i < 3; i++) swapcontext(&main_context, &contexts[i]);
  for (volatile int i = 0; i < 100; i++)
    if (!setjmp(back)) descend(20);
  signal(SIGSEGV, handle);
  for (volatile int i = 0; i < 3; i++)
    if (!sigsetjmp(back_from_signal, 1)) *(volatile int *)8 = 1;
  printf("total %d\n", total);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
