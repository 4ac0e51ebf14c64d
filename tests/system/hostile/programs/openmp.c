/* Parallel regions, tasks and threads that OpenMP keeps, with MPI between them. */
#include <mpi.h>
#include <stdio.h>
static int fib(int n) {
  int a, b;
  if (n < 2) return n;
#pragma omp task shared(a)
  a = fib(n - 1);
  b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}
int main(int argc, char **argv) {
  int provided, result = 0;
  double sum = 0, total;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  for (int i = 0; i < 20; i++) {
#pragma omp parallel for reduction(+ : sum) num_threads(4)
    for (int k = 0; k < 1000; k++) sum += k;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
#pragma omp parallel num_threads(4)
#pragma omp single
  result = fib(12);
  printf("%g %d\n", total, result);
  MPI_Finalize();
  return 0;
}
