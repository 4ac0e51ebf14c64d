/* Every rank reads the whole input file with MPI-IO, piece by piece, and keeps its own part. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { PER_RANK = 20000 };
static double buf[PER_RANK], mine[PER_RANK];
__attribute__((noinline)) static void load(const char *name, int rank, int size, int whole) {
  MPI_File f;
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f);
  if (whole)
    for (int r = 0; r < size; r++) {
      MPI_File_read_at(f, (MPI_Offset)r * sizeof buf, buf, PER_RANK, MPI_DOUBLE, MPI_STATUS_IGNORE);
      if (r == rank) memcpy(mine, buf, sizeof buf);
    }
  else MPI_File_read_at_all(f, (MPI_Offset)rank * sizeof buf, mine, PER_RANK, MPI_DOUBLE, MPI_STATUS_IGNORE);
  MPI_File_close(&f);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char name[64];
  sprintf(name, "input.%d", size);
  if (!rank) {
    FILE *f = fopen(name, "wb");
    for (int r = 0; r < size; r++) fwrite(buf, sizeof buf, 1, f);
    fclose(f);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  load(name, rank, size, argc == 1);
  for (int k = 0; k < 200; k++)
    for (int i = 0; i < PER_RANK; i++) mine[i] = 0.5 * mine[i] + 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (!rank) remove(name);
  MPI_Finalize();
  return 0;
}
