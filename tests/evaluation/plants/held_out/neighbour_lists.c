// Molecular dynamics: all ranks rebuild their lists when an atom of any rank has moved far enough,
// which happens the more often, the more ranks there are. Repaired: in each tenth step.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
enum { ATOMS = 300, STEPS = 150, BORDER = 50 };
static double x[ATOMS + 2 * BORDER];
static int pairs[ATOMS * 40], count;
static unsigned state;
static double draw(void) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) / 16777216.0;
}
__attribute__((noinline)) static void borders(int left, int right) {
  MPI_Sendrecv(x, BORDER, MPI_DOUBLE, left, 1, x + ATOMS, BORDER, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(x + ATOMS - BORDER, BORDER, MPI_DOUBLE, right, 2, x + ATOMS + BORDER, BORDER, MPI_DOUBLE, left, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
__attribute__((noinline)) static void rebuild(int left, int right) {
  borders(left, right);
  count = 0;
  for (int i = 0; i < ATOMS; i++)
    for (int j = i + 1; j < ATOMS && count < ATOMS * 40; j++)
      if (abs((int)(x[i] - x[j])) < 20) pairs[count++] = j;
}
__attribute__((noinline)) static double move(void) {
  double farthest = 0;
  for (int k = 0; k < count; k++) x[pairs[k]] += 1e-9 * x[pairs[k]];
  for (int i = 0; i < ATOMS; i++) x[i] += 1e-6 * i;
  if (draw() < 0.03) farthest = 1;
  return farthest;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  (void)argv;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  state = 17 * rank + 5;
  for (int i = 0; i < 10; i++) draw();
  for (int i = 0; i < ATOMS; i++) x[i] = 1000 * draw();
  rebuild(left, right);
  for (int step = 0; step < STEPS; step++) {
    double farthest = move(), all;
    MPI_Allreduce(&farthest, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (argc > 1 ? step % 10 == 0 : all > 0.5) rebuild(left, right);
  }
  MPI_Finalize();
}
