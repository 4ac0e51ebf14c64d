// Each thread counts its particles in bins for the cells of all ranks, and adds these to those of
// its rank in turn. Repaired: in bins for the cells of its rank.
#include <mpi.h>
#include <vector>
static const int CELLS = 3000, PARTICLES = 20000, THREADS = 2;
struct Field {
  int rank, size;
  bool repaired;
  std::vector<int> where;
  std::vector<float> density;
  Field(int rank, int size, bool repaired)
      : rank(rank), size(size), repaired(repaired), where(PARTICLES), density(CELLS) {
    for (int i = 0; i < PARTICLES; i++) where[i] = (i * 7919L + rank) % CELLS;
  }
  __attribute__((noinline)) void deposit() {
    int first = repaired ? 0 : rank * CELLS, bins = repaired ? CELLS : size * CELLS;
#pragma omp parallel num_threads(THREADS)
    {
      std::vector<float> mine(bins, 0.0f);
#pragma omp for
      for (int i = 0; i < PARTICLES; i++) mine[first + where[i]] += 0.5f;
#pragma omp critical
      for (int i = 0; i < bins; i++) density[i % CELLS] += mine[i];
    }
  }
  __attribute__((noinline)) float push() {
    for (int &cell : where) cell = (cell + 1 + (density[cell] > 30)) % CELLS;
    return density[rank % CELLS];
  }
};
int main(int argc, char **argv) {
  int rank, size, provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Field field(rank, size, argc > 1);
  for (int step = 0; step < 40; step++) {
    field.deposit();
    float mine = field.push(), all;
    MPI_Allreduce(&mine, &all, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
