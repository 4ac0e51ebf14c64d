/* A tool of the profiling interface that counts calls, messages and bytes. At the end each rank writes them to the file
 * that TALLY_FILE names, followed by its number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

struct tally {
  const char *name;
  int has_only_visits;
  long visits, messages_sent, bytes_sent, messages_received, bytes_received;
};
static struct tally *tallies[64];
static int used;
static __thread int depth; /* calls inside calls, by callbacks, do not count */

/* An error handler of the program may leave a call by a jump: then no call is open any more. */
void longjmp(jmp_buf to, int value) {
  depth = 0;
  ((void (*)(jmp_buf, int))dlsym(RTLD_NEXT, "longjmp"))(to, value);
  abort();
}

static void note(struct tally *tally, int peer, long bytes_sent, MPI_Status *status) {
  int bytes = 0;
  if (!__atomic_fetch_add(&tally->visits, 1, __ATOMIC_RELAXED)) tallies[__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED)] = tally;
  if (bytes_sent >= 0 && peer != MPI_PROC_NULL) {
    __atomic_fetch_add(&tally->messages_sent, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&tally->bytes_sent, bytes_sent, __ATOMIC_RELAXED);
  }
  if (!status || status->MPI_SOURCE == MPI_PROC_NULL) return;
  PMPI_Get_count(status, MPI_BYTE, &bytes);
  __atomic_fetch_add(&tally->messages_received, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&tally->bytes_received, bytes, __ATOMIC_RELAXED);
}

static long bytes_of(MPI_Count count, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return count * bytes;
}

/* Call the library; NOTE describes a call that succeeded. */
#define TALLY(NAME, CALL, NOTE)                \
  static struct tally tally = {"MPI_" #NAME}; \
  depth++;                                     \
  int failed = PMPI_##CALL;                    \
  if (--depth) return failed;                  \
  if (failed) note(&tally, 0, -1, NULL);       \
  else NOTE;                                   \
  return failed

#define A_SEND(NAME, C, COUNT)                                                                              \
  int MPI_##NAME##C(const void *data, COUNT count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {     \
    TALLY(NAME, NAME##C(data, count, type, to, tag, comm), note(&tally, to, bytes_of(count, type), NULL));  \
  }
#define AN_ISEND(NAME, C, COUNT)                                                                            \
  int MPI_##NAME##C(const void *data, COUNT count, MPI_Datatype type, int to, int tag, MPI_Comm comm,       \
                    MPI_Request *request) {                                                                 \
    TALLY(NAME, NAME##C(data, count, type, to, tag, comm, request),                                         \
          note(&tally, to, bytes_of(count, type), NULL));                                                   \
  }
#define CALLS(C, COUNT)                                                                                     \
  A_SEND(Send, C, COUNT)                                                                                    \
  A_SEND(Ssend, C, COUNT)                                                                                   \
  A_SEND(Bsend, C, COUNT)                                                                                   \
  AN_ISEND(Isend, C, COUNT)                                                                                 \
  AN_ISEND(Issend, C, COUNT)                                                                                \
  int MPI_Recv##C(void *data, COUNT count, MPI_Datatype type, int from, int tag, MPI_Comm comm,             \
                  MPI_Status *status) {                                                                     \
    MPI_Status own;                                                                                         \
    if (status == MPI_STATUS_IGNORE) status = &own;                                                         \
    TALLY(Recv, Recv##C(data, count, type, from, tag, comm, status), note(&tally, 0, -1, status));          \
  }                                                                                                         \
  int MPI_Sendrecv##C(const void *out, COUNT sent, MPI_Datatype type, int to, int tag, void *in,            \
                      COUNT room, MPI_Datatype got, int from, int their, MPI_Comm comm,                     \
                      MPI_Status *status) {                                                                 \
    MPI_Status own;                                                                                         \
    if (status == MPI_STATUS_IGNORE) status = &own;                                                         \
    TALLY(Sendrecv, Sendrecv##C(out, sent, type, to, tag, in, room, got, from, their, comm, status),        \
          note(&tally, to, bytes_of(sent, type), status));                                                  \
  }                                                                                                         \
  int MPI_Irecv##C(void *data, COUNT count, MPI_Datatype type, int from, int tag, MPI_Comm comm,            \
                   MPI_Request *request) {                                                                  \
    TALLY(Irecv, Irecv##C(data, count, type, from, tag, comm, request), note(&tally, 0, -1, NULL));         \
  }

CALLS(, int)
/* What a collective call moves is not counted again here. */
#define A_COLLECTIVE(NAME, C, PARAMETERS, ...) \
  int MPI_##NAME##C PARAMETERS {               \
    TALLY(NAME, NAME##C(__VA_ARGS__), (tally.has_only_visits = 1, note(&tally, 0, -1, NULL))); \
  }
#define COLLECTIVES(C, COUNT)                                                                              \
  A_COLLECTIVE(Bcast, C, (void *data, COUNT count, MPI_Datatype type, int root, MPI_Comm comm), data,      \
               count, type, root, comm)                                                                    \
  A_COLLECTIVE(Allreduce, C, (const void *in, void *out, COUNT count, MPI_Datatype type, MPI_Op op,        \
                              MPI_Comm comm), in, out, count, type, op, comm)                              \
  A_COLLECTIVE(Reduce, C, (const void *in, void *out, COUNT count, MPI_Datatype type, MPI_Op op, int root, \
                           MPI_Comm comm), in, out, count, type, op, root, comm)                           \
  A_COLLECTIVE(Allgather, C, (const void *in, COUNT sent, MPI_Datatype type, void *out, COUNT room,        \
                              MPI_Datatype got, MPI_Comm comm), in, sent, type, out, room, got, comm)      \
  A_COLLECTIVE(Alltoall, C, (const void *in, COUNT sent, MPI_Datatype type, void *out, COUNT room,         \
                             MPI_Datatype got, MPI_Comm comm), in, sent, type, out, room, got, comm)
COLLECTIVES(, int)

#if MPI_VERSION >= 4
COLLECTIVES(_c, MPI_Count)
CALLS(_c, MPI_Count)
#endif

int MPI_Barrier(MPI_Comm comm) { TALLY(Barrier, Barrier(comm), note(&tally, 0, -1, NULL)); }

int MPI_Finalize(void) {
  char path[4096];
  const char *prefix = getenv("TALLY_FILE");
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  /* insitu does not measure what MPI_Comm_spawn starts, whose parent may be disconnected by now. */
  if (getenv("PMI_SPAWNED") || getenv("OMPI_PARENT_PORT")) prefix = NULL;
  snprintf(path, sizeof path, "%s.%d", prefix ? prefix : "/dev/null", rank);
  FILE *file = prefix ? fopen(path, "w") : NULL;
  for (int i = 0; file && i < used; i++) {
    const struct tally *t = tallies[i];
    fprintf(file, "%s %ld", t->name, t->visits);
    if (!t->has_only_visits)
      fprintf(file, " %ld %ld %ld %ld", t->messages_sent, t->bytes_sent, t->messages_received, t->bytes_received);
    fputc('\n', file);
  }
  if (file) fclose(file);
  return PMPI_Finalize();
}
