/* Ranks that arrive late at collective calls, and print how long they had to wait. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
#define TIMES 4
#define LATE_MS 40
#define MANY 12000
#define MOST 8

static int rank, size;

/* Asks the kernel, so that all ranks see one clock even if their libraries see several. */
static double now(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double last(const double *begins, int from, int to) {
  double found = 0;
  for (int i = from; i < to; i++)
    if (begins[i] > found) found = begins[i];
  return found;
}

static void come_late(void) {
  nanosleep(&(struct timespec){0, LATE_MS * 1000000L * rank}, NULL);
}

/* Rank k arrives k times LATE_MS late; CAME is the latest arrival that it has to wait for. It waits from the moment on
 * at which it entered the call that waits, which may be later. */
#define LATE(NAME, COMM, CALL, CAME)                                                 \
  {                                                                                  \
    double waited = 0, begins[MOST];                                                 \
    int me, all;                                                                     \
    for (int i = 0; i < TIMES; i++) {                                                \
      MPI_Comm_rank(COMM, &me);                                                      \
      MPI_Comm_size(COMM, &all);                                                     \
      MPI_Barrier(W);                                                                \
      come_late();                                                                   \
      double begin = now(), entered = begin;                                         \
      CALL;                                                                          \
      MPI_Allgatherv(&begin, 1, MPI_DOUBLE, begins, ones, places, MPI_DOUBLE, COMM); \
      double came = CAME;                                                            \
      if (came > entered) waited += came - entered;                                  \
    }                                                                                \
    printf("%s %d %.6f\n", "MPI_" NAME, rank, waited);                               \
  }

int main(int argc, char **argv) {
  MPI_Comm half, twin;
  MPI_Request request;
  double one = 1, two, many[MOST] = {0}, more[MOST];
  int ones[MOST], places[MOST];
  for (int i = 0; i < MOST; i++) ones[i] = 1, places[i] = i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  MPI_Comm_split(W, rank % 2, -rank, &half); /* in reverse order */
  LATE("Allreduce", W, MPI_Allreduce(&one, &two, 1, MPI_DOUBLE, MPI_SUM, W), last(begins, 0, all))
  LATE("Bcast", W, MPI_Bcast(&one, 1, MPI_DOUBLE, 1, W), me == 1 ? 0 : begins[1])
  LATE("Reduce", W, MPI_Reduce(&one, &two, 1, MPI_DOUBLE, MPI_SUM, 1, W), me == 1 ? last(begins, 0, all) : 0)
  LATE("Scan", half, MPI_Scan(&one, &two, 1, MPI_DOUBLE, MPI_SUM, half), last(begins, 0, me + 1))
  LATE("Allgather", half, MPI_Allgather(&one, 1, MPI_DOUBLE, many, 1, MPI_DOUBLE, half), last(begins, 0, all))
  LATE("Wait", W,
       (MPI_Iallreduce(&one, &two, 1, MPI_DOUBLE, MPI_SUM, W, &request),
        nanosleep(&(struct timespec){0, LATE_MS / 4 * 1000000L}, NULL), entered = now(),
        MPI_Wait(&request, MPI_STATUS_IGNORE)),
       last(begins, 0, all))
  for (int i = 0; i < MANY; i++) MPI_Exscan(&one, &two, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
  for (int i = 0; i < MANY; i++) MPI_Reduce_scatter_block(many, &one, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
  /* among thousands of other calls, each time in a new communicator, whose handle may have been used before */
  LATE("Alltoall", W,
       (MPI_Comm_dup(W, &twin), come_late(), entered = begin = now(),
        MPI_Alltoall(many, 1, MPI_DOUBLE, more, 1, MPI_DOUBLE, twin), MPI_Comm_free(&twin)),
       last(begins, 0, all))
  MPI_Finalize();
  return 0;
}
