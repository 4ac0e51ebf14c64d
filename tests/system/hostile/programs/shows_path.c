/* A program that starts Python, and therefore needs PYTHONPATH as the job script sets it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  printf("%s\n", getenv("PYTHONPATH"));
  fflush(stdout);
  int status = system("echo \"$PYTHONPATH\"");
  MPI_Finalize();
  return status;
}
