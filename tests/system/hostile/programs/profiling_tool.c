/* A tool of the profiling interface, preloaded as mpiP and Darshan are. */
#include <mpi.h>
#include <stdio.h>
static int calls;
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  calls++;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Finalize(void) {
  printf("tool: %d calls\n", calls);
  return PMPI_Finalize();
}
