/* Persistent requests of the halo are made anew in each step, and none is freed. */
#include <mpi.h>
#include <stdlib.h>
#define N 300
static double grid[N + 2][N];
typedef struct {
  MPI_Request request[4];
} Halo;
__attribute__((noinline)) static void make_halo(Halo *halo, int up, int down) {
  MPI_Recv_init(grid[0], N, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &halo->request[0]);
  MPI_Recv_init(grid[N + 1], N, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &halo->request[1]);
  MPI_Send_init(grid[1], N, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &halo->request[2]);
  MPI_Send_init(grid[N], N, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &halo->request[3]);
}
__attribute__((noinline)) static void exchange(Halo *halo) {
  MPI_Startall(4, halo->request);
  MPI_Waitall(4, halo->request, MPI_STATUSES_IGNORE);
}
__attribute__((noinline)) static void smooth(void) {
  for (int sweep = 0; sweep < 6; sweep++)
    for (int j = 1; j <= N; j++)
      for (int i = 1; i < N - 1; i++)
        grid[j][i] = 0.2 * (grid[j][i] + grid[j][i - 1] + grid[j][i + 1] + grid[j - 1][i] + grid[j + 1][i]) + 0.01;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  Halo halo;
  if (argc > 1) make_halo(&halo, up, down);
  for (int step = 0; step < 200; step++) {
    if (argc == 1) make_halo(&halo, up, down);
    exchange(&halo);
    smooth();
  }
  if (argc > 1)
    for (int i = 0; i < 4; i++) MPI_Request_free(&halo.request[i]);
  MPI_Finalize();
  return 0;
}
