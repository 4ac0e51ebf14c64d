/* A distributed table of keys: each rank allocates a window for the keys of all. Repaired: of its own. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 60000, STEPS = 20, PUTS = 20 };

MPI_Win make_table(long keys, double **table) {
  MPI_Win window;
  MPI_Win_allocate(keys * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, table, &window);
  for (long i = 0; i < keys; i++) (*table)[i] = -1;
  return window;
}

void insert_keys(MPI_Win window, unsigned *state, int rank, int size, long first) {
  double values[PUTS];
  MPI_Win_fence(0, window);
  for (int i = 0; i < PUTS; i++) {
    values[i] = *state = *state * 1664525u + 1013904223u;
    MPI_Put(&values[i], 1, MPI_DOUBLE, (rank + 1) % size, first + (*state >> 8) % KEYS, 1, MPI_DOUBLE, window);
  }
  MPI_Win_fence(0, window);
}

double probe(const double *table, long keys) {
  double sum = 0;
  for (int sweep = 0; sweep < 100; sweep++)
    for (long i = 0; i < keys; i++) sum = 0.99 * sum + table[i];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, repaired = argc > 1 && !strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *table, sum = 0, total;
  MPI_Win window = make_table(repaired ? KEYS : (long)KEYS * size, &table);
  unsigned state = 11u * rank + 5;
  long mine = repaired ? 0 : (long)KEYS * rank;
  long theirs = repaired ? 0 : (long)KEYS * ((rank + 1) % size);
  for (int step = 0; step < STEPS; step++) {
    insert_keys(window, &state, rank, size, theirs);
    sum += probe(table + mine, KEYS);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return total == 3;
}
