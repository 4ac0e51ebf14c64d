// Each rank merges one sorted run from each rank, and looks at all of them for each key.
#include <mpi.h>
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

using Keys = std::vector<long>;
constexpr int KEYS = 27720;

struct Run {
  const long *next, *end;
};

__attribute__((noinline)) static void merge_heads(std::vector<Run> &runs, Keys &merged) {
  for (auto &key : merged) {
    Run *least = nullptr;
    for (auto &run : runs)
      if (run.next != run.end && (!least || *run.next < *least->next)) least = &run;
    key = *least->next++;
  }
}

__attribute__((noinline)) static void draw(Keys &keys, std::mt19937_64 &generator, int runs) {
  for (auto &key : keys) key = long(generator() >> 2);
  int each = KEYS / runs;
  for (int run = 0; run < runs; run++)
    std::sort(keys.begin() + run * each, keys.begin() + (run + 1) * each);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  std::mt19937_64 generator(rank);
  Keys keys(KEYS), received(KEYS), merged(KEYS);
  int count = repaired ? 4 : size, each = KEYS / count;
  for (int step = 0; step < 40; step++) {
    draw(keys, generator, count);
    if (repaired)
      received = keys;
    else
      MPI_Alltoall(keys.data(), each, MPI_LONG, received.data(), each, MPI_LONG, MPI_COMM_WORLD);
    std::vector<Run> runs;
    for (int run = 0; run < count; run++)
      runs.push_back({received.data() + run * each, received.data() + (run + 1) * each});
    merge_heads(runs, merged);
    long least = merged[0];
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
