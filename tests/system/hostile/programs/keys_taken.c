/* A library that takes all keys of thread-local data before anybody else, and uses the first one. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
static pthread_key_t first;
__attribute__((constructor(101))) static void take(void) {
  pthread_key_t key;
  pthread_key_create(&first, NULL);
  while (!pthread_key_create(&key, NULL)) continue;
}
static void *body(void *unused) {
  int flag;
  pthread_setspecific(first, &first);
  MPI_Iprobe(0, 2, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  return pthread_getspecific(first);
}
int main(int argc, char **argv) {
  int provided;
  void *value;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  pthread_t thread;
  pthread_setspecific(first, &provided);
  pthread_create(&thread, NULL, body, NULL);
  pthread_join(thread, &value);
  printf("%s\n", value == (void *)&first && pthread_getspecific(first) == &provided ? "kept" : "overwritten");
  MPI_Finalize();
  return 0;
}
