/* Termination is detected by a token that passes through all ranks in each iteration. */
#include <mpi.h>
__attribute__((noinline)) static int all_done(int done, int rank, int size) {
  int token = done;
  if (size == 1) return done;
  if (rank > 0) {
    MPI_Recv(&token, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token = token && done;
  }
  MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(&token, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return token;
}
static double x[20000];
__attribute__((noinline)) static void iterate(void) {
  for (int k = 0; k < 20; k++)
    for (int i = 1; i < 19999; i++) x[i] = 0.5 * (x[i - 1] + x[i + 1]) + 1;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int it = 1, done = 0; !done; it++) {
    iterate();
    int mine = it >= 300;
    if (argc > 1) MPI_Allreduce(&mine, &done, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    else done = all_done(mine, rank, size);
  }
  MPI_Finalize();
  return 0;
}
