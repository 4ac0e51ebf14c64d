// Each rank skips the random numbers of the ranks before it one by one.
#include <cmath>
#include <mpi.h>
#include <random>
__attribute__((noinline)) void skip(std::mt19937_64 &engine, long n) {
  for (long i = 0; i < n; i++) engine();
}
__attribute__((noinline)) double sample(std::mt19937_64 &engine, long n) {
  double s = 0;
  for (long i = 0; i < n; i++) s += std::sqrt((double)(engine() >> 11));
  return s;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const long n = 400000;
  double sum = 0, total;
  for (int step = 0; step < 8; step++) {
    std::mt19937_64 engine(step + (argc > 1 ? 1000 * rank : 0));
    if (argc == 1) skip(engine, rank * n);
    sum += sample(engine, 2 * n);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
