// A rank without tasks looks at the counters of all other ranks, one after the other, for tasks to
// steal. Repaired: it looks at two.
#include <cmath>
#include <cstring>
#include <mpi.h>

int *counter;
MPI_Win window;

int take_task(int victim) {
  const int minus = -1;
  int left = 0;
  MPI_Fetch_and_op(&minus, &left, MPI_INT, victim, 0, MPI_SUM, window);
  MPI_Win_flush(victim, window);
  return left > 0;
}

double run_task(double x) {
  for (int i = 0; i < 40000; i++) x = std::sin(x) + 0.001 * i;
  return x;
}

double steal_all(int rank, int size, int victims) {
  double sum = 0;
  for (int k = 0; k < victims && k < size; k++) {
    int victim = (rank + k) % size;
    while (take_task(victim)) sum += run_task(0.1 * victim);
  }
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  bool repaired = argc > 1 && !std::strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
  MPI_Win_lock_all(0, window);
  double sum = 0, total;
  for (int step = 0; step < 20; step++) {
    *counter = 12 + (rank * 7 + step) % 5;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    sum += steal_all(rank, size, repaired ? 3 : size);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
  return total < 0;
}
