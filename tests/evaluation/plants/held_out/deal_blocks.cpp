// Strong scaling: block i of a triangle has 240 - i integrals; ranks take consecutive blocks.
#include <mpi.h>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

static int rank_, size_;
static bool repaired;
static const int kBlocks = 240;

struct Range {
  int first, last, stride;
};

__attribute__((noinline)) static Range my_blocks() {
  if (repaired) return {rank_, kBlocks, size_};
  return {rank_ * kBlocks / size_, (rank_ + 1) * kBlocks / size_, 1};
}

class Basis {
 public:
  explicit Basis(int n) : exponents_(n) {
    for (int i = 0; i < n; i++) exponents_[i] = 0.1 + 0.01 * i;
  }
  // Integrals of functions i and j > i: later blocks have fewer of them.
  __attribute__((noinline)) double block(int i) const {
    double sum = 0;
    for (int j = i; j < kBlocks; j++)
      for (int k = 0; k < 60; k++) {
        double e = exponents_[i] + exponents_[j];
        sum += std::exp(-e * k * 0.05) / (e + k);
      }
    return sum;
  }

 private:
  std::vector<double> exponents_;
};

class Density {
 public:
  explicit Density(int n) : values_(n, 1.0) {}
  __attribute__((noinline)) void update(const std::vector<double> &fock) {
    double norm = 0;
    for (double f : fock) norm += f * f;
    norm = std::sqrt(norm);
    for (size_t i = 0; i < values_.size(); i++)
      values_[i] = 0.5 * values_[i] + 0.5 * fock[i] / norm;
  }
  double trace() const {
    double t = 0;
    for (double v : values_) t += v;
    return t;
  }

 private:
  std::vector<double> values_;
};

__attribute__((noinline)) static std::vector<double> build_fock(const Basis &basis) {
  std::vector<double> fock(kBlocks);
  Range range = my_blocks();
  for (int i = range.first; i < range.last; i += range.stride) fock[i] = basis.block(i);
  MPI_Allreduce(MPI_IN_PLACE, fock.data(), kBlocks, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return fock;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  Basis basis(kBlocks);
  Density density(kBlocks);
  for (int iteration = 0; iteration < 40; iteration++) density.update(build_fock(basis));
  if (!rank_) std::printf("trace %.6f\n", density.trace());
  MPI_Finalize();
}
