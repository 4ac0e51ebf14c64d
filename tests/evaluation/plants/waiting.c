/* Ranks take turns to come late to MPI calls. Prints how long each rank had to wait, by the times at which the ranks
 * entered. All ranks run on one node. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define WORLD MPI_COMM_WORLD
#define STEPS 24
#define LATE_MS 20
#define MAX_RANKS 16

static int rank, size;
static double entered[STEPS], all_entered[MAX_RANKS][STEPS];
static double sent[2] = {1, 1}, received[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Start step `step` together, one rank late. */
static void come_late(int step) {
  MPI_Barrier(WORLD);
  if (step % size == rank) nanosleep(&(struct timespec){0, LATE_MS * 1000000L}, NULL);
  entered[step] = now();
}

/* Print how long this rank waited for the last of the ranks in `needed`, one bit each. */
static void print_waiting(const char *scene, const char *call, unsigned needed) {
  double waited = 0;
  MPI_Allgather(entered, STEPS, MPI_DOUBLE, all_entered, STEPS, MPI_DOUBLE, WORLD);
  for (int step = 0; step < STEPS; step++) {
    double last = entered[step];
    for (int i = 0; i < size; i++)
      if (needed >> i & 1 && all_entered[i][step] > last) last = all_entered[i][step];
    waited += last - entered[step];
  }
  printf("WAITED %s %s %d %.6f\n", scene, call, rank, waited);
}

#define SCENE(NAME, CALL, NEEDED, ...)                     \
  static void __attribute__((noinline)) NAME(MPI_Comm c) { \
    for (int step = 0; step < STEPS; step++) {             \
      come_late(step);                                     \
      __VA_ARGS__;                                         \
    }                                                      \
    print_waiting(#NAME, "MPI_" #CALL, NEEDED);            \
  }

#define EVERYBODY ((1u << size) - 1)
#define BOTH_SIDES (1u << (rank + 1) % size | 1u << (rank + size - 1) % size)
#define DOUBLES(count) count, MPI_DOUBLE

SCENE(reduction, Allreduce, EVERYBODY, MPI_Allreduce(sent, received, DOUBLES(1), MPI_SUM, c))
SCENE(broadcast, Bcast, rank ? 1 : 0, MPI_Bcast(sent, DOUBLES(1), 0, c))
SCENE(scan, Scan, (1u << rank) - 1, MPI_Scan(sent, received, DOUBLES(1), MPI_SUM, c))
SCENE(neighbours, Neighbor_alltoall, BOTH_SIDES, MPI_Neighbor_alltoall(sent, DOUBLES(1), received, DOUBLES(1), c))
SCENE(late_sender, Recv, rank ? 0 : 2, if (rank == 0) MPI_Recv(received, DOUBLES(1), 1, 3, c, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(sent, DOUBLES(1), 0, 3, c))
SCENE(late_receiver, Ssend, rank ? 0 : 2, if (rank == 0) MPI_Ssend(sent, DOUBLES(1), 1, 4, c);
      if (rank == 1) MPI_Recv(received, DOUBLES(1), 0, 4, c, MPI_STATUS_IGNORE))
SCENE(non_blocking, Wait, EVERYBODY, MPI_Request request;
      MPI_Iallreduce(sent, received, DOUBLES(1), MPI_SUM, c, &request); MPI_Wait(&request, MPI_STATUS_IGNORE))
SCENE(duplicate, Comm_dup, EVERYBODY, MPI_Comm twin; MPI_Comm_dup(c, &twin); MPI_Comm_free(&twin))

int main(int argc, char **argv) {
  MPI_Comm ring;
  int is_closed = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(WORLD, &rank);
  MPI_Comm_size(WORLD, &size);
  MPI_Cart_create(WORLD, 1, &size, &is_closed, 0, &ring);
  reduction(WORLD);
  broadcast(WORLD);
  scan(WORLD);
  neighbours(ring);
  late_sender(WORLD);
  late_receiver(WORLD);
  non_blocking(WORLD);
  duplicate(WORLD);
  MPI_Finalize();
  return 0;
}
