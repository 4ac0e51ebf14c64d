// Each rank writes a small file in each step.
#include <fstream>
#include <mpi.h>
#include <string>
#include <vector>
struct Dumper {
  int rank;
  std::vector<double> data;
  void dump(int step) {
    std::ofstream out("dump." + std::to_string(step) + "." + std::to_string(rank));
    out.write(reinterpret_cast<char *>(data.data()), data.size() * 8);
  }
  void reduce(int) {
    double s = 0, t;
    for (double d : data) s += d;
    MPI_Reduce(&s, &t, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  }
};
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Dumper d{rank, std::vector<double>(2000, rank)};
  for (int step = 0; step < 20; step++) {
    for (int k = 0; k < 200; k++)
      for (auto &x : d.data) x = 0.5 * x + 1;
    if (argc > 1) d.reduce(step);
    else d.dump(step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
