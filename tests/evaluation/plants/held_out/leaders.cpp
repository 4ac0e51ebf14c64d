// Residuals are added in two levels, by leaders of four ranks each: rank 0 receives from all leaders.
// Repaired: a binomial tree.
#include <cstring>
#include <mpi.h>
#include <vector>

constexpr int WIDTH = 4, BLOCK = 500;

void add(std::vector<double> &sum, const std::vector<double> &other) {
  for (int i = 0; i < BLOCK; i++) sum[i] += other[i];
}

void sum_by_leaders(std::vector<double> &sum, int rank, int size) {
  std::vector<double> other(BLOCK);
  int leader = rank - rank % WIDTH;
  if (rank != leader) {
    MPI_Send(sum.data(), BLOCK, MPI_DOUBLE, leader, 1, MPI_COMM_WORLD);
  } else {
    for (int r = leader + 1; r < leader + WIDTH && r < size; r++) {
      MPI_Recv(other.data(), BLOCK, MPI_DOUBLE, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add(sum, other);
    }
    if (rank) MPI_Send(sum.data(), BLOCK, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
    else
      for (int r = WIDTH; r < size; r += WIDTH) {
        MPI_Recv(other.data(), BLOCK, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        add(sum, other);
      }
  }
}

void sum_by_tree(std::vector<double> &sum, int rank, int size) {
  std::vector<double> other(BLOCK);
  for (int stride = 1; stride < size; stride *= 2) {
    if (rank % (2 * stride)) {
      MPI_Send(sum.data(), BLOCK, MPI_DOUBLE, rank - stride, 3, MPI_COMM_WORLD);
      return;
    }
    if (rank + stride < size) {
      MPI_Recv(other.data(), BLOCK, MPI_DOUBLE, rank + stride, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      add(sum, other);
    }
  }
}

void smooth(std::vector<double> &field) {
  for (int sweep = 0; sweep < 150; sweep++)
    for (size_t i = 1; i + 1 < field.size(); i++) field[i] = 0.3 * field[i - 1] + 0.4 * field[i] + 0.3 * field[i + 1];
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  bool repaired = argc > 1 && !std::strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<double> field(5000, rank), sum(BLOCK);
  for (int step = 0; step < 100; step++) {
    smooth(field);
    for (int i = 0; i < BLOCK; i++) sum[i] = field[10 * i];
    if (repaired) sum_by_tree(sum, rank, size);
    else sum_by_leaders(sum, rank, size);
    MPI_Bcast(sum.data(), BLOCK, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    field[0] = sum[0] / size;
  }
  MPI_Finalize();
  return 0;
}
