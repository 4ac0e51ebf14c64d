// Each rank computes the owners of the boxes of all ranks and keeps them in a std::map. Repaired: only those around it.
#include <map>
#include <memory>
#include <mpi.h>
#include <string>
#include <vector>
struct Box {
  int owner, level;
  double low[3], high[3];
};
class Layout {
public:
  void add_rank(int owner) {
    for (int k = 0; k < boxes_per_rank; k++) {
      Box box{owner, k % 3, {double(owner), double(k), 0}, {owner + 1.0, k + 1.0, 1}};
      boxes_.emplace(long(owner) * boxes_per_rank + k, box);
    }
  }
  double overlap(long id) const {
    double volume = 0;
    for (long other = id - 2; other <= id + 2; other++) {
      auto found = boxes_.find(other);
      if (found != boxes_.end()) volume += found->second.high[1] - found->second.low[1];
    }
    return volume;
  }
  static constexpr int boxes_per_rank = 3000;

private:
  std::map<long, Box> boxes_;
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<double> data(30000, 1.0);
  double sum = 0;
  for (int regrid = 0; regrid < 20; regrid++) {
    auto layout = std::make_unique<Layout>();
    if (argc > 1) {
      for (int offset = -1; offset <= 1; offset++) layout->add_rank((rank + offset + size) % size);
    } else {
      for (int owner = 0; owner < size; owner++) layout->add_rank(owner);
    }
    for (int k = 0; k < Layout::boxes_per_rank; k++) sum += layout->overlap(long(rank) * Layout::boxes_per_rank + k);
    for (int sweep = 0; sweep < 60; sweep++)
      for (std::size_t i = 1; i + 1 < data.size(); i++) data[i] = 0.5 * data[i] + 0.25 * (data[i - 1] + data[i + 1]);
    double total, mine = sum + data[1];
    MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
