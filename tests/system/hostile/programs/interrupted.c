/* Threads that are interrupted at any instruction, as a garbage collector, a time-out or a progress engine does it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "many_functions.h"

/* Many functions: there is always one that is called for the first time below its caller. */
#define NAME10(n) f##n##0, f##n##1, f##n##2, f##n##3, f##n##4, f##n##5, f##n##6, f##n##7, f##n##8, f##n##9
#define NAME100(n) NAME10(n##0), NAME10(n##1), NAME10(n##2), NAME10(n##3), NAME10(n##4), NAME10(n##5), NAME10(n##6), NAME10(n##7), NAME10(n##8), NAME10(n##9)
static int (*const functions[])(int) = {NAME100(1), NAME100(2), NAME100(3)};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static atomic_long sum;

/* Call two functions, and one below two others: mostly a new call path. */
__attribute__((noinline)) static int left(unsigned at) { return functions[at % FUNCTIONS](1); }
__attribute__((noinline)) static int right(unsigned at) { return functions[at % FUNCTIONS](2); }
__attribute__((noinline)) static int nest(unsigned bits, unsigned at) {
  if (bits < 2) return left(at);
  return bits & 1 ? nest(bits >> 1, at) + right(at) : nest(bits >> 1, at) + left(at + 1);
}
#define PATH(n) __attribute__((noinline)) static int path##n(unsigned at) { return nest(3, at) + left(at); }
PATH(0) PATH(1) PATH(2) PATH(3) PATH(4) PATH(5) PATH(6) PATH(7)
static int (*const paths[])(unsigned) = {path0, path1, path2, path3, path4, path5, path6, path7};
__attribute__((noinline)) static int grow(unsigned at) { return paths[at / FUNCTIONS % 8](at); }

__attribute__((no_instrument_function)) static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* ---- all threads but one are stopped, in the handler of a signal ------------------------------------------------- */

#define WORKERS 3
static pthread_t workers[WORKERS];
static atomic_int is_over;
static sem_t stopped, resumed, left_handler;

__attribute__((no_instrument_function)) static void stop(int number) {
  (void)number;
  sem_post(&stopped);
  while (sem_wait(&resumed)) continue;
  sem_post(&left_handler);
}

__attribute__((no_instrument_function)) static void wait_for_workers(sem_t *event) {
  for (int i = 0; i < WORKERS; i++)
    while (sem_wait(event)) continue;
}

static void *work(void *mine) {
  for (unsigned at = (unsigned)(size_t)mine * 101; !is_over; at++) {
    sum += grow(at);
    free(malloc(at & 1023));
  }
  return NULL;
}

static void collect_garbage(void) {
  struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
  sem_init(&stopped, 0, 0);
  sem_init(&resumed, 0, 0);
  sem_init(&left_handler, 0, 0);
  sigaction(SIGPWR, &action, NULL);
  for (size_t i = 0; i < WORKERS; i++) pthread_create(&workers[i], NULL, work, (void *)i);
  for (unsigned round = 0; round < 100; round++) {
    for (int i = 0; i < WORKERS; i++) pthread_kill(workers[i], SIGPWR);
    wait_for_workers(&stopped);
    for (unsigned i = 0; i < 8; i++) sum += grow(round * 8 + i); /* the collector works while the others stand still */
    for (int i = 0; i < WORKERS; i++) sem_post(&resumed);
    wait_for_workers(&left_handler);
  }
  is_over = 1;
  for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
  puts("collected");
}

/* ---- a time-out leaves what is running --------------------------------------------------------------------------- */

static sigjmp_buf start;
static __thread volatile sig_atomic_t may_jump; /* not in the threads of the library, which get signals, too */

__attribute__((no_instrument_function)) static void jump(int number) {
  (void)number;
  if (may_jump) siglongjmp(start, 1);
}

static void *work_beside(void *unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (unsigned at = 7; !is_over; at++) sum += grow(at * 13);
  return unused;
}

