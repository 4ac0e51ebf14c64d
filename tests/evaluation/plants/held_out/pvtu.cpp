// Rank 0 writes an index of all pieces, and copies the text so far for each of them.
#include <mpi.h>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

static int rank, size;
static bool repaired;

__attribute__((noinline)) static std::string add_piece(const std::string &text, int piece) {
  return text + "<Piece Source=\"output/step/data_" + std::to_string(1000000 + piece) +
         ".vtu\" compression=\"none\" order=\"little\"/>\n";
}

__attribute__((noinline)) static std::size_t write_index() {
  std::string text = "<VTKFile type=\"PUnstructuredGrid\">\n";
  int pieces = repaired ? 4 : size;
  for (int piece = 0; piece < 24 * pieces; piece++) text = add_piece(text, piece);
  std::ofstream file("/dev/null");
  file << text;
  return text.size();
}

__attribute__((noinline)) static double advance(std::vector<double> &v) {
  double sum = 0;
  for (int sweep = 0; sweep < 20; sweep++)
    for (std::size_t i = 1; i < v.size(); i++) sum += v[i] = std::sqrt(v[i] + v[i - 1]);
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !std::strcmp(argv[argc - 1], "repaired");
  std::vector<double> v(20000, 1.0);
  for (int step = 0; step < 40; step++) {
    double sum = advance(v), total;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) write_index();
  }
  MPI_Finalize();
}
