/* Threads with the smallest stack that the system allows, and handlers on a small alternative stack. */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int leaf(int n) { return n + 1; }
static void *body(void *value) {
  void *block = malloc(100);
  int flag = leaf(*(int *)value);
  MPI_Iprobe(0, 7, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  free(block);
  return NULL;
}
static void handle(int number) {
  int flag;
  MPI_Initialized(&flag);
  leaf(number);
}
int main(int argc, char **argv) {
  int provided, numbers[50];
  pthread_attr_t attributes;
  pthread_t threads[50];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  for (int i = 0; i < 50; i++) numbers[i] = i, pthread_create(&threads[i], &attributes, body, &numbers[i]);
  for (int i = 0; i < 50; i++) pthread_join(threads[i], NULL);
  static char small[16384];
  stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 100; i++) raise(SIGUSR1);
  printf("done\n");
  MPI_Finalize();
  return 0;
}
