/* Threads in MPI at the same time: a handle that one thread frees is reused by another at once. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 200

static int rank, size;

static void *work(void *argument) {
  int number = (int)(long)argument, right = (rank + 1) % size, left = (rank + size - 1) % size;
  char mine[64] = {0}, theirs[64];
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Request requests[2];
    MPI_Irecv(theirs, 64, MPI_CHAR, left, number, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(mine, number + 1, MPI_CHAR, right, number, MPI_COMM_WORLD, &requests[1]);
    if (i % 2) {
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else {
      for (int flag = 0; !flag;) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  pthread_t threads[THREADS];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  if (argc > 1) _Exit(atoi(argv[1])); /* without MPI_Finalize */
  MPI_Finalize();
  return 0;
}
