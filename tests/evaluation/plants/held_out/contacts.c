/* Discs move between slabs: each is tested against the slabs of all ranks in each step. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define DISCS 3000
static int rank, size, repaired;
static double x[DISCS], v[DISCS], pressure[DISCS];
static double slab_edge(int r) { return r + 0.05 * sin(1.7 * r); }
static __attribute__((noinline)) int find_slab(double position) {
  int first = repaired ? rank : 0, last = repaired ? rank + 1 : size, best = rank;
  double nearest = 1e30;
  for (int r = first; r < last; r++) {
    double centre = 0.5 * (slab_edge(r) + slab_edge(r + 1)), distance = fabs(position - centre);
    if (distance < nearest) nearest = distance, best = r;
  }
  return best;
}
static __attribute__((noinline)) int classify(void) {
  int leaving = 0;
  for (int i = 0; i < DISCS; i++) leaving += find_slab(rank + x[i]) != rank;
  return leaving;
}
static __attribute__((noinline)) void collide(void) {
  for (int i = 0; i < DISCS; i++) {
    pressure[i] = 0;
    for (int j = i > 20 ? i - 20 : 0; j < i; j++) pressure[i] += exp(-fabs(x[i] - x[j]) * 50);
  }
}
static __attribute__((noinline)) void move(double dt) {
  for (int i = 0; i < DISCS; i++) {
    v[i] -= dt * 1e-3 * pressure[i];
    x[i] += dt * v[i];
    x[i] -= floor(x[i]);
  }
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  srand(rank);
  for (int i = 0; i < DISCS; i++) x[i] = rand() / (RAND_MAX + 1.0), v[i] = 0.1;
  int leaving = 0, all = 0;
  for (int step = 0; step < 600; step++) {
    collide();
    move(1e-3);
    leaving = classify();
    if (step % 20 == 0) {
      int edge;
      MPI_Sendrecv(&leaving, 1, MPI_INT, (rank + 1) % size, 1, &edge, 1, MPI_INT,
                   (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Allreduce(&leaving, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  if (!rank) printf("%d\n", all);
  MPI_Finalize();
}
