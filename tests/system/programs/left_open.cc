/* MPI calls that are left by an exception, and an error that is returned. */
#include <mpi.h>

#include <cstdio>
#include <stdexcept>

static void raise_error(MPI_Comm *, int *, ...) {
  throw std::runtime_error("no such rank");
}

int main(int argc, char **argv) {
  int caught = 0, failed = 0, rank;
  double one = 1, sum;
  MPI_Errhandler handler;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_create_errhandler(raise_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (int i = 0; i < 3; i++) {
    try {
      MPI_Send(&one, 1, MPI_DOUBLE, 1000, 0, MPI_COMM_WORLD);
    } catch (const std::runtime_error &) {
      caught++;
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  failed += MPI_Ssend(&one, 1, MPI_DOUBLE, 1000, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
  for (int i = 0; i < 5; i++) MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d %d\n", caught, failed);
  MPI_Finalize();
}
