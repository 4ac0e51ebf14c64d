/* Measure the cost of collective operations and communicators of an MPI library, as in [VAL §3.2].
 *
 *     mpicc -O2 -o mpi_collectives mpi_collectives.c
 *     insitu run -n 8 -- ./mpi_collectives 400 256 1
 *
 * Arguments: repetitions, bytes of a message, number of this run. Prints one line of JSON per time, for `insitu
 * import`; memory is measured by insitu for each MPI call.
 *
 * All ranks begin a collective at the same time: they compare their clocks with that of rank 0 by ping-pong, and every
 * repetition has a window that begins at a given time of that clock. Repetitions whose beginning a rank missed are
 * dropped and counted. The result is the maximum over ranks, and of these the first quartile over repetitions.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PINGS = 40, WARM = 10, TRIES = 8, ATTEMPTS = 6, CREATIONS = 8, TAG = 7 };

static int rank, size, bytes, run;
static double offset; /* seconds from the clock of rank 0 to that of this rank */
static char *outgoing, *incoming;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void print(const char *name, const char *metric, const char *unit, double value) {
  if (rank == 0)
    printf("{\"callpath\": \"%s\", \"metric\": \"%s\", \"unit\": \"%s\", \"params\": {\"p\": %d}, "
           "\"repetition\": %d, \"value\": %.9g}\n",
           name, metric, unit, size, run, value);
}

/* Of several exchanges, the one with the shortest round trip bounds the difference of two clocks best. */
static void compare_clocks(void) {
  double best = 1e300, there;
  for (int other = 1; other < size; other++) {
    for (int i = 0; i < PINGS && (rank == 0 || rank == other); i++) {
      if (rank == 0) {
        MPI_Recv(&there, 1, MPI_DOUBLE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double mine = now();
        MPI_Send(&mine, 1, MPI_DOUBLE, other, TAG, MPI_COMM_WORLD);
      } else {
        double before = now(), mine;
        MPI_Send(&before, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
        MPI_Recv(&mine, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double after = now();
        if (after - before < best) {
          best = after - before;
          offset = (before + after) / 2 - mine;
        }
      }
    }
  }
}

static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(void) {
  MPI_Bcast(outgoing, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}
static void reduce(void) {
  MPI_Reduce(outgoing, incoming, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void allreduce(void) {
  MPI_Allreduce(outgoing, incoming, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void gather(void) {
  MPI_Gather(outgoing, bytes, MPI_BYTE, incoming, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}
static void allgather(void) {
  MPI_Allgather(outgoing, bytes, MPI_BYTE, incoming, bytes, MPI_BYTE, MPI_COMM_WORLD);
}
static void alltoall(void) {
  MPI_Alltoall(outgoing, bytes, MPI_BYTE, incoming, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* The litmus test: a broadcast with known cost, (α + β) log p. If it deviates, the cause is the machine and not the
 * library [VAL §2.2]. */
static void tree_bcast(void) {
  int parent = (rank - 1) / 2;
  if (rank > 0) MPI_Recv(outgoing, bytes, MPI_BYTE, parent, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
    MPI_Send(outgoing, bytes, MPI_BYTE, child, TAG, MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Run one series of windows. Returns the number of valid repetitions; `valid` gets their durations. */
static int run_windows(void (*call)(void), double length, int count, double *spent, double *valid) {
  char *missed = malloc((size_t)count), *anywhere = malloc((size_t)count);
  double *slowest = malloc((size_t)count * sizeof(double));
  double start = now() + 4 * length;
  MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++) {
    double begin = start + i * length + offset;
    missed[i] = now() > begin;
    while (now() < begin) sched_yield(); /* there may be more ranks than cores */
    double before = now();
    call();
    spent[i] = now() - before;
  }
  MPI_Allreduce(missed, anywhere, count, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(spent, slowest, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int left = 0;
  for (int i = 0; i < count; i++)
    if (!anywhere[i]) valid[left++] = slowest[i];
  free(missed);
  free(anywhere);
  free(slowest);
  return left;
}

static void measure(const char *name, void (*call)(void), int count) {
  double *spent = malloc((size_t)count * sizeof(double));
  double *valid = malloc((size_t)count * sizeof(double));
  for (int i = 0; i < WARM; i++) call();
  MPI_Barrier(MPI_COMM_WORLD);
  double before = now(), length;
  for (int i = 0; i < TRIES; i++) {
    call();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  double mine = 2 * (now() - before) / TRIES;
  MPI_Allreduce(&mine, &length, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int left = 0;
  for (int attempt = 0; attempt < ATTEMPTS && left < (count + 3) / 4; attempt++) {
    left = run_windows(call, length, count, spent, valid);
    length *= 2;
  }
  if (left) {
    qsort(valid, (size_t)left, sizeof(double), ascending);
    print(name, "time", "s", valid[left / 4]);
  }
  print(name, "windows_missed", "1", count - left);
  free(spent);
  free(valid);
}

static void free_comm(void *object) {
  MPI_Comm_free(object);
}
static void free_win(void *object) {
  MPI_Win_free(object);
}
static void comm_split(void *object) {
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank, object);
}
static void win_create_dynamic(void *object) {
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, object);
}
static void comm_create(void *object) {
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, object);
  MPI_Group_free(&group);
}
static void comm_dup(void *object) {
  MPI_Comm_dup(MPI_COMM_WORLD, object);
}
static void cart_create(void *object) {
  int periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, object);
}
static void win_create(void *object) {
  MPI_Win_create(outgoing, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, object);
}

/* Create several objects before the first is destroyed. The growth of the heap is in the row of the call. */
static void create_several(void (*create)(void *), void (*destroy)(void *)) {
  union {
    MPI_Comm comm;
    MPI_Win win;
  } objects[CREATIONS];
  for (int i = 0; i < CREATIONS; i++) create(&objects[i]);
  for (int i = CREATIONS; i-- > 0;) destroy(&objects[i]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int count = argc > 1 ? atoi(argv[1]) : 400;
  bytes = argc > 2 ? atoi(argv[2]) : 256;
  run = argc > 3 ? atoi(argv[3]) : 0;
  if (count < 4 || bytes < 8 || bytes % 8) {
    if (rank == 0) fprintf(stderr, "mpi_collectives: REPETITIONS (4 or more) BYTES (a multiple of 8) RUN\n");
    MPI_Finalize();
    return 2;
  }
  size_t buffer = (size_t)bytes * (size_t)size;
  outgoing = calloc(buffer, 1);
  incoming = calloc(buffer, 1);
  /* The first creations also fill shared pools of handles: use calls that are not evaluated. */
  create_several(comm_split, free_comm);
  create_several(win_create_dynamic, free_win);
  create_several(comm_create, free_comm);
  create_several(comm_dup, free_comm);
  create_several(win_create, free_win);
  create_several(cart_create, free_comm);
  compare_clocks();
  measure("MPI_Barrier", barrier, count);
  measure("MPI_Bcast", bcast, count);
  measure("MPI_Reduce", reduce, count);
  measure("MPI_Allreduce", allreduce, count);
  measure("MPI_Gather", gather, count);
  measure("MPI_Allgather", allgather, count);
  measure("MPI_Alltoall", alltoall, count);
  measure("tree_bcast", tree_bcast, count);
  free(outgoing);
  free(incoming);
  MPI_Finalize();
  return 0;
}
