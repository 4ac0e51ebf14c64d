// Two limits: each rank receives the elite of all ranks, and compares all pairs of it. Repaired: the
// elite of two neighbours.
#include <cmath>
#include <cstring>
#include <mpi.h>
#include <vector>

constexpr int ELITE = 40, GENES = 50, WORDS = GENES + 3;

void evaluate(double *individual) {
  double a = 0, b = 0, c = 0;
  for (int k = 0; k < 12; k++)
    for (int g = 0; g < GENES; g++) {
      double x = individual[3 + g];
      a += x * x;
      b += std::fabs(x - 0.5);
      c += std::sin(9 * x + k);
    }
  individual[0] = a;
  individual[1] = b;
  individual[2] = c;
}

void collect_elites(std::vector<double> &all, const std::vector<double> &mine) {
  MPI_Allgather(mine.data(), ELITE * WORDS, MPI_DOUBLE, all.data(), ELITE * WORDS, MPI_DOUBLE, MPI_COMM_WORLD);
}

void collect_nearby(std::vector<double> &all, const std::vector<double> &mine, int rank, int size) {
  const int n = ELITE * WORDS, left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Sendrecv(mine.data(), n, MPI_DOUBLE, right, 0, all.data(), n, MPI_DOUBLE, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(mine.data(), n, MPI_DOUBLE, left, 1, all.data() + n, n, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

__attribute__((noinline)) int rank_front(const std::vector<double> &all, int count) {
  int front = 0;
  for (int i = 0; i < count; i++) {
    int dominated = 0;
    for (int j = 0; j < count; j++) {
      const double *a = &all[(size_t)i * WORDS], *b = &all[(size_t)j * WORDS];
      dominated += b[0] < a[0] && b[1] < a[1] && b[2] < a[2];
    }
    front += dominated == 0;
  }
  return front;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  bool repaired = argc > 1 && !std::strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int islands = repaired ? 2 : size;
  std::vector<double> mine(ELITE * WORDS), all((size_t)islands * ELITE * WORDS);
  unsigned state = 7u * rank + 1;
  long front = 0;
  for (int generation = 0; generation < 30; generation++) {
    for (int i = 0; i < ELITE; i++) {
      for (int g = 0; g < GENES; g++) {
        state = state * 1664525u + 1013904223u;
        mine[i * WORDS + 3 + g] = (state >> 8) * 0x1p-24;
      }
      for (int k = 0; k < 8; k++) evaluate(&mine[i * WORDS]);
    }
    if (repaired) collect_nearby(all, mine, rank, size);
    else collect_elites(all, mine);
    front += rank_front(all, islands * ELITE);
  }
  MPI_Finalize();
  return front == 0;
}
