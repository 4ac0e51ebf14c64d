// No limit: halos on a periodic grid of ranks in three dimensions, whose neighbours are at most six.
#include <mpi.h>
#include <stdio.h>
#define N 28
static double u[N + 2][N + 2][N + 2], outbox[N * N], inbox[N * N];
static MPI_Comm grid;
static void exchange_face(int dimension, int direction) {
  int from, to, rank;
  MPI_Comm_rank(grid, &rank);
  MPI_Cart_shift(grid, dimension, direction, &from, &to);
  if (to == rank) return;
  MPI_Sendrecv(outbox, N * N, MPI_DOUBLE, to, dimension, inbox, N * N, MPI_DOUBLE, from, dimension, grid,
               MPI_STATUS_IGNORE);
}
static void exchange(void) {
  for (int dimension = 0; dimension < 3; dimension++) {
    exchange_face(dimension, 1);
    exchange_face(dimension, -1);
  }
}
static void relax(void) {
  for (int pass = 0; pass < 8; pass++)
    for (int k = 1; k <= N; k++)
      for (int j = 1; j <= N; j++)
        for (int i = 1; i <= N; i++)
          u[k][j][i] = (u[k - 1][j][i] + u[k + 1][j][i] + u[k][j - 1][i] + u[k][j + 1][i] + u[k][j][i - 1] +
                        u[k][j][i + 1] + inbox[i]) / 7;
}
int main(int argc, char **argv) {
  int size, dims[3] = {0, 0, 0}, periods[3] = {1, 1, 1};
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
  double mine, all = 0;
  for (int step = 0; step < 150; step++) {
    exchange();
    relax();
    mine = u[3][3][3];
    if (step % 10 == 0) MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, grid);
  }
  if (all < 0) printf("%g\n", all);
  MPI_Finalize();
  return 0;
}
