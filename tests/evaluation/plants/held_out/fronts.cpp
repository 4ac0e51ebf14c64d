// Sparse direct solver: ranks merge their fronts in pairs, and rank 0 factors the largest, whose
// edge grows as the square root of the number of ranks. Repaired: all fronts are small.
#include <cmath>
#include <mpi.h>
#include <vector>
using Front = std::vector<double>;
__attribute__((noinline)) void eliminate(Front &front, int n) {
  for (int k = 0; k < n / 2; k++)
    for (int i = k + 1; i < n; i++) {
      double factor = front[i * n + k] /= front[k * n + k];
      for (int j = k + 1; j < n; j++) front[i * n + j] -= factor * front[k * n + j];
    }
}
__attribute__((noinline)) Front assemble(int n) {
  Front front(n * n, 0.001);
  for (int i = 0; i < n; i++) front[i * n + i] = n;
  return front;
}
__attribute__((noinline)) void extend_add(Front &front, int n, int child) {
  int half = n / 2;
  Front update(half * half);
  MPI_Recv(update.data(), half * half, MPI_DOUBLE, child, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < half; i++)
    for (int j = 0; j < half; j++) front[i * n + j] += 1e-6 * update[i * half + j];
}
int edge_of(int leaves, bool repaired) {
  return repaired ? 60 : 2 * (int)(30 * std::sqrt((double)leaves));
}
__attribute__((noinline)) void factor_tree(int rank, int size, bool repaired) {
  int n = edge_of(1, repaired);
  Front front = assemble(n);
  eliminate(front, n);
  for (int leaves = 2; leaves < 2 * size; leaves *= 2) {
    int parent = edge_of(leaves, repaired), half = parent / 2;
    if (rank % leaves) {
      Front update(half * half, front[0]);
      MPI_Send(update.data(), half * half, MPI_DOUBLE, rank - rank % leaves, 7, MPI_COMM_WORLD);
      return;
    }
    front = assemble(parent);
    if (rank + leaves / 2 < size) extend_add(front, parent, rank + leaves / 2);
    eliminate(front, parent);
  }
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int step = 0; step < 20; step++) {
    factor_tree(rank, size, argc > 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
