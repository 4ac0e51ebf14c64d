// In each step a reduction over flags for all ranks says how many messages to expect.
// Repaired: each rank expects messages of its neighbours.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int rank, size;
static double field[16000];
static int count_senders(void) {
  int mine = 0;
  int *flags = calloc(size, sizeof *flags);
  flags[(rank + 1) % size] = 1;
  flags[(rank + size - 1) % size] = 1;
  MPI_Reduce_scatter_block(flags, &mine, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(flags);
  return mine;
}
static void exchange(int senders) {
  MPI_Request requests[2];
  double inbox[200];
  int count = 0;
  MPI_Isend(field, 200, MPI_DOUBLE, (rank + 1) % size, 3, MPI_COMM_WORLD, &requests[count++]);
  if (size > 2)
    MPI_Isend(field, 200, MPI_DOUBLE, (rank + size - 1) % size, 3, MPI_COMM_WORLD, &requests[count++]);
  for (int i = 0; i < senders; i++)
    MPI_Recv(inbox, 200, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}
static void relax(void) {
  for (int pass = 0; pass < 20; pass++)
    for (int i = 1; i < 15999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}
int main(int argc, char **argv) {
  (void)argv;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 16000; i++) field[i] = i % 11;
  for (int step = 0; step < 200; step++) {
    relax();
    exchange(argc > 1 ? (size > 2 ? 2 : 1) : count_senders());
  }
  if (field[3] < 0) printf("%g\n", field[3]);
  MPI_Finalize();
  return 0;
}
