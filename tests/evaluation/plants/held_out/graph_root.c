// Rank 0 describes the edges of all ranks to MPI_Dist_graph_create, from the faces of all.
// Repaired: each rank describes its own.
#include <mpi.h>
#include <stdlib.h>
enum { FACES = 500, REMESHES = 25, CELLS = 30000 };
static double u[CELLS];
__attribute__((noinline)) static int weigh_edge(const int *faces, int rank, int side) {
  int weight = 0;
  for (int i = 0; i < FACES; i++) weight += faces[rank * FACES + i] % 2 == side;
  return weight;
}
__attribute__((noinline)) static MPI_Comm describe_edges(int first, int last, int size) {
  int count = last - first;
  int *faces = malloc(sizeof(int) * FACES * (count + 1)), *sources = malloc(sizeof(int) * (count + 1)),
      *degrees = malloc(sizeof(int) * (count + 1)), *targets = malloc(sizeof(int) * 2 * (count + 1)),
      *weights = malloc(sizeof(int) * 2 * (count + 1));
  MPI_Comm graph;
  for (int i = 0; i < count * FACES; i++) faces[i] = i * 31 % 17;
  for (int i = 0; i < count; i++) {
    int rank = first + i;
    sources[i] = rank;
    degrees[i] = 2;
    targets[2 * i] = (rank + size - 1) % size;
    targets[2 * i + 1] = (rank + 1) % size;
    for (int side = 0; side < 2; side++) weights[2 * i + side] = weigh_edge(faces, i, side);
  }
  MPI_Dist_graph_create(MPI_COMM_WORLD, count, sources, degrees, targets, weights, MPI_INFO_NULL, 0, &graph);
  free(faces), free(sources), free(degrees), free(targets), free(weights);
  return graph;
}
__attribute__((noinline)) static void relax(MPI_Comm graph) {
  double mine[2] = {u[0], u[CELLS - 1]}, theirs[2];
  MPI_Neighbor_alltoall(mine, 1, MPI_DOUBLE, theirs, 1, MPI_DOUBLE, graph);
  u[0] = 0.5 * (u[0] + theirs[0]);
  u[CELLS - 1] = 0.5 * (u[CELLS - 1] + theirs[1]);
  for (int i = 1; i < CELLS - 1; i++) u[i] = 0.25 * (u[i - 1] + 2 * u[i] + u[i + 1]);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  (void)argv;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  u[0] = rank;
  for (int remesh = 0; remesh < REMESHES; remesh++) {
    int first = argc > 1 ? rank : 0, last = argc > 1 ? rank + 1 : rank ? 0 : size;
    MPI_Comm graph = describe_edges(first, last, size);
    for (int step = 0; step < 10; step++) relax(graph);
    MPI_Comm_free(&graph);
  }
  MPI_Finalize();
}
