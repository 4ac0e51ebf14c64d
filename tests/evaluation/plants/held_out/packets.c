/* A message to one neighbour is split into p packets, so that a credit of 1/p fits in a buffer. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES 27720

static int rank, size, repaired;

static __attribute__((noinline)) void send_split(const double *data, double *into, int packets) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int each = VALUES / packets;
  for (int i = 0; i < packets; i++)
    MPI_Sendrecv(data + i * each, each, MPI_DOUBLE, right, 1, into + i * each, each, MPI_DOUBLE,
                 left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static __attribute__((noinline)) void smooth(double *values) {
  for (int sweep = 0; sweep < 30; sweep++)
    for (int i = 1; i < VALUES - 1; i++)
      values[i] = 0.5 * values[i] + 0.25 * (values[i - 1] + values[i + 1]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  double *values = malloc(VALUES * sizeof *values), *ghost = malloc(VALUES * sizeof *ghost);
  for (int i = 0; i < VALUES; i++) values[i] = sin(i + rank);
  for (int step = 0; step < 60; step++) {
    send_split(values, ghost, repaired ? 4 : size);
    values[0] += 0.01 * ghost[VALUES - 1];
    smooth(values);
  }
  free(values);
  free(ghost);
  MPI_Finalize();
}
