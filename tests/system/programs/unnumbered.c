/* Messages whose number between their ranks is unknown, for the reason that the argument names. */
#include <mpi.h>
#include <pthread.h>
#include <string.h>

#define TIMES 50

static int rank;
static MPI_Comm comm = MPI_COMM_WORLD;

static void send_one(int tag) {
  char byte = 0;
  if (rank == 0) MPI_Send(&byte, 1, MPI_CHAR, 1, tag, comm);
  if (rank == 1) MPI_Recv(&byte, 1, MPI_CHAR, 0, tag, comm, MPI_STATUS_IGNORE);
}

static void *send_many(void *tag) {
  for (int i = 0; i < TIMES; i++) send_one(*(int *)tag);
  return NULL;
}

static void receive_two_from_anywhere(void) {
  char bytes[2] = {0};
  MPI_Request requests[2];
  if (rank == 0)
    for (int i = 0; i < 2; i++) MPI_Send(bytes, 1, MPI_CHAR, 1, 0, comm);
  if (rank != 1) return;
  for (int i = 0; i < 2; i++) MPI_Irecv(&bytes[i], 1, MPI_CHAR, MPI_ANY_SOURCE, 0, comm, &requests[i]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void cancel_one(void) {
  char byte;
  MPI_Request request;
  MPI_Irecv(&byte, 1, MPI_CHAR, MPI_ANY_SOURCE, 7, comm, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  const char *reason = argc > 1 ? argv[1] : "";
  int provided, tags[2] = {0, 1};
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(comm, &rank);
  if (!strcmp(reason, "cancel")) cancel_one();
  if (!strcmp(reason, "order")) {
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (!strcmp(reason, "wildcard"))
    for (int i = 0; i < TIMES; i++) receive_two_from_anywhere();
  if (!strcmp(reason, "threads") && provided == MPI_THREAD_MULTIPLE) {
    pthread_t thread;
    pthread_create(&thread, NULL, send_many, &tags[1]);
    send_many(&tags[0]);
    pthread_join(thread, NULL);
  }
  for (int i = 0; i < TIMES; i++) send_one(2);
  MPI_Finalize();
  return 0;
}
