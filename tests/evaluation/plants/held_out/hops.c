/* Particles move from neighbour to neighbour until all have arrived: p rounds in each step. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTICLES 2000

static int rank, size, repaired;
static int owner[PARTICLES], arrived[PARTICLES];

static __attribute__((noinline)) int shift(void) {
  int left_over = 0, all_left = 0;
  MPI_Sendrecv(owner, PARTICLES, MPI_INT, (rank + 1) % size, 1, arrived, PARTICLES, MPI_INT,
               (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < PARTICLES; i++) {
    owner[i] = arrived[i] == rank ? -1 : arrived[i];
    left_over += owner[i] >= 0;
  }
  MPI_Allreduce(&left_over, &all_left, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all_left;
}

static __attribute__((noinline)) void migrate(void) {
  while (shift()) {
  }
}

static __attribute__((noinline)) double push(double *x) {
  double sum = 0;
  for (int sub = 0; sub < 10; sub++)
    for (int i = 0; i < PARTICLES; i++) x[i] += 0.001 * cos(x[i] + sub), sum += x[i];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  static double x[PARTICLES];
  for (int step = 0; step < 12; step++) {
    push(x);
    for (int i = 0; i < PARTICLES; i++)
      owner[i] = repaired ? (rank + 1) % size : (rank + size - 1 + i % 2) % size;
    migrate();
  }
  MPI_Finalize();
}
