// Splitters of all keys, one for each rank, by bisection: an all-reduce for each rank and each halving.
// Repaired: all splitters at once, from a histogram of fixed length.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <vector>
using Key = std::uint32_t;
template <typename Predicate> static Key bisect(Predicate &&too_small, int halvings) {
  Key low = 0, high = 1u << 31;
  for (int i = 0; i < halvings; i++) {
    Key middle = low + (high - low) / 2;
    if (too_small(middle))
      low = middle;
    else
      high = middle;
  }
  return high;
}
static std::vector<Key> find_splitters(const std::vector<Key> &keys, int size) {
  std::vector<Key> splitters;
  for (int part = 1; part < size; part++) {
    double wanted = double(keys.size()) * part;
    auto too_small = [&](Key middle) {
      double below = double(std::lower_bound(keys.begin(), keys.end(), middle) - keys.begin()), all = 0;
      MPI_Allreduce(&below, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      return all < wanted;
    };
    splitters.push_back(bisect(too_small, 24));
  }
  return splitters;
}
static std::vector<double> count_bins(const std::vector<Key> &keys) {
  std::vector<double> bins(256), all(256);
  for (Key key : keys) bins[key >> 23] += 1;
  MPI_Allreduce(bins.data(), all.data(), 256, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}
static void move_particles(std::vector<Key> &keys, int step) {
  for (auto &key : keys) key = (key * 1664525u + 1013904223u + step) >> 1;
  std::sort(keys.begin(), keys.end());
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !strcmp(argv[1], "repaired");
  std::vector<Key> keys(30000);
  for (std::size_t i = 0; i < keys.size(); i++) keys[i] = Key(i) * 2654435761u + rank;
  double sum = 0;
  for (int step = 0; step < 60; step++) {
    move_particles(keys, step);
    if (step % 10) continue;
    sum += repaired ? count_bins(keys)[3] : find_splitters(keys, size).size();
  }
  if (sum < 0) printf("%g\n", sum);
  MPI_Finalize();
}
