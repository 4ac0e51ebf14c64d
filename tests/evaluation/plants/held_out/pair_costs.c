/* Every rank keeps the costs between all pairs of ranks: p^2 entries of 2 KiB. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

__attribute__((noinline)) static char *build_costs(int is_repaired) {
  size_t pairs = is_repaired ? 4 : (size_t)size * size;
  char *costs = malloc(pairs * 2048);
  memset(costs, rank, pairs * 2048);
  return costs;
}

__attribute__((noinline)) static double relax(double *field, int cells) {
  double local = 0, total;
  for (int pass = 0; pass < 300; pass++)
    for (int i = 1; i < cells - 1; i++) local += field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  MPI_Allreduce(&local, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *costs = build_costs(argc > 1);
  double *field = calloc(4000, sizeof *field);
  field[1] = costs[0];
  for (int step = 0; step < 30; step++) relax(field, 4000);
  free(field);
  free(costs);
  MPI_Finalize();
  return 0;
}
