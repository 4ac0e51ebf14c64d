/* Checkpoints: the ranks write one file one after the other, each when its left neighbour is done. */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
#define VALUES 40000
static int rank, size;
static double *field;
__attribute__((noinline)) static void relax(void) {
  for (int round = 0; round < 100; round++)
    for (int i = 1; i < VALUES - 1; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
}
__attribute__((noinline)) static void write_block(int file) {
  if (pwrite(file, field, VALUES * sizeof *field, (off_t)rank * VALUES * sizeof *field) < 0) MPI_Abort(MPI_COMM_WORLD, 1);
  fsync(file);
}
__attribute__((noinline)) static void checkpoint(int file) {
  int token = 0;
  if (rank) MPI_Recv(&token, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  write_block(file);
  if (rank < size - 1) MPI_Send(&token, 1, MPI_INT, rank + 1, 7, MPI_COMM_WORLD);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  field = calloc(VALUES, sizeof *field);
  field[VALUES / 2] = rank;
  int file = open("checkpoint.out", O_CREAT | O_WRONLY, 0644);
  for (int step = 0; step < 40; step++) {
    relax();
    if (argc > 1)
      write_block(file);
    else
      checkpoint(file);
    double sum;
    MPI_Allreduce(field, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  close(file);
  MPI_Finalize();
}
