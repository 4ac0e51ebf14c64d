/* A ticket lock in a window of rank 0 protects a total, to which each rank adds in each step. */
#include <mpi.h>
#include <math.h>
#include <string.h>

static int rank, size, repaired;
static MPI_Win window;
static long *words; /* next ticket, ticket being served, total */

static __attribute__((noinline)) long add_to_word(long value, int word) {
  long before;
  MPI_Fetch_and_op(&value, &before, MPI_LONG, 0, word, MPI_SUM, window);
  MPI_Win_flush(0, window);
  return before;
}

static __attribute__((noinline)) void acquire(void) {
  long ticket = add_to_word(1, 0);
  while (add_to_word(0, 1) != ticket)
    ;
}

static __attribute__((noinline)) void add_total(long value) {
  if (repaired) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
  acquire();
  long total = add_to_word(0, 2);
  total += value;
  MPI_Put(&total, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
  MPI_Win_flush(0, window);
  add_to_word(1, 1);
}

static __attribute__((noinline)) double integrate(int step) {
  double sum = 0;
  for (int i = 1; i < 200000; i++) sum += sqrt((double)i + step + rank);
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  MPI_Win_allocate(rank ? 0 : 3 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &words, &window);
  if (rank == 0) memset(words, 0, 3 * sizeof(long));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int step = 0; step < 15; step++) {
    double sum = integrate(step);
    add_total((long)sum);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
}
