/* All ranks write their lines in order with MPI_File_write_ordered, in small pieces; repaired: write_at_all once. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
enum { LINES = 40 };
static char text[LINES * 64];
__attribute__((noinline)) static void write_lines(MPI_File file, int ordered, int rank) {
  if (ordered)
    for (int i = 0; i < LINES; i++) MPI_File_write_ordered(file, text + 64 * i, 64, MPI_CHAR, MPI_STATUS_IGNORE);
  else MPI_File_write_at_all(file, (MPI_Offset)rank * sizeof text, text, sizeof text, MPI_CHAR, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  memset(text, 'x', sizeof text);
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, "ordered.out", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  for (int s = 0; s < 5; s++) write_lines(file, argc == 1, rank);
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
