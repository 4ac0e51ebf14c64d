/* The ranks take turns as root: over all steps each encodes as much, but one alone in each step. */
#include <mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 24
#define SAMPLES 3000

static int rank, size, repaired;

static __attribute__((noinline)) double encode(const double *samples, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++)
    for (int harmonic = 1; harmonic < 16; harmonic++) sum += cos(samples[i] * harmonic);
  return sum;
}

static __attribute__((noinline)) double write_frame(const double *samples, double *all, int root) {
  MPI_Request request;
  if (repaired) return encode(samples, SAMPLES);
  MPI_Igather(samples, SAMPLES, MPI_DOUBLE, all, SAMPLES, MPI_DOUBLE, root, MPI_COMM_WORLD,
              &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return rank == root ? encode(all, SAMPLES * size) : 0;
}

static __attribute__((noinline)) void step_once(double *samples) {
  for (int i = 1; i < SAMPLES; i++) samples[i] = 0.9 * samples[i] + 0.1 * samples[i - 1] + 0.01;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  double *samples = calloc(SAMPLES, sizeof *samples);
  double *all = calloc((size_t)SAMPLES * (repaired ? 1 : size), sizeof *all);
  for (int step = 0; step < STEPS; step++) {
    step_once(samples);
    double check = write_frame(samples, all, step % size);
    MPI_Bcast(&check, 1, MPI_DOUBLE, step % size, MPI_COMM_WORLD);
  }
  free(samples);
  free(all);
  MPI_Finalize();
}
