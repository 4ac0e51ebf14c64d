/* Messages with late senders and late receivers; prints how long each call had to wait, by its own stamps, and the sum
 * of squares of these times. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
#define TIMES 5
#define LATE_S 0.04
#define LARGE (1 << 20) /* doubles: no library buffers 8 MiB */

static int rank, many_times = 1500; /* the first word of the command line */
static double *large;
static MPI_Comm twin;
static MPI_Status status;

/* Asks the kernel, so that all ranks see one clock even if their libraries see several. */
static double now(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Asleep: others wait for as long, and leave the processor to other tests. */
static void work(double seconds) {
  double start = now();
  while (now() < start + seconds) usleep((useconds_t)(1e6 * (start + seconds - now())) + 1);
}

/* When this rank started its message and the call that completed it, and when that call ended. */
struct stamps {
  double posted, begin, end;
};
static struct stamps mine;

static void start(void) {
  mine.posted = mine.begin = now();
}

static void finish(void) {
  mine.end = now();
}

/* Add up how long this rank waited for the later of two others; -1 for none. */
static double waited_for(int first, int second) {
  struct stamps all[3];
  double ready = 0;
  MPI_Allgather(&mine, 3, MPI_DOUBLE, all, 3, MPI_DOUBLE, W);
  if (first >= 0) ready = all[first].posted;
  if (second >= 0 && all[second].posted > ready) ready = all[second].posted;
  double waited = ready - mine.begin;
  if (waited > mine.end - mine.begin) waited = mine.end - mine.begin;
  return waited > 0 ? waited : 0;
}

/* Rank WAITER executes WAITING, ranks 0 to 2 otherwise OTHERS; print the time that the former waited in CALL. */
#define SCENE(NAME, CALL, REPEAT, WAITER, FIRST, SECOND, WAITING, OTHERS)              \
  __attribute__((noinline)) static void NAME(void) {                                   \
    double waited = 0, squares = 0, value = rank;                                      \
    MPI_Request requests[2];                                                           \
    for (int i = 0; i < REPEAT; i++) {                                                 \
      MPI_Barrier(W);                                                                  \
      if (rank == WAITER) {                                                            \
        WAITING;                                                                       \
      } else {                                                                         \
        OTHERS;                                                                        \
      }                                                                                \
      double more = waited_for(rank == WAITER ? FIRST : -1, rank == WAITER ? SECOND : -1); \
      waited += more, squares += more * more;                                          \
    }                                                                                  \
    (void)value, (void)requests;                                                       \
    if (rank == WAITER)                                                                \
      printf("%s %s %d %.6f %.9f\n", #NAME, CALL, rank, waited, squares);              \
  }

SCENE(receive, "MPI_Recv", TIMES, 1, 0, -1,
      start(); MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, W, MPI_STATUS_IGNORE); finish(),
      if (rank == 0) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, W); })
SCENE(any, "MPI_Recv", TIMES, 1, 2, -1,
      start(); MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, MPI_STATUS_IGNORE); finish(),
      if (rank == 2) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 6, W); })
SCENE(all, "MPI_Waitall", TIMES, 1, 0, 2,
      double values[2]; MPI_Irecv(values, 1, MPI_DOUBLE, 0, 1, W, requests);
      MPI_Irecv(values + 1, 1, MPI_DOUBLE, 2, 2, W, requests + 1); start();
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); finish(),
      work(rank ? LATE_S : LATE_S / 2); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, rank ? 2 : 1, W))
SCENE(some, "MPI_Waitsome", TIMES, 1, 0, -1,
      double values[2]; int count; int indices[2]; MPI_Irecv(values, 1, MPI_DOUBLE, 0, 1, W, requests);
      MPI_Irecv(values + 1, 1, MPI_DOUBLE, 2, 2, W, requests + 1); start();
      MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE); finish();
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE),
      work(rank ? 2 * LATE_S : LATE_S / 2); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, rank ? 2 : 1, W))
SCENE(synchronous, "MPI_Ssend", TIMES, 0, 1, -1, start(); MPI_Ssend(&value, 1, MPI_DOUBLE, 1, 5, W); finish(),
      if (rank == 1) { work(LATE_S); start(); MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, W, MPI_STATUS_IGNORE); })
SCENE(large_send, "MPI_Send", TIMES, 0, 1, -1, start(); MPI_Send(large, LARGE, MPI_DOUBLE, 1, 5, W); finish(),
      if (rank == 1) { work(LATE_S); start(); MPI_Recv(large, LARGE, MPI_DOUBLE, 0, 5, W, MPI_STATUS_IGNORE); })
SCENE(small_send, "MPI_Send", TIMES, 0, -1, -1, start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, W); finish(),
      if (rank == 1) { work(LATE_S); MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, W, MPI_STATUS_IGNORE); })
SCENE(start_synchronous, "MPI_Wait", TIMES, 0, 1, -1,
      MPI_Issend(&value, 1, MPI_DOUBLE, 1, 5, W, requests); work(LATE_S / 2); start();
      MPI_Wait(requests, &status); finish(),
      if (rank == 1) {
        work(LATE_S); start(); MPI_Irecv(&value, 1, MPI_DOUBLE, 0, 5, W, requests);
        MPI_Wait(requests, &status);
      })
