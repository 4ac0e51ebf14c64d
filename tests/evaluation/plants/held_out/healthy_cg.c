/* Without a limit: conjugate gradients on rows that all ranks share, of a problem of fixed size. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#define ROWS 800000
static int rank, size, n;
static double *x, *r, *d, *q;
__attribute__((noinline)) static double dot(const double *a, const double *b) {
  double mine = 0, all;
  for (int i = 1; i <= n; i++) mine += a[i] * b[i];
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}
__attribute__((noinline)) static void exchange(double *v) {
  int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(&v[n], 1, MPI_DOUBLE, right, 1, &v[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&v[1], 1, MPI_DOUBLE, left, 2, &v[n + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
__attribute__((noinline)) static void multiply(const double *v, double *out) {
  for (int i = 1; i <= n; i++) out[i] = 2.01 * v[i] - v[i - 1] - v[i + 1];
}
__attribute__((noinline)) static void update(double alpha) {
  for (int i = 1; i <= n; i++) x[i] += alpha * d[i], r[i] -= alpha * q[i];
}
__attribute__((noinline)) static void direct(double beta) {
  for (int i = 1; i <= n; i++) d[i] = r[i] + beta * d[i];
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  n = ROWS / size;
  size_t bytes = (n + 2) * sizeof(double);
  x = calloc(1, bytes), r = calloc(1, bytes), d = calloc(1, bytes), q = calloc(1, bytes);
  for (int i = 1; i <= n; i++) r[i] = d[i] = 1 + (i % 7);
  double old = dot(r, r);
  for (int k = 0; k < 100; k++) {
    exchange(d);
    multiply(d, q);
    double alpha = old / dot(d, q);
    update(alpha);
    double now = dot(r, r);
    direct(now / old);
    old = now;
  }
  MPI_Finalize();
}
