/* Monte Carlo transport: each rank gets the cross sections from a window of rank 0 in each batch.
   Repaired: once, then from its own copy. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ENTRIES = 40000, BATCHES = 40, HISTORIES = 60000 };
static double *shared, table[ENTRIES];
static int rank, size;
static MPI_Win window;

static void create_tables(void) {
  MPI_Win_allocate(rank == 0 ? ENTRIES * sizeof(double) : 0, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                   &window);
  if (rank == 0)
    for (int i = 0; i < ENTRIES; i++) shared[i] = 1.0 / (1 + i % 97);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void load_cross_sections(void) {
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(table, ENTRIES, MPI_DOUBLE, 0, 0, ENTRIES, MPI_DOUBLE, window);
  MPI_Win_unlock(0, window);
}

static double transport(unsigned *seed) {
  double score = 0;
  for (int history = 0; history < HISTORIES; history++) {
    double weight = 1;
    while (weight > 0.1) {
      *seed = *seed * 1664525u + 1013904223u;
      weight *= 0.7 + 0.2 * table[*seed % ENTRIES];
      score += weight;
    }
  }
  return score;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int once = argc > 1 && !strcmp(argv[1], "repaired");
  create_tables();
  unsigned seed = 17 + rank;
  double score = 0, total = 0;
  for (int batch = 0; batch < BATCHES; batch++) {
    if (batch == 0 || !once) load_cross_sections();
    score += transport(&seed);
    MPI_Reduce(&score, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("score %g\n", total);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
