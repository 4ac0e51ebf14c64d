/* A halo exchange by MPI_Alltoallv: two of the p buffers are not empty. */
#include <mpi.h>
#include <stdlib.h>

enum { EDGE = 100 };

static int rank, size;

__attribute__((noinline)) static void exchange_all(double *out, double *in) {
  int *counts = calloc(size, sizeof *counts);
  int *offsets = calloc(size, sizeof *offsets);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  counts[left] = EDGE;
  counts[right] = EDGE;
  offsets[right] = left == right ? 0 : EDGE;
  MPI_Alltoallv(out, counts, offsets, MPI_DOUBLE, in, counts, offsets, MPI_DOUBLE, MPI_COMM_WORLD);
  free(counts);
  free(offsets);
}

__attribute__((noinline)) static void exchange_halo(double *out, double *in) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Request requests[4];
  MPI_Irecv(in, EDGE, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in + EDGE, EDGE, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out, EDGE, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(out + EDGE, EDGE, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

__attribute__((noinline)) static void relax(double *field, int cells) {
  for (int pass = 0; pass < 50; pass++)
    for (int i = 1; i < cells - 1; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *field = calloc(4000, sizeof *field);
  double in[2 * EDGE] = {0};
  for (int step = 0; step < 200; step++) {
    if (argc > 1) exchange_halo(field, in);
    else exchange_all(field, in);
    relax(field, 4000);
  }
  free(field);
  MPI_Finalize();
  return 0;
}
