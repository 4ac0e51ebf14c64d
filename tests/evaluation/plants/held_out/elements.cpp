// Assembly of a fixed mesh: each rank visits all elements and skips those of others. Repaired: it has a list of its own.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <vector>
struct Element {
  int nodes[4];
  int owner;
  double volume;
};
class Mesh {
public:
  Mesh(int count, int rank, int size) : rank_(rank), elements_(count) {
    for (int e = 0; e < count; e++) {
      elements_[e] = {{e, e + 1, e + 2, e + 3}, int((long(e) * size) / count), 1.0 + e % 3};
      if (elements_[e].owner == rank) mine_.push_back(e);
    }
    residual.assign(count + 3, 0.0);
  }
  void assemble() {
    for (const Element &element : elements_) {
      double quality = shape(element);
      if (quality < 1) poor++;
      if (element.owner != rank_) continue;
      add(element, quality);
    }
  }
  void assemble_own() {
    for (int e : mine_) add(elements_[e], shape(elements_[e]));
  }
  std::vector<double> residual;
  int poor = 0;

private:
  static double shape(const Element &element) {
    double sum = 0;
    for (int node : element.nodes) sum += std::sqrt(1.0 + 1e-3 * node) * element.volume;
    return sum;
  }
  void add(const Element &element, double quality) {
    for (int quad = 0; quad < 6; quad++)
      for (int node : element.nodes) residual[node] += std::sqrt(quality + 0.1 * quad) * 1e-3;
  }
  int rank_;
  std::vector<Element> elements_;
  std::vector<int> mine_;
};
static double norm(const std::vector<double> &values) {
  double mine = values[values.size() / 2], total;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool repaired = argc > 1 && !strcmp(argv[1], "repaired");
  Mesh mesh(200000, rank, size);
  double total = 0;
  for (int iteration = 0; iteration < 60; iteration++) {
    if (repaired) mesh.assemble_own();
    else mesh.assemble();
    total = norm(mesh.residual);
  }
  if (rank == 0) printf("%g, %d poor\n", total, mesh.poor);
  MPI_Finalize();
}
