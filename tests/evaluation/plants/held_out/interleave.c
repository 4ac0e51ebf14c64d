/* Blocks of all ranks alternate in a file that each rank writes for itself: data sieving. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 256
#define BLOCK 64

static int rank, size, repaired;

static __attribute__((noinline)) void dump(const char *name, const double *values) {
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_Datatype mine;
  MPI_Type_vector(BLOCKS, BLOCK, repaired ? BLOCK : size * BLOCK, MPI_DOUBLE, &mine);
  MPI_Type_commit(&mine);
  MPI_Offset start = (repaired ? BLOCKS : 1) * (MPI_Offset)(rank * BLOCK * sizeof(double));
  MPI_File_set_view(file, start, MPI_DOUBLE, mine, "native", MPI_INFO_NULL);
  MPI_File_write(file, values, BLOCKS * BLOCK, MPI_DOUBLE, MPI_STATUS_IGNORE);
  MPI_Type_free(&mine);
  MPI_File_close(&file);
}

static __attribute__((noinline)) void advance(double *values) {
  for (int sweep = 0; sweep < 100; sweep++)
    for (int i = 1; i < BLOCKS * BLOCK - 1; i++)
      values[i] = 0.5 * values[i] + 0.25 * (values[i - 1] + values[i + 1]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  const char *folder = getenv("TMPDIR");
  char name[4096];
  snprintf(name, sizeof name, "%s/interleave-%d.out", folder ? folder : "/tmp", size);
  double *values = calloc(BLOCKS * BLOCK, sizeof *values);
  values[BLOCKS] = rank;
  for (int step = 0; step < 8; step++) {
    advance(values);
    dump(name, values);
  }
  if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
  free(values);
  MPI_Finalize();
}
