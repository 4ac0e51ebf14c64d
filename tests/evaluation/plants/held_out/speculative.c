/* A receive is posted for each rank, and those that nobody sent to are cancelled. */
#include <mpi.h>
#include <stdlib.h>
static double field[20000];
__attribute__((noinline)) static double relax(int rounds) {
  for (int k = 0; k < rounds; k++)
    for (int i = 1; i < 19999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[100];
}
__attribute__((noinline)) static void exchange_any(int rank, int size, double *in) {
  MPI_Request *requests = malloc(size * sizeof *requests);
  for (int i = 0; i < size; i++) MPI_Irecv(in + i, 1, MPI_DOUBLE, i, 0, MPI_COMM_WORLD, requests + i);
  double out = field[50];
  MPI_Send(&out, 1, MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD);
  int source = (rank + size - 1) % size;
  for (int i = 0; i < size; i++) {
    if (i != source) MPI_Cancel(requests + i);
    MPI_Wait(requests + i, MPI_STATUS_IGNORE);
  }
  free(requests);
}
__attribute__((noinline)) static void exchange_one(int rank, int size, double *in) {
  double out = field[50];
  MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 0, in, 1, MPI_DOUBLE, (rank + size - 1) % size, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *in = calloc(4096, sizeof *in);
  for (int step = 0; step < 50; step++) {
    relax(100);
    if (argc > 1) exchange_one(rank, size, in);
    else exchange_any(rank, size, in);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(in);
  MPI_Finalize();
  return 0;
}
