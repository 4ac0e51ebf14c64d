/* Clusters that span the ranks are merged into a tree that is as deep as there are ranks; each search recurses to its
 * root. */
#include <mpi.h>
#include <stdlib.h>
static int parent[1 << 20];
static double field[20000];
__attribute__((noinline)) static double relax(int rounds) {
  for (int k = 0; k < rounds; k++)
    for (int i = 1; i < 19999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[100];
}
__attribute__((noinline)) static int find_root(int node) {
  if (parent[node] == node) return node;
  int root = find_root(parent[node]);
  return root + (field[0] > 1e300);
}
__attribute__((noinline)) static long label_all(int clusters, int last) {
  long sum = 0;
  for (int i = 0; i < clusters; i++) sum += find_root(last - i % 2);
  return sum;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int nodes = 20 * size;
  for (int i = 0; i < nodes; i++) parent[i] = argc > 1 ? 0 : i ? i - 1 : 0;
  long sum = 0, all;
  for (int step = 0; step < 20; step++) {
    relax(200);
    sum += label_all(50000, nodes - 1);
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
