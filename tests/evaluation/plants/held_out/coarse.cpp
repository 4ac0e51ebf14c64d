// Two levels: the coarse problem has 16 unknowns for each rank, and every rank solves all of it by Gaussian
// elimination.
#include <cmath>
#include <mpi.h>
#include <vector>
class Coarse {
public:
  explicit Coarse(int unknowns) : n(unknowns), matrix(unknowns * unknowns), rhs(unknowns) {
  }
  void fill(const std::vector<double> &all) {
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) matrix[i * n + j] = 1.0 / (1 + std::abs(i - j));
      matrix[i * n + i] += 10;
      rhs[i] = all[i % all.size()];
    }
  }
  __attribute__((noinline)) double solve() {
    for (int k = 0; k < n; k++)
      for (int i = k + 1; i < n; i++) {
        double factor = matrix[i * n + k] / matrix[k * n + k];
        for (int j = k; j < n; j++) matrix[i * n + j] -= factor * matrix[k * n + j];
        rhs[i] -= factor * rhs[k];
      }
    return rhs[n - 1] / matrix[n * n - 1];
  }

private:
  int n;
  std::vector<double> matrix, rhs;
};
__attribute__((noinline)) void smooth(std::vector<double> &fine) {
  for (int sweep = 0; sweep < 40; sweep++)
    for (std::size_t i = 1; i + 1 < fine.size(); i++) fine[i] = 0.5 * fine[i] + 0.25 * (fine[i - 1] + fine[i + 1]);
}
int main(int argc, char **argv) {
  constexpr int per_rank = 16, fixed = 48;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1;
  std::vector<double> fine(20000, 1.0 + rank), mine(per_rank), all(repaired ? per_rank : per_rank * size);
  Coarse coarse(repaired ? fixed : per_rank * size);
  for (int step = 0; step < 60; step++) {
    smooth(fine);
    for (int i = 0; i < per_rank; i++) mine[i] = fine[i * 1000];
    if (repaired) MPI_Allreduce(mine.data(), all.data(), per_rank, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else MPI_Allgather(mine.data(), per_rank, MPI_DOUBLE, all.data(), per_rank, MPI_DOUBLE, MPI_COMM_WORLD);
    coarse.fill(all);
    fine[0] = coarse.solve();
  }
  MPI_Finalize();
}
