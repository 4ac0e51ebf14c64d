/* Rare corners of the kernel, the C library and MPI, one per word of the command line. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "many_functions.h"

static volatile int seen;
static jmp_buf back;
static sigjmp_buf signal_back;

static void count(int number) {
  (void)number;
  seen++;
}

__attribute__((noinline)) static long deep(long n) {
  volatile char pad[64] = {(char)n};
  return n ? deep(n - 1) + pad[0] * 0 + 1 : 0;
}

/* Call paths multiply rows: 500 functions below each of 20 callers. */
CALLER(0) CALLER(1) CALLER(2) CALLER(3) CALLER(4) CALLER(5) CALLER(6) CALLER(7) CALLER(8) CALLER(9)
static int grow(void) {
  return caller0() + caller1() + caller2() + caller3() + caller4() + caller5() + caller6() + caller7() + caller8() + caller9();
}

static int use_mpi(void) {
  int value = 1, sum = 0;
  for (int i = 0; i < 10; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

static void signal_file(void) {
  sigset_t set;
  struct signalfd_siginfo info;
  sigprocmask(SIG_BLOCK, NULL, &set);
  int file = signalfd(-1, &set, SFD_CLOEXEC);
  pid_t child = fork();
  if (!child) _exit(call_many() & 7);
  int got = read(file, &info, sizeof info) == sizeof info && (pid_t)info.ssi_pid == child;
  printf("signalfd %d\n", got);
  waitpid(child, NULL, 0);
}
static void timer_file(void) {
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), loop = epoll_create1(EPOLL_CLOEXEC);
  struct itimerspec when = {{0, 2000000}, {0, 2000000}};
  struct epoll_event event = {.events = EPOLLIN};
  uint64_t ticks, total = 0;
  timerfd_settime(timer, 0, &when, NULL);
  epoll_ctl(loop, EPOLL_CTL_ADD, timer, &event);
  while (total < 20 && epoll_wait(loop, &event, 1, 1000) == 1 && read(timer, &ticks, 8) == 8) total += ticks, grow();
  printf("timerfd %d epoll %d file %d\n", total >= 20, loop > 0, timer);
}
static void asynchronous(void) {
  int ends[2];
  signal(SIGIO, count);
  signal(SIGURG, count);
  if (pipe(ends)) return;
  fcntl(ends[0], F_SETOWN, getpid());
  fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  for (int i = 0; i < 5; i++) {
    if (write(ends[1], "x", 1) != 1) return;
    call_many();
  }
  printf("SIGIO %d\n", seen);
}
/* A blocking call that no signal of ours may interrupt, with handlers that do not restart it. */
static void uninterrupted(void) {
  struct sigaction action = {.sa_handler = count};
  for (int number = 1; number < 32; number++)
    if (number != SIGALRM) sigaction(number, &action, NULL);
  int interrupted = 0;
  for (int i = 0; i < 200; i++) {
    struct timespec pause = {0, 1000000};
    interrupted += nanosleep(&pause, NULL) != 0;
    grow();
  }
  printf("interrupted %d seen %d\n", interrupted, seen);
}
static void no_zombies(void) {
  signal(SIGCHLD, SIG_IGN);
  pid_t child = fork();
  if (!child) exit(call_many() & 7);
  int got = waitpid(child, NULL, 0);
  printf("no zombies %d %s\n", got < 0, strerrorname_np(errno));
}
static void kernel_services(void) {
  char parameters[256] = {0};
  int ring = (int)syscall(SYS_io_uring_setup, 4, parameters);
  printf("io_uring %d %s\n", ring >= 0, ring < 0 ? strerrorname_np(errno) : "");
  int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
  printf("userfaultfd %d %s\n", faults >= 0, faults < 0 ? strerrorname_np(errno) : "");
  int memory = memfd_create("memory", MFD_CLOEXEC);
  int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
  printf("files %d %d\n", memory, process);
}
static void trap(int number, siginfo_t *info, void *context) {
  (void)number, (void)info, (void)context;
  seen++;
}
/* Every opened file and every mapping from now on is a signal: as in a sandbox that asks a broker. */
static void trapped(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {4, filter};
  struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
  sigaction(SIGSYS, &action, NULL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  grow();
  printf("filter %d seen %d\n", failed, seen);
}
static void limited(void) {
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  printf("grown %d\n", grow());
}
static void tight(void) {
  char line[256];
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fgets(line, sizeof line, file)) pages = atol(line);
  if (file) fclose(file);
  rlim_t bytes = (rlim_t)pages * 4096 + (1 << 20);
  setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
  printf("grown %d\n", grow());
  printf("no memory %d\n", malloc(64 << 20) == NULL);
}
static void rooted(void) {
  if (chroot("/proc/self/fdinfo") || chdir("/")) printf("chroot %s\n", strerrorname_np(errno));
  printf("grown %d %d\n", grow(), access("/etc", F_OK));
}
static void controlled(void) {
  char name[16] = "";
  int signal_number = -1;
  prctl(PR_SET_NAME, "renamed");
  prctl(PR_GET_NAME, name);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  prctl(PR_GET_PDEATHSIG, &signal_number);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t child = fork();
  if (!child) {
    if (!fork()) _exit(3);
    _exit(2);
  }
  int status, children = 0;
  while (wait(&status) > 0) children++; /* as a subreaper, it waits for grandchildren, too */
  printf("%s %d children %d\n", name, signal_number, children);
}
static void attached(void) {
  printf("traced %ld\n", ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
static void locked(void) {
  int failed = mlockall(MCL_CURRENT | MCL_FUTURE);
  printf("locked %d grown %d\n", failed, grow());
}
static void interrupt_deep(int number) {
  (void)number;
  siglongjmp(signal_back, 1);
}
static void leave_far(int depth) {
  if (depth) leave_far(depth - 1);
  else siglongjmp(signal_back, 1);
}
static void again(int depth) { leave_far(depth); }
static void jumps(void) {
  static char stack[65536];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_handler = interrupt_deep, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  for (volatile int i = 0; i < 20; i++) {
    if (!sigsetjmp(signal_back, 1)) {
      call_many();
      *(volatile int *)16 = 1;
    }
    if (!sigsetjmp(signal_back, 1)) deep(1L << 40); /* until the stack is full */
    seen++;
  }
  for (volatile int i = 0; i < 3000; i++) /* from one call site, more often than a thread has frames */
    if (!sigsetjmp(signal_back, 0)) again(i % 20);
  printf("returned %d grown %d\n", seen, grow());
}
static void leave_call(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  longjmp(back, 1);
}
static void jumps_out_of_mpi(void) {
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(leave_call, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  for (volatile int i = 0; i < 50; i++)
    if (!setjmp(back)) MPI_Send(&seen, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
    else seen++;
  printf("left %d\n", seen);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
}
static void errors_returned(void) {
  int code, length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Send(&seen, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
  MPI_Error_class(code, &code);
  MPI_Error_string(code, text, &length);
  printf("class %d %s\n", code == MPI_ERR_RANK, text);
}
static int deleted(MPI_Comm comm, int key, void *value, void *extra) {
  int flag = -1, rank = -1;
  (void)key, (void)extra;
  MPI_Finalized(&flag);
  MPI_Comm_rank(comm, &rank);
  printf("deleted %s finalized %d rank %d\n", (char *)value, flag, rank);
  call_many();
  return MPI_SUCCESS;
}
static void attributes(void) {
  int first, second;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &first, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &second, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, first, "first");
  MPI_Comm_set_attr(MPI_COMM_SELF, second, "second");
}
static void tools_interface(void) {
  int provided, variables = 0, categories = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_cvar_get_num(&variables);
  MPI_T_category_get_num(&categories);
  printf("variables %d categories %d\n", variables, categories);
  MPI_T_finalize();
}
static void reduce(void *in, void *out, int *count_of, MPI_Datatype *type) {
  (void)type;
  call_many();
  for (int i = 0; i < *count_of; i++) ((int *)out)[i] += ((int *)in)[i];
}
static void calls_back(void) {
  MPI_Op op;
  int value = 1, sum = 0;
  MPI_Op_create(reduce, 1, &op);
  for (int i = 0; i < 100; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  printf("sum %d\n", sum);
}
static void before(void) {
  printf("prepare\n");
  fflush(stdout);
}
static void at_fork(void) {
  pthread_atfork(before, NULL, NULL);
  pid_t child = fork();
  if (!child) exit(0);
  waitpid(child, NULL, 0);
  printf("forked\n");
}
static void no_variables(void) {
  clearenv();
  pid_t child = fork();
  if (!child) {
    char *words[] = {"env", NULL}, *none[] = {NULL};
    execve("/usr/bin/env", words, none);
  }
  waitpid(child, NULL, 0);
  printf("no variables %d\n", getenv("PATH") == NULL);
}
static void *recurse(void *unused) {
  (void)unused;
  return (void *)deep(200000);
}
static void huge_stack(void) {
  pthread_attr_t attributes_of;
  pthread_t thread;
  void *depth;
  pthread_attr_init(&attributes_of);
  pthread_attr_setstacksize(&attributes_of, 256u << 20);
  pthread_create(&thread, &attributes_of, recurse, NULL);
  pthread_join(thread, &depth);
  printf("depth %ld\n", (long)depth);
}
static void second_exit(void) {
  call_many();
  _exit(5); /* from an exit handler */
}
static void in_handler(int number) {
  (void)number;
  exit(6);
}

static const struct {
  const char *word;
  void (*run)(void);
} corners[] = {{"signalfd", signal_file},
               {"timerfd", timer_file},
               {"sigio", asynchronous},
               {"uninterrupted", uninterrupted},
               {"no-zombies", no_zombies},
               {"services", kernel_services},
               {"trapped", trapped},
               {"limited", limited},
               {"tight", tight},
               {"rooted", rooted},
               {"controlled", controlled},
               {"attached", attached},
               {"locked", locked},
               {"jumps", jumps},
               {"jumps-out-of-mpi", jumps_out_of_mpi},
               {"errors-returned", errors_returned},
               {"attributes", attributes},
               {"tools-interface", tools_interface},
               {"calls-back", calls_back},
               {"at-fork", at_fork},
               {"no-variables", no_variables},
               {"huge-stack", huge_stack}};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(word, "no-randomization") && !(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
    personality(ADDR_NO_RANDOMIZE);
    execv("/proc/self/exe", argv);
  }
  if (!strcmp(word, "tools-interface")) tools_interface();
  if (!strcmp(word, "signalfd")) { /* before other threads exist, which would take the signal */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
  }
  MPI_Init(&argc, &argv);
  printf("sum %d\n", use_mpi());
  for (size_t i = 0; i < sizeof corners / sizeof *corners; i++)
    if (!strcmp(corners[i].word, word)) corners[i].run();
  if (!strcmp(word, "exit-handler")) atexit(second_exit);
  if (!strcmp(word, "exit-in-handler")) {
    signal(SIGUSR1, in_handler);
    MPI_Finalize();
    raise(SIGUSR1);
  }
  printf("sum %d\n", use_mpi());
  if (!strcmp(word, "init-twice")) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    printf("again %d\n", MPI_Init(NULL, NULL) != MPI_SUCCESS);
  }
  MPI_Finalize();
  return 0;
}
