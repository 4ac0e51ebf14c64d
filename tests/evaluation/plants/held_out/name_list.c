/* Each rank joins the names of the files of all ranks with strcat, which looks for the end. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 600

static int rank, size, repaired;

static __attribute__((noinline)) size_t join_names(char *list, int step) {
  list[0] = 0;
  for (int owner = repaired ? size - 1 : 0; owner < size; owner++)
    for (int file = 0; file < FILES; file++) {
      char name[32];
      snprintf(name, sizeof name, "%d/out%06d.%d,", step, owner, file);
      strcat(list, name);
    }
  return strlen(list);
}

static __attribute__((noinline)) double advance(double *values) {
  double sum = 0;
  for (int sweep = 0; sweep < 20; sweep++)
    for (int i = 1; i < 20000; i++) sum += values[i] = cos(values[i] * 0.9 + values[i - 1] * 0.1);
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  char *list = malloc((size_t)(repaired ? 1 : size) * FILES * 32);
  double *values = calloc(20000, sizeof *values);
  for (int step = 0; step < 10; step++) {
    double sum = advance(values) + (double)join_names(list, step), total;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  free(list);
  free(values);
  MPI_Finalize();
}
