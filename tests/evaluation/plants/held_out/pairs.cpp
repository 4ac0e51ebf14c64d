// Two parameters: n bodies in each rank, and each looks at all others of the rank. Repaired: at those of its cell and the two
// beside it. Usage: pairs N [repaired]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mpi.h>
#include <vector>
struct Body {
  double x, v, f;
};
static double interact(const Body &a, const Body &b) {
  double d = a.x - b.x;
  return std::fabs(d) < 1e-3 ? d / (1e-6 + d * d) : 0.0;
}
static void find_pairs(std::vector<Body> &bodies) {
  for (auto &a : bodies) {
    a.f = 0;
    for (const auto &b : bodies) a.f += interact(a, b);
  }
}
static void find_pairs_by_cells(std::vector<Body> &bodies) {
  std::sort(bodies.begin(), bodies.end(), [](const Body &a, const Body &b) { return a.x < b.x; });
  long n = long(bodies.size());
  for (long i = 0; i < n; i++) {
    bodies[i].f = 0;
    for (long j = std::max(0L, i - 40); j < std::min(n, i + 40); j++) bodies[i].f += interact(bodies[i], bodies[j]);
  }
}
static void move(std::vector<Body> &bodies) {
  for (int k = 0; k < 100; k++)
    for (auto &body : bodies) {
      body.v += 1e-9 * body.f;
      body.x = std::fabs(std::fmod(body.x + 1e-5 * body.v, 1.0));
    }
}
static void migrate(std::vector<Body> &bodies, int rank, int size) {
  std::vector<Body> in(10);
  MPI_Sendrecv(bodies.data(), 30, MPI_DOUBLE, (rank + 1) % size, 5, in.data(), 30, MPI_DOUBLE, (rank + size - 1) % size,
               5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::copy(in.begin(), in.end(), bodies.begin());
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, n = atoi(argv[1]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Body> bodies(n);
  srand(rank);
  for (auto &body : bodies) body = {rand() / double(RAND_MAX), 0, 0};
  bool by_cells = argc > 2 && !strcmp(argv[2], "repaired");
  for (int step = 0; step < 30; step++) {
    if (by_cells) find_pairs_by_cells(bodies);
    else find_pairs(bodies);
    move(bodies);
    migrate(bodies, rank, size);
  }
  double mine = bodies[0].x, sum;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%g\n", sum);
  MPI_Finalize();
}
