// A table with a fixed number of buckets for the cells of all ranks.
#include <cstdlib>
#include <forward_list>
#include <mpi.h>
#include <vector>
struct Table {
  std::vector<std::forward_list<std::pair<long, int>>> buckets;
  explicit Table(size_t n) : buckets(n) {
  }
  __attribute__((noinline)) void insert(long key, int owner) {
    buckets[key % buckets.size()].emplace_front(key, owner);
  }
  __attribute__((noinline)) int find(long key) const {
    for (auto &e : buckets[key % buckets.size()])
      if (e.first == key) return e.second;
    return -1;
  }
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long cells = 4000;
  Table table(argc > 1 ? cells * size : 512);
  for (long key = 0; key < cells * size; key++) table.insert(key, key / cells);
  unsigned long state = rank + 7;
  for (int step = 0; step < 10; step++) {
    long found = 0, sum;
    for (int i = 0; i < 40000; i++) {
      state = state * 6364136223846793005UL + 1442695040888963407UL;
      found += table.find((state >> 33) % (cells * size));
    }
    MPI_Allreduce(&found, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
