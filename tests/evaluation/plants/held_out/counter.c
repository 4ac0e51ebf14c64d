/* Tasks are drawn from one counter on rank 0. */
#include <mpi.h>
#include <stdlib.h>
enum { TASKS_PER_RANK = 400 };
static double x[4000];
__attribute__((noinline)) static long next_task(MPI_Win win) {
  long one = 1, task;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Fetch_and_op(&one, &task, MPI_LONG, 0, 0, MPI_SUM, win);
  MPI_Win_unlock(0, win);
  return task;
}
__attribute__((noinline)) static double do_task(long task) {
  double s = 0;
  for (int r = 0; r < 20; r++)
    for (int i = 0; i < 4000; i++) {
      x[i] = 0.5 * x[i] + task;
      s += x[i];
    }
  return s;
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long *base;
  MPI_Win win;
  double s = 0, t;
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  *base = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1) {
    for (int i = 0; i < TASKS_PER_RANK; i++) s += do_task(i);
  } else
    for (long task; (task = next_task(win)) < (long)TASKS_PER_RANK * size;) s += do_task(task);
  MPI_Allreduce(&s, &t, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
