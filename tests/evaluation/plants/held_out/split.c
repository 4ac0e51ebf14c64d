/* A pipeline of stages: in each step the communicator of the stage is made anew, and a datatype is never freed. */
#include <mpi.h>
#include <stdlib.h>
#define N 400
static int rank, size;
static double *grid;
__attribute__((noinline)) static void filter(void) {
  for (int round = 0; round < 8; round++)
    for (int j = 1; j < N - 1; j++)
      for (int i = 1; i < N - 1; i++) grid[j * N + i] = 0.6 * grid[j * N + i] + 0.1 * (grid[j * N + i - 1] + grid[j * N + i + 1] + grid[(j - 1) * N + i] + grid[(j + 1) * N + i]);
}
__attribute__((noinline)) static MPI_Datatype column(void) {
  MPI_Datatype type;
  MPI_Type_vector(N, 1, N, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}
__attribute__((noinline)) static void pass(MPI_Datatype type) {
  MPI_Sendrecv(&grid[N - 2], 1, type, (rank + 1) % size, 1, &grid[0], 1, type, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
__attribute__((noinline)) static double stage_mean(MPI_Comm stage) {
  double mean;
  MPI_Allreduce(&grid[N + 1], &mean, 1, MPI_DOUBLE, MPI_SUM, stage);
  return mean;
}
__attribute__((noinline)) static MPI_Comm make_stage(void) {
  MPI_Comm stage;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &stage);
  return stage;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  grid = calloc(N * N, sizeof *grid);
  int repaired = argc > 1;
  MPI_Datatype type = column();
  MPI_Comm stage = make_stage();
  for (int step = 0; step < 80; step++) {
    filter();
    if (!repaired) {
      MPI_Comm_free(&stage);
      stage = make_stage();
      type = column();
    }
    pass(type);
    grid[N + 1] = 1e-3 * stage_mean(stage);
  }
  MPI_Finalize();
}
