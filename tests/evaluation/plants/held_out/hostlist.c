/* Each rank parses the string that lists the hosts of all ranks, with strlen and sscanf over what is left of it.
   Repaired: the ranks of a node come from MPI_Comm_split_type. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ENTRY 24
static int rank, size;
static double field[40000];

static char *make_list(void) {
  char mine[ENTRY + 1], *all = malloc((size_t)size * ENTRY + 1);
  snprintf(mine, sizeof mine, "node%08d:%09d;;", rank / 2, 40000 + rank);
  MPI_Allgather(mine, ENTRY, MPI_CHAR, all, ENTRY, MPI_CHAR, MPI_COMM_WORLD);
  all[(size_t)size * ENTRY] = 0;
  return all;
}

static int parse_hosts(const char *list, int *nodes, int *ports) {
  int n = 0;
  while (strlen(list) >= ENTRY && sscanf(list, "node%d:%d", &nodes[n], &ports[n]) == 2) {
    list += ENTRY;
    n++;
  }
  return n;
}

static int count_local(void) {
  char *list = make_list();
  int *nodes = malloc(size * sizeof *nodes), *ports = malloc(size * sizeof *ports), local = 0;
  for (int try = 0; try < 400; try++) {
    int n = parse_hosts(list, nodes, ports);
    local = 0;
    for (int i = 0; i < n; i++) local += nodes[i] == rank / 2;
  }
  free(list);
  free(nodes);
  free(ports);
  return local;
}

static int count_local_by_split(void) {
  MPI_Comm node;
  int local;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &local);
  MPI_Comm_free(&node);
  return local;
}

static void smooth(void) {
  for (int k = 0; k < 40; k++)
    for (int i = 1; i < 39999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]) + 1e-6;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int repaired = argc > 1, local = repaired ? count_local_by_split() : 0;
  double sum;
  for (int step = 0; step < 40; step++) {
    smooth();
    if (!repaired) local = count_local();
    MPI_Allreduce(&field[100], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%d %g\n", local, sum);
  MPI_Finalize();
}
