// A merge sort over a tree of ranks: half of them are done after each stage, and rank 0 merges all.
#include <mpi.h>
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

constexpr int KEYS = 8000;
static int rank, size;
static bool repaired;

__attribute__((noinline)) static std::vector<int> merge_runs(const std::vector<int> &a,
                                                             const std::vector<int> &b) {
  std::vector<int> merged(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), merged.begin());
  return merged;
}

__attribute__((noinline)) static void sort_tree(std::vector<int> keys) {
  for (int bit = 1; bit < size; bit *= 2) {
    if (rank & bit) {
      MPI_Send(keys.data(), int(keys.size()), MPI_INT, rank - bit, 1, MPI_COMM_WORLD);
      return;
    }
    std::vector<int> theirs(keys.size());
    MPI_Recv(theirs.data(), int(theirs.size()), MPI_INT, rank + bit, 1, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    keys = merge_runs(keys, theirs);
  }
}

__attribute__((noinline)) static void exchange_halves(std::vector<int> &keys) {
  std::vector<int> theirs(keys.size());
  int partner = size > 1 ? rank ^ 1 : 0;
  MPI_Sendrecv(keys.data(), KEYS, MPI_INT, partner, 1, theirs.data(), KEYS, MPI_INT, partner, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  auto merged = merge_runs(keys, theirs);
  std::copy_n(merged.begin() + (rank & 1) * KEYS, KEYS, keys.begin());
}

__attribute__((noinline)) static void make_keys(std::vector<int> &keys, unsigned seed) {
  std::mt19937 generator(seed);
  for (int &key : keys) key = int(generator() >> 1);
  std::sort(keys.begin(), keys.end());
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  std::vector<int> keys(KEYS);
  for (unsigned step = 0; step < 25; step++) {
    make_keys(keys, 100 * step + rank);
    if (repaired)
      exchange_halves(keys);
    else
      sort_tree(keys);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
