/* Ranks that arrive late at collective calls, for known reasons. Each scene is a function. */
#include <mpi.h>
#include <time.h>

#define W MPI_COMM_WORLD
#define TIMES 12

static int rank, size;
static double value = 1, sum;

static void rest(double ms) {
  nanosleep(&(struct timespec){0, (long)(ms * 1e6)}, NULL);
}

static void work(void) {
  rest(2);
}

static void assemble(double ms) {
  rest(ms);
}

static void filter(double ms) {
  rest(ms);
}

static void add_all(MPI_Comm comm) {
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static void even(void) {
  for (int i = 0; i < TIMES; i++) work(), MPI_Barrier(W);
}

/* The last rank is late, and works after its delay as the others do. */
static void fixed(void) {
  for (int i = 0; i < TIMES; i++) {
    if (rank == size - 1) assemble(40);
    work();
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, W);
  }
}

/* Ranks take turns in being late; the others do the same as they all do in total. */
static void rotating(void) {
  for (int i = 0; i < TIMES; i++) {
    assemble(rank == i % size ? 48 : 8);
    work();
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, W);
  }
}

/* Two causes, 60 : 40. */
static void two(void) {
  for (int i = 0; i < TIMES; i++) {
    if (rank == 0) assemble(36), filter(24);
    work();
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, W);
  }
}

/* Rare and long: 3 of 12 iterations cause all the waiting. */
static void rare(void) {
  for (int i = 0; i < TIMES; i++) {
    work();
    if (i % 4 == 2 && rank == 1) filter(160);
    MPI_Alltoall(&value, 0, MPI_DOUBLE, &sum, 0, MPI_DOUBLE, W); /* nobody needs anybody */
    MPI_Barrier(W);
  }
}

/* The last rank waits for rank 1 in a reduction, and all ranks for rank 0 in a broadcast. */
static void rooted(void) {
  for (int i = 0; i < TIMES; i++) {
    if (rank == 0) assemble(30);
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, W);
    work();
    if (rank == 1) filter(30);
    MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, size - 1, W);
    MPI_Barrier(W);
  }
}

/* Rank 0 delays rank 1 in a communicator of these two, and then all ranks wait for one of them. */
static void chain(MPI_Comm first_two) {
  for (int i = 0; i < TIMES; i++) {
    if (rank == 0) assemble(40);
    if (rank < 2) add_all(first_two);
    work();
    MPI_Barrier(W);
  }
}

/* Rank 0 delays its message to rank 1. */
static void passing(void) {
  for (int i = 0; i < TIMES; i++) {
    if (rank == 0) assemble(40), MPI_Send(&value, 1, MPI_DOUBLE, 1, 3, W);
    if (rank == 1) MPI_Recv(&sum, 1, MPI_DOUBLE, 0, 3, W, MPI_STATUS_IGNORE);
    MPI_Barrier(W);
  }
}

int main(int argc, char **argv) {
  MPI_Comm first_two;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  MPI_Comm_split(W, rank < 2, rank, &first_two);
  even();
  MPI_Barrier(W);
  fixed();
  MPI_Barrier(W);
  rotating();
  MPI_Barrier(W);
  two();
  MPI_Barrier(W);
  rare();
  MPI_Barrier(W);
  rooted();
  MPI_Barrier(W);
  chain(first_two);
  MPI_Barrier(W);
  passing();
  MPI_Finalize();
  return 0;
}
