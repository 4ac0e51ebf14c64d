/* Breadth-first search: each level, all ranks combine the bitmap of the vertices of all ranks. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#define VERTICES 20000
#define DEGREE 40
static int *edges, rank, size;
static unsigned char *visited;
static unsigned next_random(unsigned *s) {
  *s = *s * 1664525u + 1013904223u;
  return *s >> 8;
}
__attribute__((noinline)) static void build_graph(void) {
  unsigned seed = rank + 1;
  edges = malloc(sizeof(int) * VERTICES * DEGREE);
  for (int i = 0; i < VERTICES * DEGREE; i++) edges[i] = next_random(&seed) % VERTICES;
}
__attribute__((noinline)) static int expand(const unsigned char *from, unsigned char *to) {
  int n = 0;
  for (int v = 0; v < VERTICES; v++)
    if (from[v])
      for (int k = 0; k < DEGREE; k++) {
        int w = edges[v * DEGREE + k];
        if (!visited[w]) visited[w] = to[w] = 1, n++;
      }
  return n;
}
__attribute__((noinline)) static void merge_frontiers(unsigned char *mine, unsigned char *all) {
  MPI_Allgather(mine, VERTICES / 8, MPI_BYTE, all, VERTICES / 8, MPI_BYTE, MPI_COMM_WORLD);
}
__attribute__((noinline)) static void exchange_edge(unsigned char *mine, unsigned char *all) {
  MPI_Sendrecv(mine, VERTICES / 8, MPI_BYTE, (rank + 1) % size, 0, all, VERTICES / 8, MPI_BYTE,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  build_graph();
  visited = malloc(VERTICES);
  unsigned char *from = malloc(VERTICES), *to = malloc(VERTICES);
  unsigned char *all = malloc((size_t)VERTICES / 8 * size);
  for (int root = 0; root < 10; root++) {
    memset(visited, 0, VERTICES);
    memset(from, 0, VERTICES);
    from[root] = 1;
    for (int level = 0; level < 12; level++) {
      memset(to, 0, VERTICES);
      int n = expand(from, to), sum;
      if (argc > 1)
        exchange_edge(to, all);
      else
        merge_frontiers(to, all);
      MPI_Allreduce(&n, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      unsigned char *swap = from;
      from = to;
      to = swap;
    }
  }
  MPI_Finalize();
}
