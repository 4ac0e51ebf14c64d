/* In each step all ranks of the world are translated to find the ones nearby. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, repaired;

static __attribute__((noinline)) int find_peers(MPI_Group world, MPI_Group near) {
  int wanted = repaired ? 2 : size, peers = 0;
  int *ranks = calloc(wanted, sizeof *ranks), *translated = calloc(wanted, sizeof *translated);
  for (int i = 0; i < wanted; i++) ranks[i] = repaired ? (rank + i) % size : i;
  MPI_Group_translate_ranks(world, wanted, ranks, near, translated);
  for (int i = 0; i < wanted; i++) peers += translated[i] != MPI_UNDEFINED;
  free(ranks);
  free(translated);
  return peers;
}

static __attribute__((noinline)) double stream(double *v, int n) {
  double sum = 0;
  for (int i = 1; i < n; i++) v[i] = 0.5 * (v[i] + sqrt(v[i - 1] + 1.0)), sum += v[i];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  MPI_Group world, near;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Comm_group(pair, &near);
  double *v = calloc(20000, sizeof *v), sum = 0;
  for (int step = 0; step < 3000; step++) {
    for (int message = 0; message < 10; message++) sum += find_peers(world, near);
    if (step % 10 == 0) {
      sum += stream(v, 20000);
      MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, pair);
    }
  }
  free(v);
  MPI_Finalize();
}
