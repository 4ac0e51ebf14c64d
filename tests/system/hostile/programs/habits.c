/* Habits of programs that look at, limit or reuse their own process, one per word of the command line. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "many_functions.h"

CALLER(0) CALLER(1) CALLER(2) CALLER(3) CALLER(4) CALLER(5)
static int grow(void) { return caller0() + caller1() + caller2() + caller3() + caller4() + caller5(); }
static volatile int seen;
static char **words_of_main;

static int use_mpi(void) {
  int value = 1, sum = 0;
  for (int i = 0; i < 10; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  return sum;
}

static double processor_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
/* Use processor time, in functions that are called often. */
static int work(double seconds) {
  int sum = 0;
  for (double end = processor_s() + seconds; processor_s() < end;) sum |= f100(1) + f200(2) + f300(3);
  return sum;
}

static int entries(const char *path) {
  DIR *folder = opendir(path);
  int count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}
/* Threads, files, children and signals, as a test of leaks counts them. */
static void counts_itself(void) {
  char line[256];
  printf("threads %d files %d\n", entries("/proc/self/task") - 2, entries("/proc/self/fd") - 2);
  FILE *file = fopen("/proc/thread-self/children", "r");
  printf("children %d\n", file && fgets(line, sizeof line, file));
  if (file) fclose(file);
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, "SigP", 4) || !strncmp(line, "SigB", 4) || !strncmp(line, "SigI", 4) || !strncmp(line, "Shd", 3) || !strncmp(line, "VmLck", 5) || !strncmp(line, "Seccomp", 7) ||
        !strncmp(line, "Threads", 7) || !strncmp(line, "TracerPid", 9) || !strncmp(line, "VmSwap", 6))
      fputs(line, stdout);
  if (status) fclose(status);
}
/* What only the process itself can see, before and after MPI: none of it is inherited from a helper of ours. */
static void inherited(void) {
  printf("slack %d huge pages %d new privileges %d subreaper ", prctl(PR_GET_TIMERSLACK), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0),
         prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  int value = -1, name;
  prctl(PR_GET_CHILD_SUBREAPER, &value);
  prctl(PR_GET_PDEATHSIG, &name);
  printf("%d death signal %d priority %ld\n", value, name, syscall(SYS_ioprio_get, 1, 0));
  for (const char *const *path = (const char *const[]){"comm", "oom_score_adj", "coredump_filter", "autogroup", "loginuid", NULL}; *path; path++) {
    char whole[64], text[128] = "";
    snprintf(whole, sizeof whole, "/proc/self/%s", *path);
    FILE *file = fopen(whole, "r");
    if (file && fgets(text, sizeof text, file) && strcmp(*path, "autogroup")) printf("%s %s", *path, text);
    if (file) fclose(file);
  }
  printf("%s %d %d\n", program_invocation_short_name, getsid(0) == getpid(), getpgrp() == getpid());
  struct itimerval timer;
  for (int which = 0; which < 3; which++) getitimer(which, &timer), printf("timer %ld %ld\n", (long)timer.it_value.tv_sec, (long)timer.it_interval.tv_sec);
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void count(int number) { seen += number > 0; }
static void reap(int number) {
  int saved = errno;
  while (waitpid(-1, NULL, WNOHANG) > 0) seen++;
  errno = saved;
}
static void waits_for_any(void) {
  struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  for (int i = 0; i < 30; i++)
    if (!fork()) _exit(call_many() & 7);
  for (int i = 0; seen < 30 && i < 5000; i++) usleep(1000), grow();
  usleep(100000);
  int last = wait(NULL);
  printf("reaped %d, then %d %s\n", seen, last, strerrorname_np(errno));
}
/* A thread waits for every signal, while another one computes. */
static volatile int is_over;
static void *compute(void *unused) {
  work(1.0);
  is_over = 1;
  return unused;
}
static void waits_for_every_signal(void) {
  sigset_t every;
  pthread_t thread;
  sigfillset(&every);
  pthread_sigmask(SIG_BLOCK, &every, NULL);
  pthread_create(&thread, NULL, compute, NULL);
  int got = 0, number = 0;
  while (!is_over) {
    struct timespec pause = {0, 10000000};
    if ((number = sigtimedwait(&every, NULL, &pause)) > 0) got++, printf("got %d\n", number);
  }
  pthread_join(thread, NULL);
  work(0.5);
  sigset_t pending;
  sigpending(&pending);
  for (int i = 1; i < 65; i++) got += sigismember(&pending, i) == 1;
  printf("signals %d\n", got);
  pthread_sigmask(SIG_UNBLOCK, &every, NULL);
}
static void every_handler(void) {
  struct sigaction action = {.sa_handler = count};
  sigfillset(&action.sa_mask);
  for (int number = 1; number < 65; number++) sigaction(number, &action, NULL);
  work(0.7);
  printf("signals %d grown %d\n", seen, grow());
}
/* The functions of BSD and System V. */
static void other_interfaces(void) {
  extern __sighandler_t sigset(int, __sighandler_t);
  sigset_t pending;
  sighold(SIGURG);
  work(0.3);
  sigpending(&pending);
  printf("pending %d\n", sigismember(&pending, SIGURG));
  sigrelse(SIGURG);
  sigsetmask(sigblock(~0) | ~0);
  work(0.3);
  sigpending(&pending);
  printf("pending %d\n", sigismember(&pending, SIGURG));
  sigsetmask(0);
  printf("before %d\n", sigset(SIGURG, count) == SIG_DFL);
  work(0.3);
  printf("seen %d\n", seen);
  sigignore(SIGURG);
}
static void bsd_handler(void) {
  extern __sighandler_t ssignal(int, __sighandler_t);
  printf("before %d\n", ssignal(SIGURG, count) == SIG_DFL);
  work(0.3);
  printf("seen %d\n", seen);
}
/* Masks that are restored without a call of sigprocmask: jumps, contexts, handlers. Each works for ten samples. */
static sigjmp_buf blocked_here;
static ucontext_t blocked_context, here;
static void look_in_context(void) {
  sigset_t pending;
  work(0.1);
  sigpending(&pending);
  printf("in context: pending %d\n", sigismember(&pending, SIGURG));
}
static void look_in_handler(int number) {
  sigset_t pending, every;
  struct timespec none = {0};
  work(0.1);
  sigpending(&pending);
  sigfillset(&every);
  printf("in handler: pending %d waits %d\n", sigismember(&pending, SIGURG), sigtimedwait(&every, NULL, &none));
}
static void restored_masks(void) {
  sigset_t every, none, pending;
  sigfillset(&every);
  sigemptyset(&none);
  sigprocmask(SIG_BLOCK, &every, NULL);
  if (!sigsetjmp(blocked_here, 1)) {
    sigprocmask(SIG_SETMASK, &none, NULL);
    siglongjmp(blocked_here, 1);
  }
  work(0.1);
  sigpending(&pending);
  printf("after jump: pending %d\n", sigismember(&pending, SIGURG));
  sigprocmask(SIG_SETMASK, &none, NULL);
  getcontext(&blocked_context);
  blocked_context.uc_stack.ss_sp = malloc(1 << 20);
  blocked_context.uc_stack.ss_size = 1 << 20;
  blocked_context.uc_link = &here;
  sigfillset(&blocked_context.uc_sigmask);
  makecontext(&blocked_context, look_in_context, 0);
  swapcontext(&here, &blocked_context);
  struct sigaction action = {.sa_handler = look_in_handler, .sa_mask = every};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
}
/* Threads of the program that a timer switches, from inside the handler. */
static ucontext_t tasks[3], scheduler;
static volatile int current, switches, mixed;
static __thread int is_switched; /* not the threads of the library, which get signals, too */
static void preempt(int number) {
  if (!is_switched || current < 0) return;
  int task = current;
  switches++;
  current = -1;
  swapcontext(&tasks[task], &scheduler);
}
static void task(int number) {
  for (;;) {
    seen |= f150(number) + f250(number) + caller3();
    mixed += current != number; /* a scheduler has switched to the stack of another task */
  }
}
static void preempted(void) {
  struct sigaction action = {.sa_handler = preempt, .sa_flags = SA_RESTART};
  sigaction(SIGVTALRM, &action, NULL);
  is_switched = 1;
  current = -1;
  for (int i = 0; i < 3; i++) {
    getcontext(&tasks[i]);
    tasks[i].uc_stack.ss_sp = malloc(256 << 10);
    tasks[i].uc_stack.ss_size = 256 << 10;
    makecontext(&tasks[i], (void (*)(void))task, 1, i);
  }
  struct itimerval often = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
  sigset_t set; /* the scheduler is not interrupted */
  sigemptyset(&set);
  sigaddset(&set, SIGVTALRM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  setitimer(ITIMER_VIRTUAL, &often, NULL);
  for (int i = 0; i < 300; i++) {
    current = i % 3;
    swapcontext(&scheduler, &tasks[i % 3]);
  }
  setitimer(ITIMER_VIRTUAL, &off, NULL);
  printf("switched %d mixed %d mpi %d\n", switches >= 300, mixed, use_mpi());
}
/* Timers of the process, whose signals go to the main thread wherever it does not block them. */
static pthread_t main_thread;
static volatile int in_main, elsewhere;
static void count_thread(int number) {
  if (pthread_equal(pthread_self(), main_thread)) in_main++;
  else elsewhere++;
}
static void work_long(void) { work(1.0); }
static void *wait_long(void *unused) {
  while (!is_over) usleep(1000);
  return unused;
}
static void count_threads_of(const char *name, int number, int (*start)(void), int (*stop)(void)) {
  struct sigaction action = {.sa_handler = count_thread, .sa_flags = SA_RESTART};
  in_main = elsewhere = 0;
  sigaction(number, &action, NULL);
  start();
  work(0.5);
  stop();
  printf("%s: most in main %d\n", name, in_main > 5 * elsewhere);
}
static const struct itimerval often = {{0, 2000}, {0, 2000}}, off;
static timer_t timer;
static int start_real(void) { return setitimer(ITIMER_REAL, &often, NULL); }
static int stop_real(void) { return setitimer(ITIMER_REAL, &off, NULL); }
static int start_virtual(void) { return setitimer(ITIMER_VIRTUAL, &often, NULL); }
static int stop_virtual(void) { return setitimer(ITIMER_VIRTUAL, &off, NULL); }
static int start_posix(void) {
  const struct itimerspec times = {{0, 2000000}, {0, 2000000}};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  return timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) || timer_settime(timer, 0, &times, NULL);
}
static int stop_posix(void) { return timer_delete(timer); }
static int start_alarms(void) { return (int)ualarm(2000, 2000); }
static int stop_alarms(void) { return (int)ualarm(0, 0); }
static void beside_a_thread(void (*run)(void)) {
  pthread_t thread;
  main_thread = pthread_self();
  pthread_create(&thread, NULL, wait_long, NULL);
  run();
  is_over = 1;
  pthread_join(thread, NULL);
}
static void count_real(void) {
  count_threads_of("alarms", SIGALRM, start_alarms, stop_alarms);
  count_threads_of("real time", SIGALRM, start_real, stop_real);
}
static void count_virtual(void) { count_threads_of("virtual time", SIGVTALRM, start_virtual, stop_virtual); }
static void count_posix(void) { count_threads_of("posix", SIGPROF, start_posix, stop_posix); }
static void process_timers(void) { beside_a_thread(count_real); }
static void virtual_timers(void) { beside_a_thread(count_virtual); }
static void posix_timers(void) { beside_a_thread(count_posix); }
/* The program is executed again with its timer, which goes on. */
static void inherits_timers(void) {
  main_thread = pthread_self();
  if (!getenv("HAS_TIMER")) {
    setenv("HAS_TIMER", "1", 1);
    signal(SIGVTALRM, SIG_IGN);
    start_virtual();
    execv("/proc/self/exe", words_of_main);
  }
  signal(SIGVTALRM, count_thread);
}
static void inherited_timers(void) {
  beside_a_thread(work_long);
  printf("inherited: most in main %d\n", in_main > 5 * elsewhere);
}
/* Handlers of a timer of the process, whose signals often come at the same tick as a sample. */
static sigjmp_buf after_tick;
static volatile int other_signals;
static int use_stack(size_t bytes) {
  volatile char area[bytes];
  for (size_t i = bytes; i >= 1024; i -= 1024) area[i - 1] = 1;
  return area[bytes - 1];
}
static void use_a_megabyte(int number) {
  if (pthread_equal(pthread_self(), main_thread)) seen += use_stack(1 << 20);
}
static void leave_without_mask(int number) {
  if (is_switched) siglongjmp(after_tick, 1);
}
static void tick_while(void (*handler)(int), void (*run)(void)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  main_thread = pthread_self();
  is_switched = 1;
  sigaction(SIGVTALRM, &action, NULL);
  start_virtual();
  run();
  stop_virtual();
}
static void work_beside_jumps(void) {
  sigset_t mask, tick;
  sigemptyset(&tick);
  sigaddset(&tick, SIGVTALRM);
  for (volatile int i = 0; i < 300; i++) {
    if (!sigsetjmp(after_tick, 0)) work(1.0);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++) other_signals += number != SIGVTALRM && sigismember(&mask, number) == 1;
    sigprocmask(SIG_UNBLOCK, &tick, NULL);
  }
}
static void run_deep_handlers(void) {
  tick_while(use_a_megabyte, work_long);
  printf("deep %d mpi %d\n", seen > 5, use_mpi());
}
static void deep_handlers(void) {
  size_t bytes = 16 << 10;
  char *area = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(area, 4096, PROT_NONE);
  sigaltstack(&(stack_t){.ss_sp = area + 4096, .ss_size = bytes}, NULL);
  run_deep_handlers();
  sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
  run_deep_handlers();
}
static void jumps_without_masks(void) {
  tick_while(leave_without_mask, work_beside_jumps);
  printf("blocked %d mpi %d\n", other_signals, use_mpi());
}
/* A collector of garbage stops threads by signals, and looks through their stacks from the handler's frame on. */
static __thread char *bottom, *top;
static volatile int outside, stops;
static void stop_thread(int number) {
  char *here = __builtin_frame_address(0);
  if (bottom) outside += here < bottom || here >= top;
  __atomic_fetch_add(&stops, 1, __ATOMIC_RELAXED);
}
static void *compute_on_own_stack(void *unused) {
  pthread_attr_t attributes;
  void *start;
  size_t bytes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &start, &bytes);
  pthread_attr_destroy(&attributes);
  top = (char *)start + bytes;
  bottom = start;
  while (!is_over) work(0.05);
  bottom = NULL;
  return unused;
}
static void collects_garbage(void) {
  pthread_t threads[4];
  struct sigaction action = {.sa_handler = stop_thread, .sa_flags = SA_RESTART};
  sigfillset(&action.sa_mask);
  for (const int *number = (const int[]){SIGUSR1, SIGUSR2, SIGPWR, SIGXCPU, SIGRTMIN + 5, 0}; *number; number++)
    sigaction(*number, &action, NULL);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, compute_on_own_stack, NULL);
  for (int i = 0; i < 3000; i++) {
    const int numbers[] = {SIGUSR1, SIGPWR, SIGXCPU, SIGRTMIN + 5, SIGUSR2};
    for (int k = 0; k < 4; k++) pthread_kill(threads[k], numbers[i % 5]);
    usleep(1000);
  }
  is_over = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("stopped %d outside of stacks %d\n", stops > 3000, outside);
}
/* A handler of the program's own for the signal, while other threads compute. */
static void *compute_long(void *unused) {
  while (!is_over) work(0.05);
  return unused;
}
static void handler_beside_threads(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, compute_long, NULL);
  work(0.2);
  signal(SIGURG, count);
  work(0.3);
  printf("seen %d\n", seen);
  is_over = 1;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}
