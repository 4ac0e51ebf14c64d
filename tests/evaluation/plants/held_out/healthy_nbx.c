/* Nothing grows: messages to four ranks that nobody expects, until a barrier says that all came. */
#include <mpi.h>
#include <math.h>
#include <string.h>

#define PARTNERS 4
#define VALUES 256

static int rank, size;

static __attribute__((noinline)) double take_message(MPI_Status *status) {
  double values[VALUES];
  MPI_Recv(values, VALUES, MPI_DOUBLE, status->MPI_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return values[0];
}

static __attribute__((noinline)) double exchange(const double *values, int step) {
  MPI_Request sends[PARTNERS], barrier;
  for (int i = 0; i < PARTNERS; i++)
    MPI_Issend(values, VALUES, MPI_DOUBLE, (rank + 1 + (step * 5 + i * 3) % 7) % size, 1,
               MPI_COMM_WORLD, &sends[i]);
  double sum = 0;
  int started = 0, done = 0;
  while (!done) {
    int flag;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status);
    if (flag) sum += take_message(&status);
    if (started) {
      MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    } else {
      MPI_Testall(PARTNERS, sends, &started, MPI_STATUSES_IGNORE);
      if (started) MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    }
  }
  return sum;
}

static __attribute__((noinline)) void advance(double *values, double sum) {
  for (int sweep = 0; sweep < 300; sweep++)
    for (int i = 0; i < VALUES; i++) values[i] = sin(values[i] + 1e-9 * sum);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double values[VALUES];
  for (int i = 0; i < VALUES; i++) values[i] = i + rank;
  for (int step = 0; step < 40; step++) advance(values, exchange(values, step));
  MPI_Finalize();
}
