/* Threads exchange messages in communicators of their own, with more pairs of ranks and more messages than insitu has
 * room for. On some of them they also start collectives, and use windows and files. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

void insitu_sample_check(void) {} /* sample.c is not linked in */
void insitu_evaluator_check(void) {} /* nor is hook.c */
int insitu_table_create(const char *, int, int, const char *, const char *, size_t);
void insitu_finish(int, int);
int insitu_mpi_patch(void);
struct insitu_gate {
  char before[65536];
  int is_on;
  char after[65536];
};
extern struct insitu_gate insitu_gate;
#define THREADS 3
#define COMMS 300
#define TIMES 8
static int rank, size;
static MPI_Comm comms[THREADS][COMMS];
static int failures;
static void talk(MPI_Comm comm, int turn, int who) {
  int out = turn;
  for (int step = 1; step < size; step++) {
    int to = (rank + step) % size, from = (rank + size - step) % size, in = -1, flag = 0;
    MPI_Request r[2];
    MPI_Status s[2];
    switch (turn % 4) {
      case 0: MPI_Sendrecv(&out, 1, MPI_INT, to, who, &in, 1, MPI_INT, from, who, comm, s); break;
      case 1:
        MPI_Irecv(&in, 1, MPI_INT, from, turn, comm, r);
        MPI_Isend(&out, 1, MPI_INT, to, turn, comm, r + 1);
        MPI_Waitall(2, r, s);
        break;
      case 2:
        MPI_Isend(&out, 1, MPI_INT, to, who, comm, r);
        MPI_Recv(&in, 1, MPI_INT, from, MPI_ANY_TAG, comm, s);
        while (!flag) MPI_Test(r, &flag, s);
        break;
      case 3:
        MPI_Irecv(&in, 1, MPI_INT, from, turn, comm, r + 1);
        MPI_Issend(&out, 1, MPI_INT, to, turn, comm, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        break;
    }
    if (in != turn) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  }
}
static void meet(MPI_Comm comm, int who) {
  int one = 1, sum = 0, *memory;
  MPI_Request request;
  MPI_Win win;
  MPI_File file;
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (sum != size) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
  MPI_Win_allocate(sizeof one, sizeof one, MPI_INFO_NULL, comm, &memory, &win);
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  if (who) return; /* MPICH 5 hangs where several threads open files, also without insitu */
  MPI_File_open(comm, "torture.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof one, &one, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}
static void *work(void *arg) {
  int who = (int)(long)arg;
  for (int turn = 0; turn < TIMES; turn++)
    for (int c = 0; c < COMMS; c++) {
      talk(comms[who][c], turn, who);
      if (turn == 0 && c % 100 == 0) meet(comms[who][c], who);
    }
  return NULL;
}
int main(int argc, char **argv) {
  int level;
  pthread_t threads[THREADS];
  char path[200];
  const char *id = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
  snprintf(path, sizeof path, "%s-%s", argv[1], id);
  if (insitu_table_create(path, atoi(id), 3, "mm", "{}", 2)) return 3;
  insitu_gate.is_on = 1;
  insitu_mpi_patch();
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int t = 0; t < THREADS; t++)
    for (int c = 0; c < COMMS; c++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t][c]);
  for (int t = 0; t < THREADS; t++) pthread_create(threads + t, NULL, work, (void *)(long)t);
  for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  for (int t = 0; t < THREADS; t++)
    for (int c = 0; c < COMMS; c++) MPI_Comm_free(&comms[t][c]);
  insitu_finish(1, 0);
  printf("rank %d: %d failures\n", rank, failures);
  fflush(stdout);
  MPI_Finalize();
  return failures != 0;
}
