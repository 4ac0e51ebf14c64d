// Distributed FFT: each rank computes the twiddle factors of the whole length before each transform.
#include <mpi.h>
#include <cmath>
#include <complex>
#include <vector>
using Complex = std::complex<double>;
namespace fft {
struct Plan {
  long length;
  std::vector<Complex> factors;
};
__attribute__((noinline)) void make_factors(Plan &plan, long count) {
  plan.factors.resize(16384);
  for (long k = 0; k < count; k++)
    plan.factors[k % 16384] = std::polar(1.0, -2 * M_PI * double(k) / double(plan.length));
}
__attribute__((noinline)) void butterflies(std::vector<Complex> &x, const Plan &plan) {
  const long n = long(x.size());
  for (long half = n / 2; half; half /= 2)
    for (long start = 0; start < n; start += 2 * half)
      for (long k = 0; k < half; k++) {
        Complex a = x[start + k], b = x[start + k + half];
        x[start + k] = a + b;
        x[start + k + half] = (a - b) * plan.factors[k];
      }
}
__attribute__((noinline)) void swap_halves(std::vector<Complex> &x, int rank, int size) {
  MPI_Sendrecv_replace(x.data(), int(x.size()), MPI_DOUBLE, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
}  // namespace fft
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Complex> x(16384, Complex(rank + 1, 0));
  fft::Plan plan{16384L * size, {}};
  for (int step = 0; step < 80; step++) {
    fft::make_factors(plan, argc > 1 ? 16384 : plan.length);
    fft::butterflies(x, plan);
    fft::swap_halves(x, rank, size);
    double scale = std::abs(x[1]) + 1, largest;
    MPI_Allreduce(&scale, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (Complex &value : x) value /= largest;
  }
  MPI_Finalize();
}
