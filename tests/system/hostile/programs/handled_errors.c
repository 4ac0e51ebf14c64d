/* An error handler that returns: MPICH then returns success, without a message and without a status. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static int handled;
static void handle(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, handled++; }
static double fill(void) {
  volatile double values[500];
  for (int i = 0; i < 500; i++) values[i] = 1e300;
  return values[7];
}
int main(int argc, char **argv) {
  double value;
  MPI_Errhandler handler;
  MPI_Init(&argc, &argv);
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (int i = 0; i < 5; i++) {
    fill();
    MPI_Recv(&value, 1, MPI_DOUBLE, 1000, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  printf("handled %d\n", handled);
  MPI_Finalize();
  return 0;
}
