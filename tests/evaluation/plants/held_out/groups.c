/* The ranks around each rank get a communicator, which all ranks create together, one rank after the other. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
static double field[20000];
__attribute__((noinline)) static double relax(int rounds) {
  for (int k = 0; k < rounds; k++)
    for (int i = 1; i < 19999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[100];
}
__attribute__((noinline)) static double sum_around(int rank, int size) {
  double mine = field[rank % 100] + 1, sum = 0;
  for (int centre = 0; centre < size; centre++) {
    int near = rank == centre || rank == (centre + 1) % size;
    MPI_Comm group;
    MPI_Comm_split(MPI_COMM_WORLD, near ? 0 : MPI_UNDEFINED, rank, &group);
    if (group == MPI_COMM_NULL) continue;
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, group);
    sum += all;
    MPI_Comm_free(&group);
  }
  return sum;
}
__attribute__((noinline)) static double sum_neighbours(int rank, int size) {
  double mine = field[rank % 100] + 1, other;
  MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &other, 1, MPI_DOUBLE, (rank + size - 1) % size, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return mine + other;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int step = 0; step < 20; step++) {
    relax(200);
    field[0] = argc > 1 ? sum_neighbours(rank, size) : sum_around(rank, size);
  }
  MPI_Finalize();
  return 0;
}
