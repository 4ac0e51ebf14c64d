/* A datatype of one block for each rank is built for every exchange, and never freed. */
#include <mpi.h>
#include <stdlib.h>
static double field[65536];
__attribute__((noinline)) static double relax(int rounds) {
  for (int k = 0; k < rounds; k++)
    for (int i = 1; i < 19999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[100];
}
__attribute__((noinline)) static MPI_Datatype describe_blocks(int size) {
  int count = 100 * size, *lengths = malloc(count * sizeof *lengths), *offsets = malloc(count * sizeof *offsets);
  for (int i = 0; i < count; i++) {
    lengths[i] = i % 7 == 0 && i < 70;
    offsets[i] = 3 * i;
  }
  MPI_Datatype type;
  MPI_Type_indexed(count, lengths, offsets, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  free(lengths);
  free(offsets);
  return type;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype once;
  MPI_Type_vector(10, 1, 21, MPI_DOUBLE, &once);
  MPI_Type_commit(&once);
  for (int step = 0; step < 100; step++) {
    relax(50);
    MPI_Datatype type = argc > 1 ? once : describe_blocks(size);
    MPI_Sendrecv(field, 1, type, (rank + 1) % size, 0, field + 20000, 1, type, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
