/* Ranks that sleep inside MPI calls, whose progress sleeps here instead of polling, and outside of them.
 *
 * The argument says how ranks wait: in "long" calls, in "short" ones, in one that is "left" by siglongjmp, or in one of
 * another "thread". They sleep for 0.2 to 0.3 s inside calls and, but for the last, 0.1 s outside. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* What MPICH and Open MPI call while they wait. */
unsigned ucp_worker_progress(void *worker) {
  static unsigned (*progress)(void *);
  if (!progress) progress = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
  unsigned count = progress(worker);
  if (!count) usleep(200);
  return count;
}

int sched_yield(void) {
  return usleep(200);
}

static sigjmp_buf back;
static int is_late;

static void on_alarm(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}

/* Receive what rank 0 sends after 0.3 s, in one call. */
static void wait_long(void) {
  int word = 0;
  if (is_late) {
    usleep(300000);
    MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void *wait_in_thread(void *unused) {
  (void)unused;
  wait_long();
  return NULL;
}

static void wait_short(void) {
  for (int i = 0; i < 1000; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_and_leave(void) {
  int word;
  struct itimerval timer = {.it_value.tv_usec = 300000};
  signal(SIGALRM, on_alarm);
  if (sigsetjmp(back, 1)) return;
  setitimer(ITIMER_REAL, &timer, NULL);
  MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int provided, rank, flag;
  const char *kind = argv[1];
  int has_thread = !strcmp(kind, "thread");
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  MPI_Init_thread(&argc, &argv, has_thread ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  is_late = rank == 0;
  if (has_thread) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_thread, NULL);
    pthread_join(thread, NULL);
  } else {
    usleep(100000);
    if (!strcmp(kind, "long")) wait_long();
    if (!strcmp(kind, "short")) wait_short();
    if (!strcmp(kind, "left")) wait_and_leave();
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