SCENE(exchange, "MPI_Sendrecv", TIMES, 0, 1, -1,
      start(); MPI_Sendrecv(&value, 1, MPI_DOUBLE, 1, 3, &mine.end, 1, MPI_DOUBLE, 1, 4, W, &status); finish(),
      if (rank == 1) {
        work(LATE_S); start();
        MPI_Sendrecv(&value, 1, MPI_DOUBLE, 0, 4, &mine.end, 1, MPI_DOUBLE, 0, 3, W, &status);
      })
SCENE(probe, "MPI_Probe", TIMES, 1, 0, -1,
      start(); MPI_Probe(MPI_ANY_SOURCE, 5, W, MPI_STATUS_IGNORE); finish();
      MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, W, MPI_STATUS_IGNORE),
      if (rank == 0) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, W); })
SCENE(match, "MPI_Mprobe", TIMES, 1, 0, -1,
      MPI_Message message; start(); MPI_Mprobe(0, MPI_ANY_TAG, W, &message, MPI_STATUS_IGNORE); finish();
      MPI_Mrecv(&value, 1, MPI_DOUBLE, &message, MPI_STATUS_IGNORE),
      if (rank == 0) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 7, W); })
SCENE(overtake, "MPI_Recv", TIMES, 1, 0, -1, /* the second receive, of the first message, does not wait */
      start(); MPI_Recv(&value, 1, MPI_DOUBLE, 0, 2, W, MPI_STATUS_IGNORE); finish();
      MPI_Recv(&value, 1, MPI_DOUBLE, 0, 1, W, MPI_STATUS_IGNORE),
      if (rank == 0) {
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, W); work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 2, W);
      })
SCENE(persistent, "MPI_Wait", TIMES, 1, 0, -1,
      MPI_Recv_init(&value, 1, MPI_DOUBLE, 0, 5, twin, requests); MPI_Start(requests); start();
      MPI_Wait(requests, &status); finish(); MPI_Request_free(requests),
      if (rank == 0) {
        MPI_Send_init(&value, 1, MPI_DOUBLE, 1, 5, twin, requests); work(LATE_S); start(); MPI_Start(requests);
        MPI_Wait(requests, &status); MPI_Request_free(requests);
      })
SCENE(start_any, "MPI_Wait", TIMES, 1, 0, -1,
      MPI_Irecv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 9, W, requests); start(); MPI_Wait(requests, &status); finish(),
      if (rank == 0) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 9, W); })
SCENE(many, "MPI_Recv", many_times, 1, 0, -1,
      start(); MPI_Recv(&value, 1, MPI_DOUBLE, 0, i % 7, W, MPI_STATUS_IGNORE); finish(),
      if (rank == 0) { usleep(300 + rand() % 300); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, i % 7, W); })
/* Two receives from any rank at a time may complete in another order: no later receive of the communicator counts. */
SCENE(ambiguous, "MPI_Recv", TIMES, 1, 0, -1,
      double values[2]; MPI_Irecv(values, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, twin, requests);
      MPI_Irecv(values + 1, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, twin, requests + 1);
      start(); MPI_Recv(&value, 1, MPI_DOUBLE, 0, 5, twin, &status); finish();
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE),
      if (rank == 0) {
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 2, twin); MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, twin);
        work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, twin);
      })
/* A call that completes more than a message waits for the last, and is no late sender then; the read is not compared. */
SCENE(with_collective, "MPI_Waitall", TIMES, 1, 2, -1,
      MPI_Irecv(&value, 1, MPI_DOUBLE, 0, 1, W, requests); MPI_Ibarrier(W, requests + 1); start();
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); finish(),
      if (rank == 0) MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, W);
      if (rank == 2) { work(LATE_S); start(); }
      MPI_Ibarrier(W, requests); MPI_Wait(requests, &status))
SCENE(with_read, "MPI_Waitall", TIMES, 1, 0, -1,
      MPI_File file; MPI_File_open(MPI_COMM_SELF, "messages", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
      MPI_Irecv(&value, 1, MPI_DOUBLE, 0, 1, W, requests); MPI_File_iread(file, large, 1, MPI_DOUBLE, requests + 1);
      start(); MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); finish(); MPI_File_close(&file),
      if (rank == 0) { work(LATE_S); start(); MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, W); })

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc > 1) many_times = atoi(argv[1]);
  MPI_Comm_rank(W, &rank);
  if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 0, W); /* before any collective call */
  if (rank == 1) MPI_Recv(&rank, 1, MPI_INT, 0, 0, W, MPI_STATUS_IGNORE), rank = 1;
  MPI_Comm_dup(W, &twin);
  large = calloc(LARGE, sizeof *large);
  receive(), any(), all(), some(), synchronous(), large_send(), small_send(), start_synchronous(), exchange();
  probe(), match(), overtake(), persistent(), start_any(), with_collective(), with_read(), many();
  ambiguous();
  MPI_Finalize();
  return 0;
}
