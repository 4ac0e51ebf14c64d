/* MPI and OpenMP: between its parallel regions the first thread sorts the keys of all ranks. */
#include <mpi.h>
#include <stdlib.h>
#define KEYS 6000
#define POINTS 60000
static int rank, size;
static double *a, *b;
static int compare(const void *x, const void *y) {
  int i = *(const int *)x, j = *(const int *)y;
  return (i > j) - (i < j);
}
__attribute__((noinline)) static void stencil(void) {
  for (int round = 0; round < 30; round++) {
#pragma omp parallel for
    for (int i = 1; i < POINTS - 1; i++) b[i] = 0.5 * a[i] + 0.25 * (a[i - 1] + a[i + 1]);
    double *t = a;
    a = b;
    b = t;
  }
}
__attribute__((noinline)) static void order_keys(int n) {
  int *keys = malloc(sizeof(int) * n);
  for (int i = 0; i < n; i++) keys[i] = (i * 7919) % 10007;
  qsort(keys, n, sizeof *keys, compare);
  free(keys);
}
int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  a = calloc(POINTS, sizeof *a);
  b = calloc(POINTS, sizeof *b);
  for (int step = 0; step < 100; step++) {
    stencil();
    order_keys(argc > 1 ? KEYS : KEYS * size);
    MPI_Sendrecv(&a[POINTS - 2], 1, MPI_DOUBLE, (rank + 1) % size, 1, &a[0], 1, MPI_DOUBLE, (rank + size - 1) % size, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
}
