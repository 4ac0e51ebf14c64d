/* No limit: the iterations of a solver vary a little with the number of ranks, and so do particles. */
#include <mpi.h>
#include <stdlib.h>

enum { N = 3000, STEPS = 15 };

static int iterations_of(int step, int size) {
  unsigned state = 2654435761u * (step + 1) + 40503u * size;
  state ^= state >> 13;
  state *= 1274126177u;
  return 18 + (state >> 16) % 5;
}

double smooth(double *x, int n) {
  double sum = 0;
  for (int sweep = 0; sweep < 25; sweep++)
    for (int i = 1; i < n - 1; i++) x[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1];
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

void solve(double *x, int step, int rank, int size) {
  int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  int iterations = iterations_of(step, size);
  for (int k = 0; k < iterations; k++) {
    MPI_Sendrecv(&x[N - 2], 1, MPI_DOUBLE, right, 0, &x[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&x[1], 1, MPI_DOUBLE, left, 1, &x[N - 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double mine = smooth(x, N), all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
}

void migrate(double *particles, unsigned *state, int rank, int size) {
  *state = *state * 1664525u + 1013904223u;
  int leaving = 200 + (*state >> 16) % 100, arrived;
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Request request;
  MPI_Isend(particles, leaving, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &request);
  MPI_Probe(left, 2, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &arrived);
  MPI_Recv(particles + 400, arrived, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *x = calloc(N, sizeof(double)), *particles = calloc(1000, sizeof(double));
  unsigned state = 91u * rank + 7u * size;
  x[0] = rank;
  for (int step = 0; step < STEPS; step++) {
    solve(x, step, rank, size);
    migrate(particles, &state, rank, size);
  }
  MPI_Finalize();
  return 0;
}
