// Connected components of a mesh by label propagation: a label travels one rank per round. Repaired: the labels of the
// interfaces are united on a few rounds of pointer doubling.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <vector>

struct Strip {
  int rank, size;
  std::vector<long> labels;
  explicit Strip(int cells) : labels(cells) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  void number() {
    for (std::size_t i = 0; i < labels.size(); i++) labels[i] = long(rank) * long(labels.size()) + long(i);
  }
};

static bool propagate(Strip &strip, long from_left, long from_right) {
  bool changed = false;
  long label = std::min({from_left, from_right, *std::min_element(strip.labels.begin(), strip.labels.end())});
  for (int pass = 0; pass < 4; pass++)
    for (auto &mine : strip.labels)
      if (label < mine) {
        mine = label;
        changed = true;
      }
  return changed;
}

static void exchange(const Strip &strip, int distance, long &left, long &right) {
  int up = strip.rank + distance < strip.size ? strip.rank + distance : MPI_PROC_NULL;
  int down = strip.rank >= distance ? strip.rank - distance : MPI_PROC_NULL;
  left = right = 1L << 60;
  MPI_Sendrecv(&strip.labels.back(), 1, MPI_LONG, up, 7, &left, 1, MPI_LONG, down, 7, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(&strip.labels.front(), 1, MPI_LONG, down, 8, &right, 1, MPI_LONG, up, 8, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

static int label_components(Strip &strip, bool doubling) {
  strip.number();
  int rounds = 0, distance = 1;
  for (int any = 1; any; rounds++) {
    long left, right;
    exchange(strip, distance, left, right);
    int changed = propagate(strip, left, right);
    MPI_Allreduce(&changed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (doubling && 2 * distance < strip.size) distance *= 2;
  }
  return rounds;
}

static double diffuse(std::vector<double> &field) {
  for (int sweep = 0; sweep < 60; sweep++)
    for (std::size_t i = 1; i + 1 < field.size(); i++) field[i] += 0.2 * (field[i - 1] - 2 * field[i] + field[i + 1]);
  return field[field.size() / 2];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  bool doubling = argc > 1 && !strcmp(argv[1], "repaired");
  Strip strip(100000);
  std::vector<double> field(50000, 1.0);
  double value = 0;
  int rounds = 0;
  for (int step = 0; step < 12; step++) {
    value += diffuse(field);
    rounds = label_components(strip, doubling);
  }
  if (strip.rank == 0) printf("%d rounds, %g\n", rounds, value);
  MPI_Finalize();
}
