/* Communicators and types of another size that take the handles of freed ones, on three ranks. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  double one[9] = {0}, two[9];
  int counts[3] = {1, 1, 1}, at[3] = {0, 1, 2}, rank, reused[2] = {0, 0};
  MPI_Comm comm, comm_before = MPI_COMM_NULL;
  MPI_Datatype type, type_before = MPI_DATATYPE_NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 12; i++) {
    MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? rank : 0, 0, &comm);
    MPI_Type_contiguous(1 + i % 3, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    reused[0] += comm == comm_before;
    reused[1] += type == type_before;
    MPI_Alltoallv(one, counts, at, type, two, counts, at, type, comm);
    MPI_Alltoallv(one, counts, at, type, two, counts, at, type, comm);
    comm_before = comm;
    type_before = type;
    MPI_Type_free(&type);
    if (i % 4 < 2) MPI_Comm_free(&comm);
    else MPI_Comm_disconnect(&comm);
  }
  if (rank == 0) printf("reused %d communicators, %d types\n", reused[0], reused[1]);
  MPI_Finalize();
  return 0;
}