static void time_out(void) {
  struct sigaction action = {.sa_handler = jump};
  struct itimerval every = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
  pthread_t beside;
  sigaction(SIGALRM, &action, NULL);
  pthread_create(&beside, NULL, work_beside, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  volatile unsigned at = 0, jumps = 0;
  if (sigsetjmp(start, 1)) jumps++;
  while (jumps < 1000) {
    may_jump = 1;
    sum += grow(at++);
    may_jump = 0;
  }
  may_jump = 0;
  setitimer(ITIMER_REAL, &off, NULL);
  is_over = 1;
  pthread_join(beside, NULL);
  puts("left 1000 times");
}

/* ---- MPI in handlers, on a stack above or below that of the thread ----------------------------------------------- */

static volatile sig_atomic_t calls, is_in_library;
static __thread volatile sig_atomic_t may_call; /* as above */

__attribute__((no_instrument_function)) static void progress(int number) {
  int flag, one = 1, total = 0;
  (void)number;
  if (!may_call) return;
  calls++;
  MPI_Initialized(&flag);
  if (is_in_library) return; /* neither MPI nor malloc may be entered again */
  MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  sum += grow((unsigned)calls) + total;
}

static int operations;
__attribute__((no_instrument_function)) static void add(void *in, void *out, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++) ((int *)out)[i] += ((int *)in)[i];
  is_in_library = 0; /* without threads in MPI, it may be entered again from here */
  for (volatile int i = 0; i < 100000; i++) continue;
  is_in_library = 1;
  operations++;
}

static void *make_progress(void *stack) {
  struct sigaction action = {.sa_handler = progress, .sa_flags = SA_RESTART | SA_ONSTACK};
  struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
  stack_t alternate = {.ss_sp = stack, .ss_size = 1 << 20}, none = {.ss_flags = SS_DISABLE};
  MPI_Op op;
  if (stack) sigaltstack(&alternate, NULL);
  calls = 0;
  may_call = 1;
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGPROF, &action, NULL);
  MPI_Op_create(add, 1, &op);
  setitimer(ITIMER_REAL, &every, NULL);
  setitimer(ITIMER_PROF, &every, NULL);
  int one = 1, total = 0;
  unsigned at = 0;
  for (double end = now() + 1; now() < end || calls < 100;) {
    sum += grow(at++);
    is_in_library = 1;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (at % 64 == 0) MPI_Reduce_local(&one, &total, 1, MPI_INT, op);
    is_in_library = 0;
  }
  setitimer(ITIMER_REAL, &off, NULL);
  setitimer(ITIMER_PROF, &off, NULL);
  may_call = 0;
  if (stack) sigaltstack(&none, NULL);
  MPI_Op_free(&op);
  return NULL;
}

static void progress_engine(void) {
  size_t bytes = 4u << 20;
  char *area = mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t set;
  make_progress(NULL);
  make_progress(area);
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, area + bytes, bytes);
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  sigaddset(&set, SIGPROF);
  for (int is_above = 0; is_above < 2; is_above++) {
    pthread_create(&thread, &attributes, make_progress, area + 2 * is_above * bytes);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  }
  printf("progress %d\n", operations > 0);
}

/* ---- the thread that grows is open for the signals of the process; otherwise another thread would handle them ------ */

static volatile int looks, closed;

static pthread_t main_thread;

/* Read again and again which signals the main thread blocks, if it has worked since: on a busy machine it may wait for a
 * processor for long while it blocks them. */
__attribute__((no_instrument_function)) static void *look(void *unused) {
  char path[64], text[4096];
  clockid_t clock;
  struct timespec before = {0}, now;
  snprintf(path, sizeof path, "/proc/self/task/%d/status", getpid());
  pthread_getcpuclockid(main_thread, &clock);
  while (!is_over) {
    clock_gettime(clock, &now);
    if (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec) continue;
    before = now;
    int file = open(path, O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *line = strstr(text, "SigBlk:");
    if (line && strtoull(line + 7, NULL, 16)) closed++;
    looks++;
  }
  return unused;
}

static void stay_open(void) {
  pthread_t beside;
  main_thread = pthread_self();
  pthread_create(&beside, NULL, look, NULL);
  sum += grow(0); /* once per object, its slots are patched with signals blocked */
  for (int first = looks; looks - first < 2;) continue;
  closed = 0;
  for (unsigned at = 1; at < 8 * FUNCTIONS; at++) sum += grow(at);
  is_over = 1;
  pthread_join(beside, NULL);
  printf("open %d\n", closed < 10); /* samples take some microseconds each */
}

/* ---- threads that are cancelled at any instruction, while they only compute -------------------------------------- */

static void *compute(void *unused) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (unsigned at = 0;; at++) sum += grow(at);
  return unused;
}

static void cancel(void) {
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    usleep((unsigned)i * 3);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    sum += grow((unsigned)i * 37);
  }
  puts("cancelled");
}

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  int provided, level = strcmp(word, "progress") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, level, &provided);
  if (!strcmp(word, "collector")) collect_garbage();
  if (!strcmp(word, "time-out")) time_out();
  if (!strcmp(word, "progress")) progress_engine();
  if (!strcmp(word, "cancel")) cancel();
  if (!strcmp(word, "stay-open")) stay_open();
  printf("%s\n", sum > 0 ? "worked" : "idle");
  MPI_Finalize();
  return 0;
}
