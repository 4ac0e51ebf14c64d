/* Threads that are cancelled at any point. Neither malloc nor the entry of a function nor MPI_Iprobe is a cancellation
 * point: a thread that is cancelled there must not take a lock with it. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static int work(int i) {
  volatile int sum = 0;
  for (int k = 0; k < 1000; k++) sum += k * i;
  return sum;
}

static void *spin(void *unused) {
  for (;;) {
    work(3);
    usleep(100);
  }
  return unused;
}

static void *call_with_lock(void *unused) {
  int flag;
  pthread_mutex_lock(&lock);
  for (volatile int k = 0; k < 300000; k++) continue;
  free(malloc(100));
  MPI_Initialized(&flag);
  MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  pthread_mutex_unlock(&lock);
  for (;;) usleep(100);
  return unused;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, spin, NULL);
    if (i & 1) usleep(20 * (i % 50));
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, call_with_lock, NULL);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
  }
  puts("done");
  MPI_Finalize();
  return 0;
}
