/* A plain program: point-to-point, collectives, windows, files; ends with the status argv[1]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static double smooth(double *values, int n) {
  double sum = 0;
  for (int i = 1; i < n - 1; i++) sum += values[i] = (values[i - 1] + values[i + 1]) / 2;
  return sum;
}
int main(int argc, char **argv) {
  int rank, size;
  double *values = calloc(1000, sizeof *values), total = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  values[0] = rank;
  for (int i = 0; i < 20; i++) {
    MPI_Sendrecv_replace(values, 1000, MPI_DOUBLE, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    sum = smooth(values, 1000);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  printf("rank %d total %.6f\n", rank, total);
  free(values);
  MPI_Finalize();
  return argc > 1 ? atoi(argv[1]) : 0;
}
