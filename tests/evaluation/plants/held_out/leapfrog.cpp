// Strong scaling: rank r takes each p-th random number of one stream and steps the generator over the
// others, so that each rank steps through the numbers of all. Repaired: a stream per rank.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mpi.h>

struct Stream {
  uint64_t state;
  double next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) * 0x1p-53;
  }
};

__attribute__((noinline)) void leap(Stream &stream, int count) {
  for (int i = 0; i < count; i++) stream.next();
}

__attribute__((noinline)) double follow_path(double x) {
  for (int i = 0; i < 3; i++) x = std::fabs(std::sin(3.1 * x + 0.01 * i));
  return x;
}

double sample_paths(Stream &stream, long samples, int skipped) {
  double sum = 0;
  for (long i = 0; i < samples; i++) {
    sum += follow_path(stream.next());
    leap(stream, skipped);
  }
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  bool repaired = argc > 1 && !std::strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long samples = 4000000;
  double sum = 0, total;
  Stream stream{88172645463325252ull + (repaired ? 977ull * rank : 0)};
  if (!repaired) leap(stream, rank);
  for (int step = 0; step < 10; step++) {
    long mine = samples / size + (rank < samples % size);
    sum += sample_paths(stream, mine, repaired ? 0 : size - 1);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return total < 0;
}
