/* A child of clone() without the C library's knowledge: no handler of pthread_atfork runs in it. It allocates, calls
 * functions and ends with exit(). */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int x = 0, y, status;
  MPI_Init(&argc, &argv);
  pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    for (int i = 0; i < 5000; i++) free(malloc(1000));
    exit(7);
  }
  waitpid(child, &status, 0);
  for (int i = 0; i < 1000; i++) MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("the child ended with %d\n", WEXITSTATUS(status));
  MPI_Finalize();
  return 0;
}
