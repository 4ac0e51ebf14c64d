/* Everything that a timer signal could disturb: calls that wait, the program's own signals, masks and stacks, threads,
 * children, longjmp and coroutines. Prints what the program sees; `shares` prints the CPU time of twenty
 * functions, `signal`, `taken`, `ignored`, `interrupted` and `woken` use the signal of the samples. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))
#define THREADS 10
static volatile double sink;
static volatile int profiled, urgent;

KEPT static void work(long n) {
  double x = 1;
  for (long i = 0; i < n; i++) x = x * 1.0000001 + 1e-9;
  sink = x;
}
static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
KEPT static void burn(double seconds) {
  for (double end = cpu_s() + seconds; cpu_s() < end;) work(100000);
}

/* ---- signals -------------------------------------------------------------------------------------------------- */

static void show_signals(void) {
  struct sigaction action;
  sigset_t mask;
  stack_t stack;
  for (int i = 1; i < 65; i++)
    if (!sigaction(i, NULL, &action) && action.sa_handler != SIG_DFL) printf("handler of %d\n", i);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  for (int i = 1; i < 65; i++)
    if (sigismember(&mask, i) == 1) printf("blocked %d\n", i);
  sigaltstack(NULL, &stack);
  printf("stack: flags %d, none %d\n", stack.ss_flags, !stack.ss_sp);
}
static int count_interrupted(int calls) {
  int interrupted = 0;
  for (int i = 0; i < calls; i++) {
    struct timespec pause = {0, 100000};
    struct timeval timeout = {0, 100};
    struct pollfd nothing = {0};
    work(20000);
    if (i % 4 == 0) interrupted += poll(&nothing, 0, 1) < 0;
    else if (i % 4 == 1) interrupted += nanosleep(&pause, NULL) < 0;
    else if (i % 4 == 2) interrupted += select(0, NULL, NULL, NULL, &timeout) < 0;
    else interrupted += usleep(100) < 0;
  }
  return interrupted;
}
static void on_profile(int number) {
  (void)number;
  profiled++;
}
static void on_urgent(int number) {
  (void)number;
  urgent++;
}
KEPT static void use_own_timer(void) {
  struct itimerval timer = {{0, 10000}, {0, 10000}};
  signal(SIGPROF, on_profile);
  setitimer(ITIMER_PROF, &timer, NULL);
  burn(0.3);
  for (int more = 0; profiled < 10 && more < 100; more++) burn(0.1); /* signals that are late become one */
  memset(&timer, 0, sizeof timer);
  setitimer(ITIMER_PROF, &timer, NULL);
  signal(SIGPROF, SIG_DFL);
  printf("own timer: %s\n", profiled >= 10 ? "ticks" : "stands still");
}
KEPT static void block_signals(void) {
  sigset_t all, before, pending;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  burn(0.1);
  sigpending(&pending);
  sigprocmask(SIG_SETMASK, &before, NULL);
  for (int i = 1; i < 65; i++)
    if (sigismember(&pending, i) == 1) printf("pending %d\n", i);
}
KEPT static void use_own_stack(void) {
  static char room[65536];
  stack_t own = {.ss_sp = room, .ss_size = sizeof room}, before;
  sigaltstack(&own, &before);
  burn(0.05);
  sigaltstack(&before, &own);
  printf("own stack: before %d, after %d\n", before.ss_flags, own.ss_sp == room);
  burn(0.05);
}
KEPT static void use_signal(void) {
  signal(SIGURG, SIG_IGN);
  burn(0.1);
  printf("ignored: %d\n", signal(SIGURG, SIG_DFL) == SIG_IGN);
  burn(0.1);
  printf("default: %d\n", signal(SIGURG, on_urgent) == SIG_DFL);
  burn(0.1);
  raise(SIGURG);
  printf("urgent: %d\n", urgent);
}

