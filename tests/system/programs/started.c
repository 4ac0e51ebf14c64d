/* Ranks that come late to collective calls of neighbourhoods, that are not blocking, and that create objects. They
 * print how long they had to wait. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
#define TIMES 6
#define LATE_MS 40
#define MOST 8

static int rank, size, ones[MOST], places[MOST];
static MPI_Comm ring_comm;
static double waited, begins[MOST], one = 1, two, many[MOST], more[MOST];

/* Asks the kernel, so that all ranks see one clock even if their libraries see several. */
static double now(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_ms(int ms) {
  nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

/* Rank k starts k times LATE_MS late. Returns when it starts. */
static double come_late(void) {
  MPI_Barrier(W);
  sleep_ms(LATE_MS * rank);
  return now();
}

/* The call that waits was entered at `entered`, and the operation started at `started`. It needs the last of the ranks
 * in `needed`, one bit each. */
static void add(double started, double entered, unsigned needed) {
  MPI_Allgatherv(&started, 1, MPI_DOUBLE, begins, ones, places, MPI_DOUBLE, W);
  double last = 0;
  for (int i = 0; i < size; i++)
    if (needed >> i & 1 && begins[i] > last) last = begins[i];
  if (last > entered) waited += last - entered;
}

static void print(const char *scene, const char *call) {
  printf("%s %s %d %.6f\n", scene, call, rank, waited);
  waited = 0;
}

/* Each rank needs the one before it. */
static void __attribute__((noinline)) ring(MPI_Comm comm) {
  for (int i = 0; i < TIMES; i++) {
    double entered = come_late();
    MPI_Neighbor_alltoall(many, 1, MPI_DOUBLE, more, 1, MPI_DOUBLE, comm);
    add(entered, entered, 1u << (rank + size - 1) % size);
  }
  print("ring", "MPI_Neighbor_alltoall");
}

/* Each rank needs those before and after it; the line is not closed. */
static void __attribute__((noinline)) line(MPI_Comm comm) {
  for (int i = 0; i < TIMES; i++) {
    double entered = come_late();
    MPI_Neighbor_allgather(&one, 1, MPI_DOUBLE, more, 1, MPI_DOUBLE, comm);
    add(entered, entered, (rank ? 1u << (rank - 1) : 0) | 1u << (rank + 1));
  }
  print("line", "MPI_Neighbor_allgather");
}

/* Rank 0 against all others, on an intercommunicator, where waiting is not known. */
static void __attribute__((noinline)) across(void) {
  MPI_Comm side, inter;
  MPI_Comm_split(W, rank == 0, rank, &side);
  MPI_Intercomm_create(side, 0, W, rank ? 0 : 1, 0, &inter);
  for (int i = 0; i < TIMES; i++) {
    come_late();
    MPI_Barrier(inter);
  }
  MPI_Comm_free(&inter);
}

/* Collectives that are started, and completed some time later. Each rank needs those in NEEDED. */
#define LATER(NAME, NEEDED, CREATE, START, DESTROY)  \
  static void __attribute__((noinline)) NAME(void) { \
    MPI_Request request;                             \
    CREATE;                                          \
    for (int i = 0; i < TIMES; i++) {                \
      double start = come_late();                    \
      START;                                         \
      sleep_ms(LATE_MS / 4);                         \
      double entered = now();                        \
      MPI_Wait(&request, MPI_STATUS_IGNORE);         \
      add(start, entered, NEEDED);                   \
    }                                                \
    DESTROY;                                         \
    print(#NAME, "MPI_Wait");                        \
  }
#define ALL ((1u << size) - 1)

LATER(all_later, ALL, , MPI_Iallreduce(&one, &two, 1, MPI_DOUBLE, MPI_SUM, W, &request), )
LATER(lower_later, (1u << rank) - 1, , MPI_Iscan(&one, &two, 1, MPI_DOUBLE, MPI_SUM, W, &request), )
LATER(last_later, 1u << (size - 1), , MPI_Ibcast(&two, 1, MPI_DOUBLE, size - 1, W, &request), )
LATER(ring_later, 1u << (rank + size - 1) % size, ,
      MPI_Ineighbor_alltoall(many, 1, MPI_DOUBLE, more, 1, MPI_DOUBLE, ring_comm, &request), )
#if MPI_VERSION >= 4
LATER(persistent, ALL, MPI_Allreduce_init(&one, &two, 1, MPI_DOUBLE, MPI_SUM, W, MPI_INFO_NULL, &request),
      MPI_Start(&request), MPI_Request_free(&request))
#endif

/* Calls that create something together. */
#define CREATION(NAME, CALL, OBJECT, CREATE, FREE)   \
  static void __attribute__((noinline)) NAME(void) { \
    for (int i = 0; i < TIMES; i++) {                \
      OBJECT;                                        \
      double entered = come_late();                  \
      CREATE;                                        \
      add(entered, entered, ALL);                    \
      FREE;                                          \
    }                                                \
    print(#NAME, CALL);                              \
  }

CREATION(duplicate, "MPI_Comm_dup", MPI_Comm twin, MPI_Comm_dup(W, &twin), MPI_Comm_free(&twin))
CREATION(halves, "MPI_Comm_split", MPI_Comm half, MPI_Comm_split(W, rank % 2, 0, &half), MPI_Comm_free(&half))
CREATION(grid, "MPI_Cart_create", MPI_Comm cart;
         int open = 0, MPI_Cart_create(W, 1, &size, &open, 0, &cart), MPI_Comm_free(&cart))
CREATION(window, "MPI_Win_allocate", MPI_Win win;
         double *memory, MPI_Win_allocate(8, 8, MPI_INFO_NULL, W, &memory, &win), MPI_Win_free(&win))
CREATION(file, "MPI_File_open", MPI_File file,
         MPI_File_open(W, "started.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_File_close(&file))

/* Calls on a window or a file together. */
static void __attribute__((noinline)) fence(void) {
  MPI_Win win;
  double *memory;
  MPI_Win_allocate(8, 8, MPI_INFO_NULL, W, &memory, &win);
  for (int i = 0; i < TIMES; i++) {
    double entered = come_late();
    MPI_Win_fence(0, win);
    add(entered, entered, ALL);
  }
  MPI_Win_free(&win);
  print("fence", "MPI_Win_fence");
}

static void __attribute__((noinline)) output(void) {
  MPI_File first, second;
  MPI_File_open(W, "first.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &first);
  MPI_File_open(W, "second.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &second);
  for (int i = 0; i < TIMES; i++) {
    double entered = come_late();
    MPI_File_write_at_all(i % 2 ? first : second, rank * 8, &one, 1, MPI_DOUBLE, MPI_STATUS_IGNORE);
    add(entered, entered, ALL);
  }
  MPI_File_close(&first), MPI_File_close(&second);
  print("output", "MPI_File_write_at_all");
}

int main(int argc, char **argv) {
  MPI_Comm line_comm;
  for (int i = 0; i < MOST; i++) ones[i] = 1, places[i] = i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &size);
  int before = (rank + size - 1) % size, after = (rank + 1) % size, is_closed = 0;
  MPI_Dist_graph_create_adjacent(W, 1, &before, MPI_UNWEIGHTED, 1, &after, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &ring_comm);
  MPI_Cart_create(W, 1, &size, &is_closed, 0, &line_comm);
  ring(ring_comm);
  line(line_comm);
  across();
  all_later(), lower_later(), last_later(), ring_later();
#if MPI_VERSION >= 4
  persistent();
#endif
  duplicate(), halves(), grid(), window(), file();
  fence(), output();
  MPI_Finalize();
  return 0;
}
