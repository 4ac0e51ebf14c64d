// Strong scaling: each rank finds the neighbours of all cells of the mesh, whichever it owns.
#include <mpi.h>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <vector>

constexpr long EDGE = 96, CELLS = EDGE * EDGE;
static int rank, size;
static bool repaired;

__attribute__((noinline)) static long match_faces(long first, long last) {
  std::unordered_map<long, long> seen;
  long matched = 0;
  for (long cell = first; cell < last; cell++) {
    long row = cell / EDGE, column = cell % EDGE;
    long faces[4] = {2 * cell, 2 * cell + 1, 2 * ((row + 1) * EDGE + column),
                     2 * (row * EDGE + column + 1) + 1};
    for (long face : faces) matched += !seen.emplace(face, cell).second;
  }
  return matched;
}

__attribute__((noinline)) static double flux(std::vector<double> &u) {
  double sum = 0;
  for (int sweep = 0; sweep < 60; sweep++)
    for (std::size_t i = 1; i < u.size(); i++) sum += u[i] = 0.5 * (u[i] + std::sqrt(u[i - 1]));
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  long first = CELLS * rank / size, last = CELLS * (rank + 1) / size;
  std::vector<double> u(last - first, 1.0);
  for (int step = 0; step < 40; step++) {
    long matched = repaired ? match_faces(first, last) : match_faces(0, CELLS);
    double sum = flux(u) + double(matched), total;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