static void on_urgent_with_info(int number, siginfo_t *info, void *context) {
  (void)context;
  urgent += number == SIGURG && info->si_pid == getpid();
}
/* As libraries do that take each signal that would be an error, and in a rank none comes. */
KEPT static void take_signal(void) {
  printf("default: %d\n", signal(SIGURG, on_urgent) == SIG_DFL);
  burn(0.2);
  struct sigaction mine = {.sa_sigaction = on_urgent_with_info, .sa_flags = SA_SIGINFO}, before;
  sigaction(SIGURG, &mine, &before);
  printf("handled: %d, flags %x\n", before.sa_handler == on_urgent, (unsigned)before.sa_flags);
  burn(0.2);
  sigaction(SIGURG, NULL, &before);
  printf("handled: %d, flags %x\n", before.sa_sigaction == on_urgent_with_info, (unsigned)before.sa_flags);
}
static void *send_signal(void *target) {
  struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  pthread_kill(*(pthread_t *)target, SIGURG);
  return NULL;
}
/* It interrupts calls if the program asked for that, and wakes a thread that blocks it otherwise. */
KEPT static void be_interrupted(void) {
  int ends[2];
  char byte;
  pthread_t sender, self = pthread_self();
  take_signal();
  if (pipe(ends) || pthread_create(&sender, NULL, send_signal, &self)) return;
  printf("read: %zd %d\n", read(ends[0], &byte, 1), errno == EINTR);
  printf("urgent: %d\n", urgent);
  pthread_join(sender, NULL);
}
static pthread_t main_thread;
static void *send_signal_and_byte(void *end) {
  struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  pthread_kill(main_thread, SIGURG);
  nanosleep(&pause, NULL);
  if (write(*(int *)end, "x", 1) != 1) perror("write");
  return NULL;
}
/* A signal that is ignored interrupts nothing, whatever flags were set. */
KEPT static void ignore_signal(void) {
  int ends[2];
  char byte;
  pthread_t sender;
  struct sigaction mine = {.sa_handler = SIG_IGN};
  main_thread = pthread_self();
  sigaction(SIGURG, &mine, NULL);
  burn(0.3);
  if (pipe(ends) || pthread_create(&sender, NULL, send_signal_and_byte, &ends[1])) return;
  printf("read: %zd\n", read(ends[0], &byte, 1));
  pthread_join(sender, NULL);
}
KEPT static void be_woken(void) {
  sigset_t mask, before;
  take_signal();
  sigemptyset(&mask);
  sigaddset(&mask, SIGURG);
  sigprocmask(SIG_BLOCK, &mask, &before);
  pthread_kill(pthread_self(), SIGURG);
  printf("suspended: %d %d\n", sigsuspend(&before), errno == EINTR);
  printf("urgent: %d\n", urgent);
  sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- control flow --------------------------------------------------------------------------------------------- */

KEPT static void *in_thread(void *argument) {
  burn(0.02);
  return argument;
}
KEPT static void start_threads(void) {
  pthread_t threads[THREADS];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, in_thread, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
}
static jmp_buf before_jump;
KEPT static void jump(int n) {
  work(20000);
  if (n) longjmp(before_jump, n);
}
KEPT static void jump_often(void) {
  volatile int left = 5000;
  if (setjmp(before_jump)) left--;
  if (left) jump(left);
}
static ucontext_t outside, inside;
KEPT static void coroutine(void) {
  for (;;) {
    burn(0.01);
    swapcontext(&inside, &outside);
  }
}
KEPT static void resume_coroutine(void) {
  static char small[16384];
  getcontext(&inside);
  inside.uc_stack.ss_sp = small;
  inside.uc_stack.ss_size = sizeof small;
  makecontext(&inside, coroutine, 0);
  for (int i = 0; i < 20; i++) swapcontext(&outside, &inside);
}
KEPT static void start_children(void) {
  for (int i = 0; i < 20; i++) {
    int status = 0;
    pid_t child = fork();
    if (!child) {
      burn(0.005);
      if (i % 2) execl("/bin/true", "true", (char *)NULL);
      _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status) printf("child %d: status %d, errno %d\n", i, status, errno);
  }
}

/* ---- shares --------------------------------------------------------------------------------------------------- */

static double spent[20];
#define FUNCTION(i)              \
  KEPT static void f##i(void) {  \
    double begin = cpu_s();      \
    work(2000 + 1500 * i);       \
    spent[i] += cpu_s() - begin; \
  }
FUNCTION(0)
FUNCTION(1)
FUNCTION(2)
FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7) FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11)
    FUNCTION(12) FUNCTION(13) FUNCTION(14) FUNCTION(15) FUNCTION(16) FUNCTION(17) FUNCTION(18)
        FUNCTION(19) static void (*const functions[20])(void) = {f0,  f1,  f2,  f3,  f4,  f5,  f6,  f7,  f8,  f9,
                                                                 f10, f11, f12, f13, f14, f15, f16, f17, f18, f19};
KEPT static void show_shares(double seconds) {
  for (double end = cpu_s() + seconds; cpu_s() < end;)
    for (int i = 0; i < 20; i++) functions[i]();
  for (int i = 0; i < 20; i++) printf("f%d %.6f\n", i, spent[i]);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  if (count > 2 && !strcmp(words[1], "shares")) {
    show_shares(atof(words[2]));
  } else if (count > 1 && !strcmp(words[1], "signal")) {
    use_signal();
  } else if (count > 1 && !strcmp(words[1], "taken")) {
    take_signal();
  } else if (count > 1 && !strcmp(words[1], "ignored")) {
    ignore_signal();
  } else if (count > 1 && !strcmp(words[1], "interrupted")) {
    be_interrupted();
  } else if (count > 1 && !strcmp(words[1], "woken")) {
    be_woken();
  } else if (count > 1 && !strcmp(words[1], "timer")) {
    use_own_timer();
  } else if (count > 1) {
    show_signals();
    printf("interrupted: %d\n", count_interrupted(atoi(words[1])));
    block_signals();
    use_own_stack();
    start_threads();
    jump_often();
    resume_coroutine();
    start_children();
    show_signals();
  }
  MPI_Finalize();
}
