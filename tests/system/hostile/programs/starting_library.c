/* A library that initialises MPI in its constructor. */
#include <mpi.h>
#include <stddef.h>

__attribute__((constructor)) static void start(void) {
  MPI_Init(NULL, NULL);
}
__attribute__((destructor)) static void stop(void) {
  MPI_Finalize();
}

int library_sum(int x) {
  int sum = 0;
  MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
