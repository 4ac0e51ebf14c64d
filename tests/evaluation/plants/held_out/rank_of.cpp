// The number of an unknown is its distance from the first in an ordered set of those of all ranks.
#include <mpi.h>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <vector>

constexpr int UNKNOWNS = 200;

class Numbering {
 public:
  void add(long id) { ids_.insert(id); }
  __attribute__((noinline)) long number_of(long id) const {
    return std::distance(ids_.begin(), ids_.find(id));
  }

 private:
  std::set<long> ids_;
};

__attribute__((noinline)) static double assemble(const Numbering &numbering, int owner) {
  double sum = 0;
  for (int i = 0; i < UNKNOWNS; i++)
    sum += std::sqrt(double(numbering.number_of(long(owner) * UNKNOWNS + i)));
  return sum;
}

__attribute__((noinline)) static double multiply(std::vector<double> &x) {
  double sum = 0;
  for (int sweep = 0; sweep < 5; sweep++)
    for (std::size_t i = 1; i < x.size(); i++) sum += x[i] = std::sin(x[i] + x[i - 1]);
  return sum;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  Numbering numbering;
  int first = repaired ? rank : 0, end = repaired ? rank + 1 : size;
  for (long id = long(first) * UNKNOWNS; id < long(end) * UNKNOWNS; id++) numbering.add(id);
  std::vector<double> x(10000, 0.5);
  for (int step = 0; step < 60; step++) {
    double sum = multiply(x), total;
    for (int block = 0; block < 4; block++) sum += assemble(numbering, rank);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
