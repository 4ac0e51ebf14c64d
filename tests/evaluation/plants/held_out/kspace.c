// Ewald sums: the box grows with the ranks, and so do the wave vectors that each rank sums over.
// Repaired: a fixed number of them.
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
enum { ATOMS = 300, STEPS = 40 };
static double x[ATOMS], force[ATOMS];
__attribute__((noinline)) static void short_range(void) {
  for (int i = 0; i < ATOMS; i++) {
    force[i] = 0;
    for (int j = 0; j < ATOMS; j++) {
      double d = x[i] - x[j];
      force[i] += d / (1 + d * d * d * d);
    }
  }
}
__attribute__((noinline)) static void structure_factors(double *factors, int vectors) {
  for (int k = 0; k < vectors; k++) {
    double re = 0, im = 0;
    for (int i = 0; i < ATOMS; i++) {
      re += cos((k + 1) * 0.01 * x[i]);
      im += sin((k + 1) * 0.01 * x[i]);
    }
    factors[2 * k] = re;
    factors[2 * k + 1] = im;
  }
  MPI_Allreduce(MPI_IN_PLACE, factors, 2 * vectors, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  (void)argv;
  int vectors = argc > 1 ? 30 : 15 * size;
  double *factors = malloc(2 * vectors * sizeof(double));
  srand(rank);
  for (int i = 0; i < ATOMS; i++) x[i] = rand() % 1000 * 0.01;
  for (int step = 0; step < STEPS; step++) {
    short_range();
    structure_factors(factors, vectors);
    for (int i = 0; i < ATOMS; i++) x[i] += 1e-6 * force[i] + 1e-9 * factors[i % 10];
  }
  free(factors);
  MPI_Finalize();
}
