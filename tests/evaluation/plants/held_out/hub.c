/* A halo of an irregular mesh: the hub, a rank in the second half, has an edge to every other rank. Repaired: a ring.
 */
#include <mpi.h>
#include <stdlib.h>
enum { EDGE = 2000, CELLS = 30000 };
static double cells[CELLS], in[64][EDGE];
static int rank, size, neighbours[64], degree;
static void add(int other) {
  if (other != rank && degree < 64) {
    for (int i = 0; i < degree; i++)
      if (neighbours[i] == other) return;
    neighbours[degree++] = other;
  }
}
static void find_neighbours(int hub) {
  add((rank + 1) % size);
  add((rank + size - 1) % size);
  if (hub < 0) return;
  if (rank == hub)
    for (int other = 0; other < size; other++) add(other);
  else add(hub);
}
__attribute__((noinline)) static void exchange(void) {
  MPI_Request requests[128];
  for (int i = 0; i < degree; i++) {
    MPI_Irecv(in[i], EDGE, MPI_DOUBLE, neighbours[i], 3, MPI_COMM_WORLD, &requests[2 * i]);
    MPI_Isend(cells, EDGE, MPI_DOUBLE, neighbours[i], 3, MPI_COMM_WORLD, &requests[2 * i + 1]);
  }
  MPI_Waitall(2 * degree, requests, MPI_STATUSES_IGNORE);
}
__attribute__((noinline)) static void update(void) {
  for (int k = 0; k < 25; k++)
    for (int i = 1; i < CELLS - 1; i++) cells[i] = 0.4 * cells[i] + 0.3 * (cells[i - 1] + cells[i + 1]) + 1e-4;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  find_neighbours(argc > 1 ? -1 : (3 * size) / 4);
  for (int step = 0; step < 60; step++) {
    update();
    exchange();
  }
  MPI_Finalize();
}
