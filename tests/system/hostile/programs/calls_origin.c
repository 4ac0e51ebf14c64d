/* Calls a library whose search path finds a plug-in for another library. */
#include <mpi.h>
#include <stdio.h>
extern int origin(void);
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  printf("%d\n", origin());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
