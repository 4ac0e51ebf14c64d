// Each rank keeps an observer of every rank, and notifies all of them of each event.
// Repaired: observers of the neighbours.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mpi.h>
#include <vector>
static int rank_, size_;
struct Statistics {
  double sum = 0, squares = 0;
  double bins[64] = {};
};
class Bus {
public:
  void subscribe(std::function<void(double)> observer) { observers_.push_back(std::move(observer)); }
  void notify(double value) {
    for (auto &observer : observers_) observer(value);
  }

private:
  std::vector<std::function<void(double)>> observers_;
};
static void record(Statistics &statistics, double value, int peer) {
  double scaled = std::fabs(std::sin(value + peer));
  statistics.sum += scaled;
  statistics.squares += scaled * scaled;
  statistics.bins[int(scaled * 63)] += 1;
}
static double relax(std::vector<double> &field) {
  for (int sweep = 0; sweep < 30; sweep++)
    for (std::size_t i = 1; i + 1 < field.size(); i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[7];
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  bool repaired = argc > 1 && !strcmp(argv[1], "repaired");
  std::vector<Statistics> statistics(size_);
  Bus bus;
  for (int peer = 0; peer < size_; peer++) {
    bool is_near = peer == rank_ || peer == (rank_ + 1) % size_;
    if (!repaired || is_near)
      bus.subscribe([&statistics, peer](double value) { record(statistics[peer], value, peer); });
  }
  std::vector<double> field(20000, 1.0 + rank_);
  double total = 0, mine;
  for (int step = 0; step < 60; step++) {
    mine = relax(field);
    for (int event = 0; event < 20000; event++) bus.notify(mine + event);
    MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (total < 0) printf("%g %g\n", total, statistics[0].sum);
  MPI_Finalize();
}
