// No limit: sums go up and down a tree in which each rank has at most four children.
#include <mpi.h>
enum { FANOUT = 4, CELLS = 30000 };
static double u[CELLS];
__attribute__((noinline)) static double sum_up(double mine, int rank, int size) {
  double theirs;
  for (int child = FANOUT * rank + 1; child <= FANOUT * rank + FANOUT && child < size; child++) {
    MPI_Recv(&theirs, 1, MPI_DOUBLE, child, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mine += theirs;
  }
  if (rank) {
    MPI_Send(&mine, 1, MPI_DOUBLE, (rank - 1) / FANOUT, 1, MPI_COMM_WORLD);
    MPI_Recv(&mine, 1, MPI_DOUBLE, (rank - 1) / FANOUT, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  for (int child = FANOUT * rank + 1; child <= FANOUT * rank + FANOUT && child < size; child++)
    MPI_Send(&mine, 1, MPI_DOUBLE, child, 2, MPI_COMM_WORLD);
  return mine;
}
__attribute__((noinline)) static double relax(double mean) {
  u[0] = mean;
  for (int i = 1; i < CELLS - 1; i++) u[i] = 0.25 * (u[i - 1] + 2 * u[i] + u[i + 1]);
  return u[1];
}
int main(int argc, char **argv) {
  int rank, size;
  double sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int step = 0; step < 300; step++) sum = sum_up(relax(sum / size), rank, size);
  MPI_Finalize();
}
