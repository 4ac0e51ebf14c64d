/* A hypercube of ranks passes on lists that double in each stage: p times as long in the end. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST 400

static int rank, size, repaired;

static __attribute__((noinline)) int exchange_lists(int *list) {
  int length = LIST;
  for (int bit = 1; bit < size; bit *= 2) {
    int partner = rank ^ bit;
    int *theirs = malloc(length * sizeof *theirs);
    MPI_Sendrecv(list, length, MPI_INT, partner, 1, theirs, length, MPI_INT, partner, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (repaired) {
      for (int i = 0; i < length; i++) list[i] = list[i] > theirs[i] ? list[i] : theirs[i];
    } else {
      memcpy(list + length, theirs, length * sizeof *theirs);
      length *= 2;
    }
    free(theirs);
  }
  return length;
}

static __attribute__((noinline)) double evolve(double *v, int n) {
  double sum = 0;
  for (int sweep = 0; sweep < 20; sweep++)
    for (int i = 1; i < n; i++) v[i] = 0.9 * v[i] + 0.1 * v[i - 1] + 1e-3, sum += v[i];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  int *list = malloc((size_t)LIST * size * sizeof *list);
  double *v = calloc(10000, sizeof *v);
  for (int step = 0; step < 100; step++) {
    evolve(v, 10000);
    for (int i = 0; i < LIST; i++) list[i] = rank * LIST + i + step;
    exchange_lists(list);
  }
  free(list);
  free(v);
  MPI_Finalize();
}
