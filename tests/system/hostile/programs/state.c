/* Print what the kernel and the C library show of this process, and of a child. */
#include <locale.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  printf("locale %s\n", setlocale(LC_ALL, ""));
  fflush(stdout);
  char command[4096];
  snprintf(command, sizeof command, "%s %s %d; %s %s self", argv[1], argv[2], (int)getpid(), argv[1], argv[2]);
  int failed = system(command);
  MPI_Finalize();
  return failed;
}
