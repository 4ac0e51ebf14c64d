/* Every rank reads the restart file of all ranks from its beginning, to keep its own block. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1 << 20 };

static int rank, size;

__attribute__((noinline)) static void write_block(const char *path, char *block) {
  FILE *file;
  if (rank == 0) fclose(fopen(path, "wb"));
  MPI_Barrier(MPI_COMM_WORLD);
  file = fopen(path, "r+b");
  fseek(file, (long)rank * BLOCK, SEEK_SET);
  fwrite(block, 1, BLOCK, file);
  fclose(file);
  MPI_Barrier(MPI_COMM_WORLD);
}

__attribute__((noinline)) static void read_restart(const char *path, char *block, int is_repaired) {
  FILE *file = fopen(path, "rb");
  if (is_repaired) {
    fseek(file, (long)rank * BLOCK, SEEK_SET);
    if (fread(block, 1, BLOCK, file) != BLOCK) MPI_Abort(MPI_COMM_WORLD, 1);
  } else {
    char *other = malloc(BLOCK);
    for (int owner = 0; owner < size; owner++)
      if (fread(owner == rank ? block : other, 1, BLOCK, file) != BLOCK) MPI_Abort(MPI_COMM_WORLD, 1);
    free(other);
  }
  fclose(file);
}

__attribute__((noinline)) static void relax(double *field, int cells) {
  double local = 0, total;
  for (int pass = 0; pass < 300; pass++)
    for (int i = 1; i < cells - 1; i++) local += field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  MPI_Allreduce(&local, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *block = calloc(BLOCK, 1);
  write_block("restart.bin", block);
  read_restart("restart.bin", block, argc > 1);
  double *field = calloc(4000, sizeof *field);
  for (int step = 0; step < 30; step++) relax(field, 4000);
  free(field);
  free(block);
  MPI_Finalize();
  return 0;
}
