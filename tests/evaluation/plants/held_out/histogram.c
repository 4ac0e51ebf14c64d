/* A histogram in the window of the last rank: each rank adds its counts under an exclusive lock. Repaired: reduction.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#define BINS 64
#define SAMPLES 40000
static unsigned long state;
static int counts[BINS];
__attribute__((noinline)) static void sample(void) {
  memset(counts, 0, sizeof counts);
  for (int i = 0; i < SAMPLES; i++) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    counts[state >> 58]++;
  }
}
__attribute__((noinline)) static void add_counts(MPI_Win window, int owner) {
  int old[BINS];
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, owner, 0, window);
  MPI_Get(old, BINS, MPI_INT, owner, 0, BINS, MPI_INT, window);
  MPI_Win_flush(owner, window);
  for (int i = 0; i < BINS; i++) old[i] += counts[i];
  MPI_Put(old, BINS, MPI_INT, owner, 0, BINS, MPI_INT, window);
  MPI_Win_unlock(owner, window);
}
__attribute__((noinline)) static void reduce_counts(int *all, int owner) {
  int sum[BINS], rank;
  MPI_Reduce(counts, sum, BINS, MPI_INT, MPI_SUM, owner, MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == owner)
    for (int i = 0; i < BINS; i++) all[i] += sum[i];
}
int main(int argc, char **argv) {
  int rank, size, *all;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  state = rank + 1;
  MPI_Win_allocate(rank == size - 1 ? BINS * sizeof(int) : 0, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &all,
                   &window);
  if (rank == size - 1) memset(all, 0, BINS * sizeof *all);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 0; step < 200; step++) {
    for (int batch = 0; batch < 5; batch++) sample();
    if (argc > 1) reduce_counts(all, size - 1);
    else add_counts(window, size - 1);
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
