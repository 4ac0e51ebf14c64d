// Strong scaling of the Mandelbrot set in blocks of rows: the ranks in the middle have nearly all of the work.
#include <complex>
#include <mpi.h>
#include <vector>
constexpr int width = 400, height = 384, limit = 1500;
__attribute__((noinline)) int escape_time(std::complex<double> c) {
  double x = 0, y = 0;
  int k = 0;
  while (k < limit && x * x + y * y < 4) {
    double next = x * x - y * y + c.real();
    y = 2 * x * y + c.imag();
    x = next;
    k++;
  }
  return k;
}
__attribute__((noinline)) long render_row(int row) {
  long sum = 0;
  for (int i = 0; i < width; i++) sum += escape_time({-2.2 + 3.2 * i / width, -2.4 + 4.8 * row / height});
  return sum;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int rows = height / size;
  for (int frame = 0; frame < 10; frame++) {
    long mine = 0, all;
    for (int k = 0; k < rows; k++) mine += render_row(argc > 1 ? k * size + rank : rank * rows + k);
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
