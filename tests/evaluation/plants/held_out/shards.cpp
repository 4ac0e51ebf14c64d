// A table in four shards: the first four ranks keep what all ranks add to it.
#include <mpi.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <vector>

constexpr int SHARDS = 4, UPDATES = 1200;
static int rank, size;

class Shard {
 public:
  __attribute__((noinline)) void apply(const std::vector<long> &keys) {
    for (long key : keys) counts_[key % 5000]++;
  }
  std::size_t entries() const { return counts_.size(); }

 private:
  std::unordered_map<long, long> counts_;
};

class Table {
 public:
  Table(int first, int clients) : first_(first), clients_(clients) {}
  __attribute__((noinline)) void update(const std::vector<long> &keys) {
    int shards = std::min(SHARDS, clients_), each = UPDATES / shards;
    std::vector<MPI_Request> sends(shards);
    for (int shard = 0; shard < shards; shard++)
      MPI_Isend(keys.data() + shard * each, each, MPI_LONG, first_ + shard, 1, MPI_COMM_WORLD,
                &sends[shard]);
    if (rank - first_ < shards) serve(each);
    MPI_Waitall(shards, sends.data(), MPI_STATUSES_IGNORE);
  }

 private:
  __attribute__((noinline)) void serve(int each) {
    std::vector<long> keys(each);
    for (int client = 0; client < clients_; client++) {
      MPI_Recv(keys.data(), each, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      shard_.apply(keys);
    }
  }
  int first_, clients_;
  Shard shard_;
};

__attribute__((noinline)) static void make_keys(std::vector<long> &keys, int step) {
  for (int i = 0; i < UPDATES; i++)
    keys[i] = long(1e6 * std::fabs(std::sin(i * 0.7 + rank + step) * std::cos(i * 0.3)));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  int first = repaired ? rank / 4 * 4 : 0;
  Table table(first, repaired ? std::min(4, size - first) : size);
  std::vector<long> keys(UPDATES);
  for (int step = 0; step < 40; step++) {
    make_keys(keys, step);
    table.update(keys);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
