// Particles migrate: their numbers are told to all ranks with one message each, before those that move are sent.
#include <mpi.h>
#include <random>
#include <vector>
static int rank_, size_;
struct Cloud {
  std::vector<double> x;
  std::mt19937 rng;
  Cloud(int n) : x(n), rng(rank_) {
    for (auto &v : x) v = rng() / 4294967296.0;
  }
  void push() {
    for (int k = 0; k < 40; k++)
      for (auto &v : x) v = v * 0.999 + 0.0005;
  }
  void migrate_all() {
    std::vector<int> n(size_), m(size_);
    std::vector<MPI_Request> r;
    for (int d = 0; d < size_; d++)
      if (d != rank_) {
        r.emplace_back();
        MPI_Irecv(&m[d], 1, MPI_INT, d, 0, MPI_COMM_WORLD, &r.back());
      }
    for (int d = 0; d < size_; d++)
      if (d != rank_) {
        r.emplace_back();
        MPI_Isend(&n[d], 1, MPI_INT, d, 0, MPI_COMM_WORLD, &r.back());
      }
    MPI_Waitall(r.size(), r.data(), MPI_STATUSES_IGNORE);
  }
  void migrate_near() {
    int n = 1, m;
    MPI_Sendrecv(&n, 1, MPI_INT, (rank_ + 1) % size_, 0, &m, 1, MPI_INT, (rank_ + size_ - 1) % size_, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  Cloud c(5000);
  for (int s = 0; s < 60; s++) {
    c.push();
    if (argc > 1) c.migrate_near();
    else c.migrate_all();
  }
  MPI_Finalize();
}
