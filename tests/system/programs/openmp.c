/* Parallel regions of every kind. Threads sleep instead of computing, because several are to work at a time on any
 * machine. The threads of `imbalanced` note how long they work themselves, about 1 : 2 : 3 : 4. With `cost`, how long an
 * empty region takes. With `children`, `leaves` and `stress`, what may go wrong. */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))
#define REPEATS 5
static volatile int sink;
static volatile double numbers[1000];

static void nap(int ms) {
  struct timespec rest = {0, ms * 1000000L};
  while (nanosleep(&rest, &rest)) continue;
}
static double total, capacity; /* seconds: what threads worked, and 4 times what the slowest did */

KEPT static void imbalanced(void) {
  double worked[4], most = 0;
#pragma omp parallel num_threads(4)
  {
    int number = omp_get_thread_num();
    double begin = omp_get_wtime();
    nap(10 * (1 + number));
    worked[number] = omp_get_wtime() - begin;
  }
  for (int i = 0; i < 4; i++) {
    total += worked[i];
    if (worked[i] > most) most = worked[i];
  }
  capacity += 4 * most;
}
KEPT static void outlived(void) {
#pragma omp parallel num_threads(2)
  nap(5);
  sink++;
}
KEPT static void at_barrier(void) {
#pragma omp parallel num_threads(2)
  {
    nap(omp_get_thread_num() ? 30 : 10);
#pragma omp barrier
    nap(10);
  }
  sink++;
}
KEPT static void loops(void) {
#pragma omp parallel for schedule(static) num_threads(3)
  for (int i = 0; i < 1000; i++) numbers[i] = i;
#pragma omp parallel for schedule(dynamic, 10) num_threads(3)
  for (int i = 0; i < 1000; i++) numbers[i] += i;
#pragma omp parallel for schedule(guided) num_threads(3)
  for (int i = 0; i < 1000; i++) numbers[i] += i;
#pragma omp parallel for schedule(runtime) num_threads(3)
  for (int i = 0; i < 1000; i++) numbers[i] += i;
  sink++;
}
KEPT static void in_sections(void) {
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    nap(20);
#pragma omp section
    nap(10);
  }
  sink++;
}
/* One thread creates tasks; all of them work while they are at a barrier. */
KEPT static void tasks(void) {
#pragma omp parallel num_threads(4)
#pragma omp single
  for (int i = 0; i < 8; i++) {
#pragma omp task
    nap(10);
  }
  sink++;
}
KEPT static void tasks_in_loop(void) {
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskloop grainsize(1)
    for (int i = 0; i < 8; i++) nap(10);
  }
  sink++;
}
KEPT static void nested(void) {
#pragma omp parallel num_threads(2)
  {
    nap(1);
#pragma omp parallel num_threads(2)
    nap(10);
    nap(1);
  }
  sink++;
}
/* The first thread alone may call MPI. */
KEPT static void funneled(void) {
#pragma omp parallel num_threads(2)
  {
#pragma omp master
    MPI_Barrier(MPI_COMM_WORLD);
    nap(5);
  }
  sink++;
}
KEPT static double reduced(void) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(4)
  for (int i = 0; i < 1000; i++) sum += i;
  return sum;
}
KEPT static void in_environment(void) {
#pragma omp parallel
  sink = omp_get_num_threads();
  sink++;
}
KEPT static void alone(void) {
#pragma omp parallel if (0)
  nap(1);
  sink++;
}

static void *outlive(void *unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) nap(5);
  outlived();
  return NULL;
}

static int kinds(void) {
  pthread_t thread;
#pragma omp parallel num_threads(2)
  {
#pragma omp master
    pthread_create(&thread, NULL, outlive, NULL);
  }
  for (int i = 0; i < REPEATS; i++) {
    imbalanced();
    at_barrier();
    loops();
    in_sections();
    tasks();
    tasks_in_loop();
    nested();
    funneled();
    alone();
    in_environment();
    if (reduced() != 499500) return 1;
  }
  pthread_join(thread, NULL);
  printf("IMBALANCE %g BUSY %g\n", 1 - total / capacity, total);
  return 0;
}

static int cost(int threads) {
  double best = 1e9;
  omp_set_num_threads(threads);
  for (int block = 0; block < 400; block++) {
    double begin = MPI_Wtime();
    for (int i = 0; i < 500; i++) {
#pragma omp parallel
      sink = i;
    }
    double each = (MPI_Wtime() - begin) / 500 * 1e9;
    if (each < best) best = each;
  }
  printf("COST %g\n", best);
  return 0;
}

/* Children that are made inside a region. The parent waits for them there. */
static int children(void) {
  int failures = 0;
#pragma omp parallel num_threads(2) reduction(+ : failures)
  {
    int status = 1;
    pid_t child = fork();
    if (!child) _exit(7);
    waitpid(child, &status, 0);
    failures += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
  }
  return failures;
}

static long fibonacci(int n) {
  long left, right;
  if (n < 2) return n;
#pragma omp task shared(left)
  left = fibonacci(n - 1);
#pragma omp task shared(right)
  right = fibonacci(n - 2);
#pragma omp taskwait
  return left + right;
}

/* Small regions of changing sizes, nested, from several threads, with tasks. */
static void *work(void *unused) {
  (void)unused;
  for (int i = 0; i < 60; i++) {
    long result = 0;
    omp_set_num_threads(1 + i % 4);
#pragma omp parallel
#pragma omp single
    result = fibonacci(10);
    if (result != 55) abort();
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(1 + i % 3)
    {
#pragma omp barrier
    }
  }
  return NULL;
}

static int stress(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, NULL);
  work(NULL);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return 0;
}

int main(int argc, char **argv) {
  int level;
  const char *mode = argc > 1 ? argv[1] : "kinds";
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  omp_set_max_active_levels(2);
  int failed = !strcmp(mode, "cost")       ? cost(atoi(argv[2]))
               : !strcmp(mode, "children") ? children()
               : !strcmp(mode, "stress")   ? stress()
                                           : kinds();
  if (!strcmp(mode, "leaves")) {
#pragma omp parallel num_threads(2)
    {
#pragma omp master
      exit(3);
      nap(500);
    }
  }
  MPI_Finalize();
  return failed;
}
