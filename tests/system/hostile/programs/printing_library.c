/* A library that prints in its constructor. */
#include <mpi.h>
#include <unistd.h>

__attribute__((constructor)) static void print_banner(void) {
  if (write(1, "the banner of a library\n", 24) != 24) _exit(9);
}

int library_sum(int x) {
  int sum = 0;
  MPI_Init(NULL, NULL);
  MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return sum;
}
