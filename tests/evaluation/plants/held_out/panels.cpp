// Strong scaling: a factorisation with one panel per rank, each factorised by its owner while the others wait.
// Repaired: 24 panels, dealt out in turn, and updates of the next panel first.
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <vector>
template <typename Real> class Factorisation {
public:
  Factorisation(int n, int width) : n_(n), width_(width), panels_(n / width) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (int panel = 0; panel < panels_; panel++)
      if (panel % size_ == rank_) columns_.emplace_back(make(panel));
  }
  void run() {
    std::vector<Real> current(std::size_t(n_) * width_);
    for (int panel = 0; panel < panels_; panel++) {
      if (panel % size_ == rank_) {
        factorise(panel);
        current = columns_[panel / size_];
      }
      MPI_Bcast(current.data(), int(current.size() * sizeof(Real)), MPI_BYTE, panel % size_, MPI_COMM_WORLD);
      for (int later = panel + 1; later < panels_; later++)
        if (later % size_ == rank_) update(columns_[later / size_], current, panel);
    }
  }
  Real trace() const { return columns_.empty() ? Real(0) : columns_[0][0]; }

private:
  std::vector<Real> make(int panel) const {
    std::vector<Real> column(std::size_t(n_) * width_);
    for (int j = 0; j < width_; j++)
      for (int i = 0; i < n_; i++)
        column[std::size_t(j) * n_ + i] = Real(1) / (1 + i + j + panel * width_) + (i == j + panel * width_ ? n_ : 0);
    return column;
  }
  void factorise(int panel) {
    auto &column = columns_[panel / size_];
    for (int j = 0; j < width_; j++) {
      int k = panel * width_ + j;
      Real *pivot = &column[std::size_t(j) * n_];
      for (int i = k + 1; i < n_; i++) pivot[i] /= pivot[k];
      for (int c = j + 1; c < width_; c++) {
        Real *other = &column[std::size_t(c) * n_];
        for (int i = k + 1; i < n_; i++) other[i] -= pivot[i] * other[k];
      }
    }
  }
  void update(std::vector<Real> &column, const std::vector<Real> &current, int panel) {
    for (int c = 0; c < width_; c++) {
      Real *other = &column[std::size_t(c) * n_];
      for (int j = 0; j < width_; j++) {
        int k = panel * width_ + j;
        const Real *pivot = &current[std::size_t(j) * n_];
        for (int i = k + 1; i < n_; i++) other[i] -= pivot[i] * other[k];
      }
    }
  }
  int n_, width_, panels_, rank_, size_;
  std::vector<std::vector<Real>> columns_;
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int size, n = 672;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !strcmp(argv[1], "repaired");
  double sum = 0;
  for (int step = 0; step < 6; step++) {
    Factorisation<double> lu(n, repaired ? n / 48 : n / size);
    lu.run();
    sum += lu.trace();
  }
  if (sum < 0) printf("%g\n", sum);
  MPI_Finalize();
}
