/* One-sided access: each rank reads the counts of all ranks, one by one, to know where its data go. */
#include <mpi.h>
#include <stdlib.h>
static int rank, size;
static double field[30000];
__attribute__((noinline)) static void smooth(void) {
  for (int round = 0; round < 60; round++)
    for (int i = 1; i < 29999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}
__attribute__((noinline)) static long my_offset(MPI_Win window) {
  long sum = 0, *counts = malloc(sizeof(long) * size);
  for (int other = 0; other < rank; other++) MPI_Get(&counts[other], 1, MPI_LONG, other, 0, 1, MPI_LONG, window);
  MPI_Win_flush_all(window);
  for (int other = 0; other < rank; other++) sum += counts[other];
  free(counts);
  return sum;
}
__attribute__((noinline)) static long scan_offset(long mine) {
  long sum = 0;
  MPI_Exscan(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long *count, sum = 0;
  MPI_Win window;
  MPI_Win_allocate(sizeof *count, sizeof *count, MPI_INFO_NULL, MPI_COMM_WORLD, &count, &window);
  MPI_Win_lock_all(0, window);
  for (int step = 0; step < 100; step++) {
    smooth();
    *count = step + rank;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    sum += argc > 1 ? scan_offset(*count) : my_offset(window);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
  return sum < 0;
}
