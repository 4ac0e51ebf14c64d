// No limit: halos by one-sided calls between neighbours, a tree of own messages for the sum, and a
// file per four ranks that one of them writes.
#include <cstdio>
#include <mpi.h>
#include <string>
#include <unistd.h>
#include <vector>

constexpr int CELLS = 4000;

double sum_by_tree(double sum, int rank, int size) {
  double other;
  int stride = 1;
  for (; stride < size; stride *= 2) {
    if (rank % (2 * stride)) {
      MPI_Send(&sum, 1, MPI_DOUBLE, rank - stride, 3, MPI_COMM_WORLD);
      break;
    }
    if (rank + stride < size) {
      MPI_Recv(&other, 1, MPI_DOUBLE, rank + stride, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      sum += other;
    }
  }
  MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return sum;
}

void put_edges(MPI_Win window, MPI_Group around, std::vector<double> &field, int left, int right) {
  MPI_Win_post(around, 0, window);
  MPI_Win_start(around, 0, window);
  MPI_Put(&field[1], 1, MPI_DOUBLE, left, 1, 1, MPI_DOUBLE, window);
  MPI_Put(&field[CELLS - 2], 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, window);
  MPI_Win_complete(window);
  MPI_Win_wait(window);
}

void advance(std::vector<double> &field) {
  for (int sweep = 0; sweep < 200; sweep++)
    for (int i = 1; i < CELLS - 1; i++) field[i] = 0.25 * field[i - 1] + 0.5 * field[i] + 0.25 * field[i + 1];
}

void write_group(MPI_Comm group, std::vector<double> &field) {
  int rank, size;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &size);
  std::vector<double> all(rank ? 0 : size * 100);
  MPI_Gather(field.data(), 100, MPI_DOUBLE, all.data(), 100, MPI_DOUBLE, 0, group);
  if (rank) return;
  std::string path = "group-" + std::to_string(getpid()) + ".bin";
  if (FILE *file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(all.data(), 8, all.size(), file);
    std::fclose(file);
  }
  unlink(path.c_str());
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int left = (rank + size - 1) % size, right = (rank + 1) % size, around[2] = {left, right};
  double *halo;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &halo, &window);
  MPI_Group world, neighbours;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, left == right ? 1 : 2, around, &neighbours);
  MPI_Comm group;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 4, rank, &group);
  std::vector<double> field(CELLS, rank);
  for (int step = 0; step < 40; step++) {
    put_edges(window, neighbours, field, left, right);
    field[0] = halo[0];
    field[CELLS - 1] = halo[1];
    advance(field);
    field[5] = sum_by_tree(field[7], rank, size) / size;
    if (step % 20 == 0) write_group(group, field);
  }
  MPI_Comm_free(&group);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
