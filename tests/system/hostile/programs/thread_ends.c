/* Threads that end in every way, destructors of thread-local data that call MPI and allocate, exit in a thread. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_key_t key;
static _Atomic int destroyed; /* MPI may be finalised when no destructor calls it any more */
static void destroy(void *value) {
  int flag;
  free(malloc(200));
  MPI_Iprobe(0, 2, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  free(value);
  destroyed++;
}
static void leave(void) { pthread_exit(NULL); }
static void *body(void *value) {
  pthread_setspecific(key, malloc(10));
  if (value) leave();
  return NULL;
}
static void *last(void *value) {
  while (destroyed < 100) usleep(1000);
  printf("exit in a thread\n");
  MPI_Finalize();
  exit(0);
}
int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  pthread_key_create(&key, destroy);
  for (long i = 0; i < 100; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, (void *)(i & 1));
    if (i % 3) pthread_join(thread, NULL);
    else pthread_detach(thread);
  }
  pthread_key_t more;
  while (!pthread_key_create(&more, NULL)) continue; /* takes all that are left */
  pthread_t thread;
  pthread_create(&thread, NULL, last, NULL);
  pthread_exit(NULL);
}
