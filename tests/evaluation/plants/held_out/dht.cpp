// Counts words in a distributed hash table, whose buckets are dealt to ranks.
#include <mpi.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <vector>

static int rank_, size_;
static bool repaired;

static uint64_t mix(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdull;
  k ^= k >> 33;
  return k;
}

// The table has 3 large buckets, each with an owner.
static int owner_of(uint64_t word) {
  if (repaired) return (int)(mix(word) % (uint64_t)size_);
  return (int)(mix(word) % 3) % size_;
}

class Text {
 public:
  __attribute__((noinline)) std::vector<uint64_t> read(int count, int block) {
    std::vector<uint64_t> words(count);
    uint64_t s = 1234567 + 31 * rank_ + block;
    for (auto &w : words) {
      s = s * 6364136223846793005ull + 1442695040888963407ull;
      w = (s >> 40) * (uint64_t)(1 + (s >> 20) % 7);
    }
    return words;
  }
};

class Table {
 public:
  __attribute__((noinline)) void insert(const std::vector<uint64_t> &words) {
    for (uint64_t w : words) counts_[w & 8191]++;
  }
  size_t distinct() const { return counts_.size(); }

 private:
  std::unordered_map<uint64_t, int> counts_;
};

class Router {
 public:
  __attribute__((noinline)) std::vector<uint64_t> route(const std::vector<uint64_t> &words) {
    std::vector<int> counts(size_), incoming(size_), starts(size_), offsets(size_);
    for (uint64_t w : words) counts[owner_of(w)]++;
    MPI_Alltoall(counts.data(), 1, MPI_INT, incoming.data(), 1, MPI_INT, MPI_COMM_WORLD);
    int total = 0;
    for (int r = 0, sent = 0; r < size_; r++) {
      starts[r] = sent;
      sent += counts[r];
      offsets[r] = total;
      total += incoming[r];
    }
    std::vector<uint64_t> sorted(words.size()), received(total);
    std::vector<int> next(starts);
    for (uint64_t w : words) sorted[next[owner_of(w)]++] = w;
    MPI_Alltoallv(sorted.data(), counts.data(), starts.data(), MPI_UINT64_T, received.data(),
                  incoming.data(), offsets.data(), MPI_UINT64_T, MPI_COMM_WORLD);
    return received;
  }
};

__attribute__((noinline)) static long score(const std::vector<uint64_t> &words) {
  long vowels = 0;
  for (uint64_t w : words)
    for (int i = 0; i < 8; i++) vowels += ((w >> (8 * i)) & 0xff) % 5 == 0;
  return vowels;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  Text text;
  Table table;
  Router router;
  long total = 0;
  for (int block = 0; block < 25; block++) {
    auto words = text.read(20000, block);
    total += score(words);
    table.insert(router.route(words));
  }
  long distinct = (long)table.distinct(), all[2] = {total, distinct};
  MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (!rank_) std::printf("%ld %ld\n", all[0], all[1]);
  MPI_Finalize();
}
