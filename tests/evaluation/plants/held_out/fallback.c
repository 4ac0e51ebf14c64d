/* A sum in a tree with a buffer of 200,000 bytes; if the parts do not fit in it, rank 0 adds them. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES 4000
#define BUFFER 200000

static int rank, size, repaired;

static __attribute__((noinline)) void add(double *sum, const double *part) {
  for (int i = 0; i < VALUES; i++) sum[i] += part[i];
}

static __attribute__((noinline)) void sum_in_tree(double *sum, double *part) {
  for (int bit = 1; bit < size; bit *= 2) {
    if (rank & bit) {
      MPI_Send(sum, VALUES, MPI_DOUBLE, rank - bit, 1, MPI_COMM_WORLD);
      break;
    }
    if (rank + bit < size) {
      MPI_Recv(part, VALUES, MPI_DOUBLE, rank + bit, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add(sum, part);
    }
  }
}

static __attribute__((noinline)) void sum_on_root(double *sum, double *part) {
  if (rank)
    MPI_Send(sum, VALUES, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
  else
    for (int from = 1; from < size; from++) {
      MPI_Recv(part, VALUES, MPI_DOUBLE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add(sum, part);
    }
}

static __attribute__((noinline)) void deposit(double *sum, int step) {
  memset(sum, 0, VALUES * sizeof *sum);
  for (int i = 0; i < 40000; i++) sum[(i * 37) % VALUES] += sin(i + rank + step);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  double *sum = malloc(VALUES * sizeof *sum), *part = malloc(VALUES * sizeof *part);
  int fits = (long)size * VALUES * (long)sizeof *sum <= BUFFER;
  for (int step = 0; step < 60; step++) {
    deposit(sum, step);
    if (fits || repaired)
      sum_in_tree(sum, part);
    else
      sum_on_root(sum, part);
    MPI_Bcast(sum, 16, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
  free(sum);
  free(part);
  MPI_Finalize();
}
