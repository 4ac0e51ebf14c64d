/* A library that is loaded while other threads call MPI; POINTERS gives it many relocations. */
#include <mpi.h>

#define TEN(x) x x x x x x x x x x
#define TARGET &target,
static int target;
int *pointers[] = {TEN(TEN(TEN(TEN(TARGET))))};

int plugin_call(void) {
  int rank, flag;
  MPI_Initialized(&flag);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_SELF);
  return flag;
}
