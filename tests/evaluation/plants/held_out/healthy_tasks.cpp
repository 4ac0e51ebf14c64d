// Nothing grows: a pool of threads in each rank, tasks of unequal size, an all-reduce of 16 values.
#include <mpi.h>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

constexpr int TASKS = 24;
static int rank, size;
static std::atomic<int> next;

__attribute__((noinline)) static double run_task(int task) {
  double sum = 0;
  int steps = 4000 + 500 * ((task * 7 + rank) % 5);
  for (int i = 1; i < steps; i++) sum += std::sqrt(double(i + task));
  return sum;
}

__attribute__((noinline)) static void work(double *result) {
  for (int task = next++; task < TASKS; task = next++) *result += run_task(task);
}

__attribute__((noinline)) static void reduce(double *values) {
  MPI_Allreduce(MPI_IN_PLACE, values, 16, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int step = 0; step < 25; step++) {
    double results[16] = {0};
    next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) threads.emplace_back(work, &results[8 * i]);
    for (auto &thread : threads) thread.join();
    reduce(results);
  }
  MPI_Finalize();
}