/* Coroutines on stacks of 4 KiB with a page below that cannot be used, which compute for long. */
static ucontext_t small_context, big_context;
static void on_small_stack(void) {
  seen = work(0.5);
}
static void small_coroutines(void) {
  work(0.001); /* binds its functions */
  size_t bytes = 4 << 10; /* too little for a signal */
  for (int i = 0; i < 3; i++) {
    char *area = mmap(NULL, bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area, 4096, PROT_NONE);
    seen = 0;
    getcontext(&small_context);
    small_context.uc_stack.ss_sp = area + 4096;
    small_context.uc_stack.ss_size = bytes;
    small_context.uc_link = &big_context;
    makecontext(&small_context, on_small_stack, 0);
    swapcontext(&big_context, &small_context);
    printf("small stack %d\n", seen != 0);
  }
}
/* The program sets an alternate stack and removes it again: small stacks have to do then. */
static void removed_signal_stack(void) {
  static char area[1 << 16];
  stack_t own = {.ss_sp = area, .ss_size = sizeof area}, none = {.ss_flags = SS_DISABLE}, now;
  sigaltstack(&own, NULL);
  work(0.1);
  sigaltstack(&none, &now);
  printf("own %d\n", now.ss_sp == area);
  sigaltstack(NULL, &now);
  printf("none %d\n", now.ss_flags == SS_DISABLE);
  small_coroutines();
}
/* The smallest alternate stack that the system allows, with a page below it that cannot be used. */
static void smallest_signal_stack(void) {
  size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ), room = (bytes + 4095) / 4096 * 4096;
  char *area = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(area, 4096, PROT_NONE);
  stack_t stack = {.ss_sp = area + 4096, .ss_size = bytes}, now;
  int failed = sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  work(0.3);
  sigaltstack(NULL, &now);
  printf("stack %d seen %d same %d\n", failed, seen, now.ss_sp == stack.ss_sp && now.ss_size == bytes);
}
static void spawn_in_handler(int number) {
  int saved = errno;
  pid_t child = number == SIGUSR1 ? vfork() : fork();
  if (!child) {
    if (number == SIGUSR1) execl("/bin/sh", "sh", "-c", "exit 5", NULL);
    _exit(6);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  seen += WEXITSTATUS(status);
  errno = saved;
}
static void handlers_spawn(void) {
  signal(SIGUSR1, spawn_in_handler);
  signal(SIGUSR2, spawn_in_handler);
  for (int i = 0; i < 10; i++) raise(SIGUSR1), raise(SIGUSR2), grow();
  printf("codes %d\n", seen);
}
static void abort_in_handler(int number) { MPI_Abort(MPI_COMM_WORLD, 5); }
static void handler_aborts(void) {
  signal(SIGALRM, abort_in_handler);
  ualarm(50000, 0);
  for (;;) grow();
}

/* Memory that a handler of SIGSEGV maps when it is used, as distributed shared memory does: arguments of MPI calls. */
static char *paged;
static volatile int faults;
static void map_page(int number, siginfo_t *info, void *context) {
  faults++;
  mprotect((char *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}
#define PAGED(CALL) (mprotect(paged, 6 * 4096, PROT_NONE), CALL)
static void paged_arguments(void) {
  paged = mmap(NULL, 6 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_sigaction = map_page, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  int *counts = (int *)paged, *places = (int *)(paged + 4096), *indices = (int *)(paged + 16384), *length = (int *)(paged + 20480);
  MPI_Request *requests = (MPI_Request *)(paged + 8192);
  MPI_Status *states = (MPI_Status *)(paged + 12288);
  int size, rank, out[64], in[64], flag;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < size; i++) counts[i] = 1, places[i] = i;
  for (int i = 0; i < 64; i++) out[i] = rank + i;
  for (int round = 0; round < 50; round++) {
    PAGED(MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    PAGED(MPI_Allgatherv(out, 1, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    PAGED(MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int how = 0; how < 2; how++) {
      for (int i = 0; i < 2; i++) PAGED(MPI_Irecv(in + i, 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]));
      for (int i = 0; i < 2; i++) PAGED(MPI_Isend(out + i, 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[2 + i]));
      if (how) PAGED(MPI_Waitall(4, requests, states));
      for (int left = how ? 0 : 4; left > 0; left -= *length) PAGED(MPI_Waitsome(4, requests, length, indices, states));
    }
    PAGED(MPI_Recv_init(in, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &requests[0]));
    PAGED(MPI_Send_init(out, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &requests[1]));
    PAGED(MPI_Startall(2, requests));
    for (flag = 0; !flag;) PAGED(MPI_Testall(2, requests, &flag, states));
    for (int i = 0; i < 2; i++) PAGED(MPI_Request_free(&requests[i]));
  }
  printf("faults %d received %d\n", faults > 300, in[0]);
}
/* A checkpoint that writes what has changed: the heap is read-only until it is written. */
static void write_barrier(void) {
  struct sigaction action = {.sa_sigaction = map_page, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  char *start = sbrk(0);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  char *block = malloc(1 << 20);
  for (int round = 0; round < 20; round++) {
    char *first = (char *)((uintptr_t)(block < start ? block : start) & ~4095ul);
    mprotect(first, (size_t)((char *)sbrk(0) - first) & ~4095ul, PROT_READ);
    work(0.03);
    for (int i = 0; i < 1 << 20; i += 4096) block[i] = (char)round;
    grow();
    for (int i = 0; i < 100; i++) free(malloc((size_t)i * 100));
    use_mpi();
  }
  printf("faults %d mpi %d\n", faults > 4000, use_mpi());
}
/* Coroutines as QEMU and GNU Pth make them: a handler on an alternate stack saves its context, and the stack stays. */
static sigjmp_buf reenter, outer, coroutines[4];
static volatile int which, is_called, steps;
static void __attribute__((noinline)) run_coroutine(void) {
  int own = which;
  if (!sigsetjmp(coroutines[own], 0)) siglongjmp(outer, 1);
  for (;;) {
    steps += work(0.01) != 0;
    if (!sigsetjmp(coroutines[own], 0)) siglongjmp(outer, 1);
  }
}
static void save_context(int number) {
  is_called = 1;
  if (sigsetjmp(reenter, 0)) run_coroutine();
}
static void signal_stack_coroutines(void) {
  struct sigaction action = {.sa_handler = save_context, .sa_flags = SA_ONSTACK}, before;
  sigset_t set, mask;
  stack_t stack, old;
  for (which = 0; which < 4; which++) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &mask);
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR2, &action, &before);
    stack = (stack_t){.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&stack, &old);
    is_called = 0;
    pthread_kill(pthread_self(), SIGUSR2);
    sigfillset(&set);
    sigdelset(&set, SIGUSR2);
    while (!is_called) sigsuspend(&set);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    if (!(old.ss_flags & SS_DISABLE)) sigaltstack(&old, NULL);
    sigaction(SIGUSR2, &before, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (!sigsetjmp(outer, 0)) siglongjmp(reenter, 1);
  }
  for (volatile int turn = 0; turn < 80; turn++) {
    which = turn % 4;
    if (!sigsetjmp(outer, 0)) siglongjmp(coroutines[which], 1);
  }
  int blocked = 0;
  sigprocmask(SIG_BLOCK, NULL, &set);
  for (int number = 1; number < 65; number++) blocked += sigismember(&set, number) == 1;
  printf("steps %d blocked %d\n", steps, blocked);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Floating-point exceptions, rounding, denormals: our code neither raises, traps nor changes them. */
static void floating_point(void) {
  feclearexcept(FE_ALL_EXCEPT);
  int grown = grow();
  work(0.2);
  printf("raised %d grown %d\n", fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW), grown);
  feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW);
  fesetround(FE_UPWARD);
  unsigned control = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(control | 0x8040); /* flush to zero */
  for (int i = 0; i < 20; i++) use_mpi(), grow();
  work(0.3);
  free(malloc(100));
  unsigned after = __builtin_ia32_stmxcsr();
  printf("control %x %x rounding %d traps %d\n", (control | 0x8040) & ~0x3fu, after & ~0x3fu, fegetround() == FE_UPWARD, fegetexcept());
}
static void inexact_traps(void) { /* as tests of interval arithmetic set it */
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INEXACT);
  int grown = caller2() + f170(1);
  for (int i = 0; i < 5; i++) free(malloc(100 + i));
  int flag;
  MPI_Initialized(&flag);
  fedisableexcept(FE_ALL_EXCEPT);
  printf("grown %d\n", grown);
}
__attribute__((noinline)) static long double extended(long double x, double y, float z) { return x * y + z; }
__attribute__((noinline)) static _Complex double complex_value(_Complex double x) { return x * x; }
static void values_pass(void) {
  long double sum = 0;
  _Complex double value = 1.0 + 0.5i;
  for (int i = 0; i < 1000; i++) sum += extended((long double)i / 3, i * 0.1, 0.7f), value = complex_value(value) / 1.7;
  printf("%.18Lg %.15g %.15g\n", sum, __real__ value, __imag__ value);
}
static void keeps_errno(void) {
  errno = 77;
  int grown = grow();
  int after_grow = errno;
  errno = 78;
  free(malloc(10));
  free(malloc(1 << 22));
  printf("errno %d %d grown %d\n", after_grow, errno, grown);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *allocate(void *unused) {
  void *blocks[20];
  for (int i = 0; i < 20; i++) blocks[i] = malloc(100 * (size_t)(i + 1));
  seen += caller1() * 0;
  for (int i = 0; i < 20; i++) free(blocks[i]);
  return unused;
}
static void crowd(void) {
  static pthread_t threads[1500];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  int started = 0;
  for (int wave = 0; wave < 3; wave++) {
    int here_started = 0;
    for (int i = 0; i < 1500; i++) here_started += !pthread_create(&threads[here_started], &attributes, allocate, NULL);
    for (int i = 0; i < here_started; i++) pthread_join(threads[i], NULL);
    started += here_started;
  }
  printf("threads %d\n", started);
}
static void *allocate_always(void *unused) {
  while (!is_over) allocate(NULL);
  return unused;
}
static void forks_beside_malloc(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, allocate_always, NULL);
  int good = 0;
  for (int i = 0; i < 100; i++) {
    pid_t child = fork();
    if (!child) {
      for (int j = 0; j < 50; j++) free(malloc(1000));
      exit(grow() ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
  }
  is_over = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("good %d\n", good);
}
static int standard_thread(void *unused) { return work(0.1) + call_many() > 0 ? 9 : 8; }
static void standard_threads(void) {
  thrd_t threads[8];
  int sum = 0, value;
  for (int i = 0; i < 8; i++) thrd_create(&threads[i], standard_thread, NULL);
  for (int i = 0; i < 8; i++) thrd_join(threads[i], &value), sum += value;
  printf("standard %d\n", sum);
}
static void *outlive(void *unused) {
  usleep(200000);
  printf("last %d\n", grow() != 0);
  fflush(stdout);
  return unused; /* the last thread: the process ends with 0 */
}
static void main_leaves(void) {
  pthread_t thread;
  MPI_Finalize();
  pthread_create(&thread, NULL, outlive, NULL);
  pthread_exit(NULL);
}
static void *cancelled_in_call(void *unused) {
  char byte;
  int ends[2];
  if (!pipe(ends)) seen += (int)read(ends[0], &byte, 1);
  return unused;
}
static void *cancelled_in_malloc(void *unused) {
  for (;;) {
    free(malloc(5000));
    pthread_testcancel();
  }
  return unused;
}
static void cancels(void) {
  int cancelled = 0;
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    void *value;
    pthread_create(&thread, NULL, i % 2 ? cancelled_in_call : cancelled_in_malloc, NULL);
    usleep((unsigned)i * 5);
    pthread_cancel(thread);
    pthread_join(thread, &value);
    cancelled += value == PTHREAD_CANCELED;
  }
  printf("cancelled %d\n", cancelled);
}
static void timer_thread(union sigval value) { seen += value.sival_int * 0 + call_many() * 0 + 1; }
static void timer_threads(void) {
  timer_t timer, second;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = timer_thread};
  struct itimerspec often = {{0, 3000000}, {0, 3000000}};
  printf("created %d\n", timer_create(CLOCK_MONOTONIC, &event, &timer));
  timer_settime(timer, 0, &often, NULL);
  while (seen < 50) grow();
  timer_delete(timer);
  struct sigevent none = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  printf("second %d\n", timer_create(CLOCK_PROCESS_CPUTIME_ID, &none, &second));
}

/* ---- limits, filters and namespaces --------------------------------------------------------------------------------- */

/* Calls that the filter of a container refuses; the rest goes on. */
static void filter(unsigned answer, const int *calls, size_t length) {
  struct sock_filter code[32] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (size_t i = 0; i < length; i++)
    code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], length - i, 0);
  code[length + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[length + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
  struct sock_fprog program = {(unsigned short)(length + 3), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("filter");
}
static const int refused[] = {SYS_perf_event_open, SYS_timer_create, SYS_timer_settime, SYS_inotify_init1,
                              SYS_userfaultfd, SYS_ptrace, SYS_kcmp, SYS_fallocate, SYS_mlock};
static void start_filtered(unsigned answer) {
  if (getenv("IS_FILTERED")) return;
  setenv("IS_FILTERED", "1", 1);
  filter(answer, refused, sizeof refused / sizeof *refused);
  execv("/proc/self/exe", words_of_main);
}
static void full_maps(void) {
  long maps = 0;
  while (mmap(NULL, 4096, maps % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) maps++;
  int grown = grow();
  pthread_t thread;
  int failed = pthread_create(&thread, NULL, compute, NULL);
  if (!failed) pthread_join(thread, NULL);
  printf("maps %d grown %d\n", maps > 10000, grown);
  _exit(3);
}
static void low_addresses(void) {
  int mapped = 0, taken = 0;
  for (uintptr_t at = 0x10000; at < 0x400000; at += 0x10000)
    mapped += mmap((void *)at, 0x10000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
  for (uintptr_t at = 0x100000000000; at < 0x500000000000; at += 0x10000000000)
    taken += mmap((void *)at, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED;
  printf("low %d taken %d grown %d\n", mapped, taken, grow());
}
static void new_process_ids(void) {
  if (unshare(CLONE_NEWPID)) printf("unshare %s\n", strerrorname_np(errno));
  pid_t child = fork();
  if (!child) {
    int is_first = getpid() == 1;
    pid_t second = fork();
    if (!second) exit(grow() ? 4 : 5);
    int status;
    waitpid(second, &status, 0);
    printf("child %d %d\n", is_first, WEXITSTATUS(status));
    exit(use_mpi() + 5);
  }
  int status;
  waitpid(child, &status, 0);
  printf("status %d mpi %d\n", WEXITSTATUS(status), use_mpi());
}
static void other_limits(void) {
  for (const int *what = (const int[]){RLIMIT_SIGPENDING, RLIMIT_NPROC, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK, RLIMIT_LOCKS, -1}; *what >= 0; what++)
    setrlimit((__rlimit_resource_t)*what, &(struct rlimit){0, 0});
  if (!getenv("IS_LIMITED")) {
    setenv("IS_LIMITED", "1", 1);
    execv("/proc/self/exe", words_of_main);
  }
}
static void traced_by_child(void) {
  int ends[2];
  pid_t parent = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (pipe(ends)) return;
  pid_t child = fork();
  if (!child) {
    int failed = 0, status = 0;
    for (int i = 0; i < 20; i++) {
      failed += ptrace(PTRACE_ATTACH, parent, NULL, NULL) != 0;
      waitpid(parent, &status, __WALL);
      failed += !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP;
      failed += ptrace(PTRACE_DETACH, parent, NULL, NULL) != 0;
      usleep(2000);
    }
    _exit(failed);
  }
  int status;
  while (!waitpid(child, &status, WNOHANG)) grow(), work(0.001);
  printf("attached %d\n", WEXITSTATUS(status));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void allocator_counts(void) {
  mallopt(M_MMAP_THRESHOLD, 1 << 16);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_PERTURB, 0xa5);
  grow();
  struct mallinfo2 before = mallinfo2();
  void *blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = malloc(1000 * (size_t)(i + 1));
  struct mallinfo2 inside = mallinfo2();
  unsigned char *block = blocks[5];
  int usable = malloc_usable_size(block) >= 6000, byte = block[3];
  for (int i = 0; i < 100; i++) free(blocks[i]);
  grow();
  struct mallinfo2 after = mallinfo2();
  printf("in use %zu mapped %zu after %zu usable %d byte %x\n", inside.uordblks - before.uordblks, inside.hblks - before.hblks,
         after.uordblks - before.uordblks, usable, byte);
}
static void odd_allocations(void) {
  void *p = NULL;
  int failed = posix_memalign(&p, 24, 10);
  printf("memalign %d %d\n", failed, posix_memalign(&p, 4096, 10000));
  free(p);
  errno = 0;
  p = malloc((size_t)-1);
  printf("huge %d %s\n", p == NULL, strerrorname_np(errno));
  errno = 0;
  p = calloc((size_t)1 << 40, (size_t)1 << 40);
  printf("calloc %d %s\n", p == NULL, strerrorname_np(errno));
  p = malloc(0);
  printf("zero %d\n", p != NULL);
  p = realloc(p, 0);
  printf("realloc %d\n", p == NULL);
  errno = 0;
  p = reallocarray(NULL, (size_t)1 << 40, (size_t)1 << 40);
  printf("array %d %s\n", p == NULL, strerrorname_np(errno));
  p = aligned_alloc(64, 128);
  printf("aligned %d\n", ((uintptr_t)p & 63) == 0);
  free(p);
  p = valloc(10);
  free(p);
  p = pvalloc(10);
  printf("pvalloc %d\n", ((uintptr_t)p & 4095) == 0 && malloc_usable_size(p) >= 4096);
  free(p);
  errno = 55;
  free(NULL);
  free(malloc(1 << 24));
  printf("errno %d\n", errno);
}

/* ---- ends and new programs ----------------------------------------------------------------------------------------- */

static void last_words(void) { printf("atexit %d\n", call_many() != 0); }
static void status_words(int status, void *text) { printf("on_exit %d %s %d\n", status, (char *)text, use_mpi()); }
static void quick_words(void) {
  printf("at_quick_exit %d\n", grow() != 0);
  fflush(stdout);
}
static void exit_handlers(void) {
  atexit(last_words);
  on_exit(status_words, "text");
  exit(4); /* MPI is used in the handlers, and is not finalized */
}
static void leaves_quickly(void) {
  at_quick_exit(quick_words);
  MPI_Finalize();
  quick_exit(9);
}
static void executes_again(void) {
  const char *left = getenv("LEFT");
  int n = left ? atoi(left) : 4;
  char text[16];
  extern char **environ;
  int variables = 0;
  while (environ[variables]) variables++;
  printf("%s left %d grown %d\n", words_of_main[0], n, grow());
  if (!n) {
    for (char **entry = environ; *entry; entry++)
      if (strstr(*entry, "INSITU_") == *entry && !strstr(*entry, "INSITU_TABLES")) printf("variable %s\n", *entry);
    return;
  }
  snprintf(text, sizeof text, "%d", n - 1);
  setenv("LEFT", text, 1);
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  char name[32];
  snprintf(name, sizeof name, "renamed%d", n);
  char *words[] = {name, "executes-again", NULL};
  if (n == 3) fexecve(file, words, environ);
  if (n == 2) execveat(file, "", words, environ, AT_EMPTY_PATH);
  execv("/proc/self/exe", words);
}
static void empty_execution(void) {
  char *words[] = {"empty", "nothing", NULL}, *none[] = {NULL};
  execve("/proc/self/exe", words, none);
}
/* The title of the process, over arguments and variables, as servers set it. */
static void set_title(void) {
  extern char **environ;
  char *end = words_of_main[0];
  for (char **word = words_of_main; *word; word++)
    if (*word == end) end += strlen(*word) + 1;
  for (char **entry = environ; *entry; entry++)
    if (*entry == end) end += strlen(*entry) + 1;
  int length = 0;
  while (environ[length]) length++;
  char **copy = malloc(sizeof *copy * (size_t)(length + 1));
  for (int i = 0; i < length; i++) copy[i] = strdup(environ[i]);
  copy[length] = NULL;
  environ = copy;
  memset(words_of_main[0], 0, (size_t)(end - words_of_main[0]));
  memset(words_of_main[0], 'T', 40);
  printf("title %d grown %d\n", end - words_of_main[0] > 100, grow());
  fflush(stdout);
  printf("child %d\n", WEXITSTATUS(system("exit 3")));
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

static int own_calls, levels;
int MPI_Pcontrol(const int level, ...) { /* the program's own layer */
  levels += level;
  return MPI_SUCCESS;
}
int MPI_Ssend(const void *data, int length, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  own_calls++;
  return PMPI_Ssend(data, length, type, to, tag, comm);
}
static void own_layer(void) {
  int value = 1, got = 0;
  MPI_Request request;
  for (int i = 0; i < 20; i++) {
    MPI_Pcontrol(1, "phase", &value);
    MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    MPI_Ssend(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  printf("own %d levels %d\n", own_calls, levels);
}
static int query(void *state, MPI_Status *status) {
  MPI_Status_set_elements(status, MPI_INT, 3);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  (*(int *)state)++;
  return MPI_SUCCESS;
}
static int release(void *state) { return (*(int *)state) += 10, MPI_SUCCESS; }
static int cancel_it(void *state, int complete) { return MPI_SUCCESS; }
static MPI_Request generalized;
static void *complete(void *unused) {
  usleep(10000);
  MPI_Grequest_complete(generalized);
  return unused;
}
static void generalized_requests(void) {
  int state = 0, length = 0;
  MPI_Status status;
  pthread_t thread;
  for (int i = 0; i < 5; i++) {
    MPI_Grequest_start(query, release, cancel_it, &state, &generalized);
    pthread_create(&thread, NULL, complete, NULL);
    MPI_Wait(&generalized, &status);
    pthread_join(thread, NULL);
    MPI_Get_count(&status, MPI_INT, &length);
  }
  printf("state %d length %d\n", state, length);
}
static void persistent(void) {
  int out[4] = {1, 2, 3, 4}, in[4] = {0}, rank, size, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Request requests[2];
  MPI_Send_init(out, 4, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in, 4, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 10; i++) MPI_Startall(2, requests), MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), sum += in[3];
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
#if MPI_VERSION >= 4
  MPI_Request parts[2], reduction;
  MPI_Psend_init(out, 4, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[0]);
  MPI_Precv_init(in, 4, 1, MPI_INT, (rank + size - 1) % size, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[1]);
  for (int i = 0; i < 3; i++) {
    MPI_Startall(2, parts);
    MPI_Pready_range(0, 3, parts[0]);
    MPI_Waitall(2, parts, MPI_STATUSES_IGNORE);
    sum += in[0];
  }
  MPI_Request_free(&parts[0]);
  MPI_Request_free(&parts[1]);
  MPI_Allreduce_init(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &reduction);
  for (int i = 0; i < 4; i++) MPI_Start(&reduction), MPI_Wait(&reduction, MPI_STATUS_IGNORE), sum += in[0];
  MPI_Request_free(&reduction);
  MPI_Allreduce_c(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Request send;
  MPI_Isend_c(out, 4, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &send);
  MPI_Recv_c(in, 4, MPI_INT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
#endif
  printf("persistent %d\n", sum);
}
static void disconnects(void) {
  int rank, size, value = 7, got = 0;
  MPI_Comm half, other, merged;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  if (size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &other);
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
    MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, other);
    MPI_Intercomm_merge(other, rank % 2, &merged);
    MPI_Barrier(merged);
    MPI_Comm_disconnect(&merged);
    MPI_Comm_disconnect(&other);
  }
  MPI_Comm_disconnect(&half);
  printf("got %d\n", got);
}
static void *whole_mpi(void *unused) {
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  int is_main = 0;
  MPI_Is_thread_main(&is_main);
  printf("main %d sum %d grown %d\n", is_main, use_mpi(), grow());
  MPI_Finalize();
  return unused;
}
static void new_codes(void) {
  int class_of, code, length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Add_error_class(&class_of);
  MPI_Add_error_code(class_of, &code);
  MPI_Add_error_string(code, "own error");
  MPI_Error_string(code, text, &length);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  printf("%s %d\n", text, MPI_Comm_call_errhandler(MPI_COMM_SELF, code) == MPI_SUCCESS);
  char *area = malloc(1 << 16);
  int value = 1, got;
  MPI_Buffer_attach(area, 1 << 16);
  MPI_Bsend(&value, 1, MPI_INT, 0, 3, MPI_COMM_SELF);
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&area, &length);
  printf("detached %d %d\n", length, got);
}

static const struct {
  const char *word;
  void (*run)(void);
} words[] = {{"counts-itself", counts_itself}, {"inherited", inherited}, {"waits-for-any", waits_for_any},
             {"waits-for-every-signal", waits_for_every_signal}, {"every-handler", every_handler},
             {"other-interfaces", other_interfaces}, {"bsd-handler", bsd_handler}, {"restored-masks", restored_masks},
             {"preempted", preempted}, {"small-coroutines", small_coroutines},
             {"process-timers", process_timers}, {"virtual-timers", virtual_timers},
             {"posix-timers", posix_timers}, {"inherited-timers", inherited_timers},
             {"deep-handlers", deep_handlers},
             {"paged-arguments", paged_arguments},
             {"write-barrier", write_barrier}, {"signal-stack-coroutines", signal_stack_coroutines},
             {"jumps-without-masks", jumps_without_masks}, {"collects-garbage", collects_garbage},
             {"handler-beside-threads", handler_beside_threads}, {"removed-signal-stack", removed_signal_stack},
             {"smallest-signal-stack", smallest_signal_stack}, {"handlers-spawn", handlers_spawn},
             {"handler-aborts", handler_aborts}, {"floating-point", floating_point}, {"inexact-traps", inexact_traps},
             {"values-pass", values_pass}, {"keeps-errno", keeps_errno}, {"crowd", crowd},
             {"forks-beside-malloc", forks_beside_malloc}, {"standard-threads", standard_threads},
             {"main-leaves", main_leaves}, {"cancels", cancels}, {"timer-threads", timer_threads},
             {"full-maps", full_maps}, {"low-addresses", low_addresses}, {"new-process-ids", new_process_ids},
             {"traced-by-child", traced_by_child}, {"allocator-counts", allocator_counts},
             {"odd-allocations", odd_allocations}, {"exit-handlers", exit_handlers}, {"leaves-quickly", leaves_quickly},
             {"empty-execution", empty_execution}, {"set-title", set_title}, {"own-layer", own_layer},
             {"generalized-requests", generalized_requests}, {"persistent", persistent}, {"disconnects", disconnects},
             {"new-codes", new_codes}};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  int provided;
  words_of_main = argv;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(word, "nothing")) return puts("executed"), 3;
  if (!strcmp(word, "inherited")) inherited();
  if (!strcmp(word, "executes-again")) executes_again();
  if (!strcmp(word, "inherited-timers")) inherits_timers();
  if (!strcmp(word, "refused-calls")) start_filtered(SECCOMP_RET_ERRNO | EPERM);
  if (!strcmp(word, "unknown-calls")) start_filtered(SECCOMP_RET_ERRNO | ENOSYS);
  if (!strcmp(word, "fatal-calls")) start_filtered(SECCOMP_RET_KILL_PROCESS);
  if (!strcmp(word, "trapped-calls")) start_filtered(SECCOMP_RET_TRAP);
  if (!strcmp(word, "other-limits")) other_limits();
  if (!strcmp(word, "other-thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, whole_mpi, NULL);
    pthread_join(thread, NULL);
    return 2;
  }
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  printf("sum %d\n", use_mpi());
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].word, word)) words[i].run();
  printf("sum %d %d\n", use_mpi(), work(0.05) != 0);
  MPI_Finalize();
  return 0;
}
