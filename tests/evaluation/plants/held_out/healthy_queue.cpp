// No limit: rank 0 hands out a number of tasks that does not depend on the number of ranks, one at a time.
#include <cmath>
#include <cstdio>
#include <mpi.h>
#include <vector>
static int rank_, size_;
static double integrate(int task) {
  double sum = 0;
  for (int i = 0; i < 120000; i++) sum += std::sqrt(1.0 + i * 1e-5 * task);
  return sum;
}
static double serve(int tasks) {
  double total = 0, value;
  MPI_Status status;
  int next = 0, stopped = 0;
  while (stopped < size_ - 1) {
    MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    total += value;
    int task = next < tasks ? next++ : -1;
    if (task < 0) stopped++;
    MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
  }
  return total;
}
static void work() {
  double value = 0;
  int task = 0;
  while (task >= 0) {
    MPI_Send(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(&task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    value = task < 0 ? 0 : integrate(task);
  }
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  double total = 0;
  if (size_ == 1)
    for (int task = 0; task < 3000; task++) total += integrate(task);
  else if (rank_ == 0)
    total = serve(3000);
  else
    work();
  if (rank_ == 0) printf("%g\n", total);
  MPI_Finalize();
}
