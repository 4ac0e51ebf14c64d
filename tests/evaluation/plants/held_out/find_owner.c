/* The owner of each ghost cell is searched among the ranks one after the other. */
#include <mpi.h>
#include <stdlib.h>

enum { CELLS = 1000, GHOSTS = 200000, STEPS = 20 };

static int rank, size;

__attribute__((noinline)) static int find_owner(const long *first, long cell) {
  int owner = 0;
  while (owner + 1 < size && first[owner + 1] <= cell) owner++;
  return owner;
}

__attribute__((noinline)) static int compute_owner(long cell) {
  return (int)(cell / CELLS);
}

__attribute__((noinline)) static void relax(double *field, int cells) {
  for (int pass = 0; pass < 100; pass++)
    for (int i = 1; i < cells - 1; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long *first = malloc((size + 1) * sizeof *first);
  for (int owner = 0; owner <= size; owner++) first[owner] = (long)owner * CELLS;
  double *field = calloc(20000, sizeof *field);
  unsigned long state = 12345 + rank;
  for (int step = 0; step < STEPS; step++) {
    long sum = 0, total;
    for (int ghost = 0; ghost < GHOSTS; ghost++) {
      state = state * 6364136223846793005UL + 1442695040888963407UL;
      long cell = (long)((state >> 33) % ((unsigned long)size * CELLS));
      sum += argc > 1 ? compute_owner(cell) : find_owner(first, cell);
    }
    relax(field, 20000);
    MPI_Allreduce(&sum, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  free(first);
  free(field);
  MPI_Finalize();
  return 0;
}
