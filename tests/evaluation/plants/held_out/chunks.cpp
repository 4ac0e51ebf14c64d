// Each rank cuts its cells into as many chunks as there are ranks, so that they could migrate.
#include <memory>
#include <mpi.h>
#include <vector>
struct Chunk {
  std::vector<double> ghosts, cells;
  explicit Chunk(int n) : ghosts(4096, 0.0), cells(n, 1.0) {
  }
};
__attribute__((noinline)) double advance(Chunk &chunk) {
  double sum = 0;
  for (double &ghost : chunk.ghosts) ghost = 0.5 * ghost + 1;
  for (std::size_t i = 1; i < chunk.cells.size(); i++)
    sum += chunk.cells[i] = 0.5 * (chunk.cells[i] + chunk.cells[i - 1]);
  return sum + chunk.ghosts[1];
}
__attribute__((noinline)) double advance_all(std::vector<std::unique_ptr<Chunk>> &chunks) {
  double sum = 0;
  for (auto &chunk : chunks) sum += advance(*chunk);
  return sum;
}
__attribute__((noinline)) std::vector<std::unique_ptr<Chunk>> decompose(int count, int cells) {
  std::vector<std::unique_ptr<Chunk>> chunks;
  for (int i = 0; i < count; i++) chunks.push_back(std::make_unique<Chunk>(cells / count));
  return chunks;
}
int main(int argc, char **argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto chunks = decompose(argc > 1 ? 4 : 2 * size, 96000);
  for (int step = 0; step < 100; step++) {
    double sum = advance_all(chunks), all;
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
