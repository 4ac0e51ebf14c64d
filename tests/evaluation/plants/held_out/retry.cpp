// All ranks change one value on rank 0 by compare-and-swap, and try again when another rank was faster.
#include <mpi.h>
#include <vector>
static std::vector<double> field(20000);
__attribute__((noinline)) double relax(int rounds) {
  for (int k = 0; k < rounds; k++)
    for (int i = 1; i < 19999; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]);
  return field[100];
}
__attribute__((noinline)) void add_retrying(MPI_Win win, long amount) {
  for (;;) {
    long old, seen, dummy = 0;
    MPI_Fetch_and_op(&dummy, &old, MPI_LONG, 0, 0, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    long next = old + amount;
    MPI_Compare_and_swap(&next, &old, &seen, MPI_LONG, 0, 0, win);
    MPI_Win_flush(0, win);
    if (seen == old) return;
  }
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long *sum, all;
  MPI_Win win;
  MPI_Win_allocate(sizeof *sum, sizeof *sum, MPI_INFO_NULL, MPI_COMM_WORLD, &sum, &win);
  *sum = 0;
  MPI_Win_lock_all(0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 0; step < 20; step++) {
    relax(100);
    long mine = rank + 1;
    if (argc > 1) {
      MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    } else {
      for (int i = 0; i < 20; i++) add_retrying(win, mine);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  MPI_Finalize();
}
