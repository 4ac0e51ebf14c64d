/* Calls a library, and MPI through it only. */
#include <mpi.h>
#include <stdio.h>

int library_sum(int);

int main(void) {
  int version, subversion;
  MPI_Get_version(&version, &subversion);
  printf("the sum is %d\n", library_sum(1));
  return 0;
}
