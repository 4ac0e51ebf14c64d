/* Two functions in turn, then an exchange, as in many steps of many programs. Prints for each rank what they take by
 * the clock of the thread, and by samples of the kernel's task clock, whose timer is precise.
 *
 * sample_shift STEPS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONG_TERMS 620000 /* about 4 ms, a tick of most kernels */
#define SHORT_TERMS 62000
#define INTERVAL_NS 10309278 /* 97 times per second, as insitu */

enum { OTHER, LONG, SHORT, FUNCTIONS };
static volatile sig_atomic_t function;
static volatile sig_atomic_t samples[FUNCTIONS];
static volatile double sum;

static double thread_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void take_sample(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  samples[function]++;
  ioctl(info->si_fd, PERF_EVENT_IOC_REFRESH, 1);
}

/* Return whether the task clock may be used. */
static int start_task_clock(void) {
  struct sigaction action = {.sa_sigaction = take_sample, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct perf_event_attr event = {.size = sizeof event, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK};
  struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
  event.sample_period = INTERVAL_NS;
  event.exclude_kernel = event.disabled = event.wakeup_events = 1;
  int file = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (file < 0) return 0;
  sigaction(SIGRTMIN + 3, &action, NULL);
  fcntl(file, F_SETFL, O_ASYNC | O_NONBLOCK);
  fcntl(file, F_SETSIG, SIGRTMIN + 3);
  fcntl(file, F_SETOWN_EX, &owner);
  return !ioctl(file, PERF_EVENT_IOC_REFRESH, 1);
}

static void add_terms(long terms) {
  double total = sum;
  for (long i = 0; i < terms; i++) total += 1.0 / ((double)i + 1.0 + 1e-9 * total);
  sum = total;
}

__attribute__((noinline)) void take_long(void) {
  add_terms(LONG_TERMS);
}

__attribute__((noinline)) void take_short(void) {
  add_terms(SHORT_TERMS);
}

int main(int argc, char **argv) {
  int rank, steps = argc > 1 ? atoi(argv[1]) : 1;
  double seconds[FUNCTIONS] = {0}, mine = 1, all;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int has_clock = start_task_clock();
  for (int step = 0; step < steps; step++) {
    double begun = thread_s();
    function = LONG;
    take_long();
    double between = thread_s();
    function = SHORT;
    take_short();
    function = OTHER;
    seconds[SHORT] += thread_s() - between;
    seconds[LONG] += between - begun;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  for (int i = LONG; i <= SHORT; i++)
    printf("RANK %d %s %.4f %.4f\n", rank, i == LONG ? "take_long" : "take_short", seconds[i],
           has_clock ? 1e-9 * INTERVAL_NS * (double)samples[i] : -1.0);
  MPI_Finalize();
  return 0;
}
