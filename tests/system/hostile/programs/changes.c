/* A process that changes its surroundings, its children or its end, one way per word of the command line. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "many_functions.h"

CALLER(0) CALLER(1) CALLER(2) CALLER(3) CALLER(4) CALLER(5)
static int grow(void) { return caller0() + caller1() + caller2() + caller3() + caller4() + caller5(); }

static int use_mpi(void) {
  int value = 1, sum = 0;
  for (int i = 0; i < 10; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  return sum;
}

static void close_range_of_files(void) {
  printf("close_range %d\n", close_range(3, ~0u, 0));
  printf("grown %d, first free file %d\n", grow(), open("/dev/null", O_RDONLY));
  _exit(3); /* MPI has lost its files */
}
static void take_numbers(void) {
  for (int i = 3; i < 250; i++) dup2(1, i);
  printf("grown %d\n", grow());
  _exit(4);
}
static void strict(void) {
  pid_t child = fork();
  if (!child) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    long n = grow();
    syscall(SYS_exit, n ? 3 : 4);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d %d\n", WIFSIGNALED(status), WEXITSTATUS(status));
}
/* The kernel ends the process at any system call that is not in the list. */
static void filtered(void) {
  static const int allowed[] = {SYS_write, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap};
  enum { COUNT = sizeof allowed / sizeof *allowed };
  struct sock_filter filter[COUNT + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (int i = 0; i < COUNT; i++)
    filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], COUNT - i, 0);
  filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {COUNT + 3, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int probed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 && errno == EFAULT; /* as libseccomp does */
  printf("probed %d\n", probed);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) _exit(9);
  printf("grown %d\n", grow());
  for (volatile long i = 0; i < 200000000; i++) continue; /* samples */
  _exit(5);
}
static void no_clock(void) {
  int failed = prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  int grown = grow();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  printf("no clock %d grown %d\n", failed, grown);
}
#ifdef __x86_64__
static volatile char dispatch_selector;
static volatile int dispatched;
static void on_dispatched(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  dispatched++;
  dispatch_selector = 0;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 42;
}
__attribute__((noinline)) static double compute(long steps) {
  double value = 1;
  for (long i = 0; i < steps; i++) value = value * 1.0000001 + 1e-9;
  return value;
}
/* Emulates a kernel, as Wine does: all system calls of some code are handled by the program. */
static void dispatch_calls(void) {
  struct sigaction action = {.sa_sigaction = on_dispatched, .sa_flags = SA_SIGINFO};
  sigaction(SIGSYS, &action, NULL);
  int failed = prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &dispatch_selector);
  double sum = 0;
  long answer = 0;
  for (int i = 0; i < 20 && !failed; i++) {
    dispatch_selector = 1;
    sum += compute(3000000);
    __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_getpid) : "rcx", "r11", "memory");
    dispatch_selector = 0;
  }
  printf("dispatched %d %d %ld %d\n", failed, dispatched, answer, sum > 0);
  prctl(59, 0, 0, 0, 0);
}
/* Handles SIGURG by the kernel's interface: as runtimes with a C library do, or without one, as that of Go. */
struct kernel_action {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};
void return_from_handler(void);
__asm__(".text\nreturn_from_handler: mov $15, %eax\n syscall\n"); /* rt_sigreturn */
static volatile int urgent_signals;
static void count_urgent(int number) { (void)number, urgent_signals++; }
static void handle_urgent(int has_library) {
  struct kernel_action action = {count_urgent, SA_ONSTACK | SA_RESTART | 0x04000000, return_from_handler, 0}, before;
  long failed;
  if (has_library) {
    failed = syscall(SYS_rt_sigaction, SIGURG, NULL, &before, 8);
    printf("before %d\n", before.handler == SIG_DFL);
    failed |= syscall(SYS_rt_sigaction, SIGURG, &action, NULL, 8);
  } else {
    register long mask_bytes __asm__("r10") = 8;
    __asm__ volatile("syscall" : "=a"(failed) : "a"(SYS_rt_sigaction), "D"(SIGURG), "S"(&action), "d"(NULL), "r"(mask_bytes) : "rcx", "r11", "memory");
    MPI_Barrier(MPI_COMM_SELF); /* from here on it is known */
    urgent_signals = 0;
  }
  double value = compute(100000000); /* 0.3 s: some 30 samples */
  for (int i = 0; i < 5; i++) raise(SIGURG);
  printf("urgent %ld %d %d\n", failed, urgent_signals, value > 0);
  void *handler = NULL;
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV); /* measuring ends */
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  if (!syscall(SYS_rt_sigaction, SIGURG, NULL, &before, 8)) handler = (void *)before.handler;
  printf("still there %d\n", handler == (void *)count_urgent);
}
static void handle_urgent_with_library(void) { handle_urgent(1); }
static void handle_urgent_alone(void) { handle_urgent(0); }
#endif
static void strict_itself(void) { /* after MPI_Finalize */
  fflush(stdout);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(9);
  long n = grow();
  (void)!write(1, "sandboxed\n", 10);
  syscall(SYS_exit, n ? 3 : 4);
}
/* 10,000 threads, one after the other. */
static void *one_thread(void *unused) { return (void *)(long)caller1(); }
static void many_threads(void) {
  long sum = 0;
  for (int i = 0; i < 10000; i++) {
    pthread_t thread;
    void *value;
    pthread_create(&thread, NULL, one_thread, NULL);
    pthread_join(thread, &value);
    sum += (long)value != 0;
  }
  printf("threads %ld\n", sum);
}
static void *spawning(void *unused) {
  long good = 0;
  for (int i = 0; i < 20; i++) {
    pid_t child = vfork();
    if (!child) {
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    good += !status;
    char *words[] = {"true", NULL};
    extern char **environ;
    if (!posix_spawn(&child, "/bin/true", NULL, NULL, words, environ)) waitpid(child, &status, 0), good += !status;
    caller2();
  }
  return (void *)good;
}
static void vforks_in_threads(void) {
  pthread_t threads[4];
  long good = 0;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, spawning, NULL);
  for (int i = 0; i < 4; i++) {
    void *value;
    pthread_join(threads[i], &value);
    good += (long)value;
  }
  printf("good %ld\n", good);
}
static void mpi_in_child(void) {
  pid_t child = fork();
  if (!child) {
    int rank = -1, flag;
    MPI_Initialized(&flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("child flag %d rank %d grown %d\n", flag, rank, grow());
    fflush(stdout);
      _exit(use_mpi() == 1 ? 5 : 6);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", WEXITSTATUS(status));
}
static void daemonise(void) {
  pid_t child = fork();
  if (!child) {
    setsid();
    if (fork()) _exit(0);
    int n = grow();
    if (chdir("/")) n = 0;
    umask(0);
    int file = open("/dev/null", O_RDWR);
    (void)file;
    exit(n ? 0 : 1);
  }
  waitpid(child, NULL, 0);
  puts("daemon");
}
static void not_dumpable(void) {
  prctl(PR_SET_DUMPABLE, 0);
  printf("dumpable %d grown %d\n", prctl(PR_GET_DUMPABLE), grow());
}
static void drop(void) {
  int failed = setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
  printf("dropped %d grown %d\n", failed, grow());
}
static void stop_and_go(void) {
  pid_t parent = getpid(), child = fork();
  if (!child) {
    for (int i = 0; i < 20; i++) {
      kill(parent, SIGSTOP);
      usleep(3000);
      kill(parent, SIGCONT);
      usleep(1000);
    }
    _exit(0);
  }
  for (int status; !waitpid(child, &status, WNOHANG);) grow();
  puts("continued");
}
static void abort_at_exit(void) { abort(); }
static void leave_at_exit(void) { _exit(7); }
static void *exit_from_thread(void *unused) {
  grow();
  exit(8);
}
static void *sleeper(void *unused) {
  for (;;) grow();
}
static void clobber(char **argv) {
  memset(argv[0], 'x', strlen(argv[0]));
  extern char **environ;
  for (char **entry = environ; *entry; entry++)
    if (!strncmp(*entry, "HOME=", 5)) memset(*entry, 'y', strlen(*entry)); /* all: its child would see one more */
  printf("clobbered %d\n", grow());
  pid_t child = fork();
  if (!child) {
    execl("/bin/echo", "echo", "child", NULL);
    _exit(1);
  }
  waitpid(child, NULL, 0);
}
static void other_namespace(void) {
  void *library = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
  double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : NULL;
  printf("dlmopen %d %g\n", library != NULL, root ? root(16) : 0);
  if (library) dlclose(library);
}
static void limits_before(void) {
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 1 << 20});
}
static void data_limit(void) {
  setrlimit(RLIMIT_DATA, &(struct rlimit){64 << 20, 64 << 20});
  printf("grown %d no memory %d\n", grow(), malloc(128 << 20) == NULL);
}
static void protect_all(void) {
  int failed = mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  printf("locked %d grown %d\n", failed, grow());
}
static void realtime(void) {
  struct sched_param one = {1};
  int failed = sched_setscheduler(0, SCHED_FIFO, &one);
  printf("fifo %d grown %d\n", failed, grow());
  sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
}
static void no_cpu_time(void) {
  setrlimit(RLIMIT_CPU, &(struct rlimit){3600, 3600});
  setpriority(PRIO_PROCESS, 0, 5);
  printf("grown %d nice %d\n", grow(), getpriority(PRIO_PROCESS, 0));
}
static void own_namespace(void) {
  int failed = unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_FS | CLONE_FILES);
  printf("unshared %d grown %d\n", failed, grow());
}
static void error_handler(MPI_Comm *comm, int *code, ...) {
  printf("handler %d\n", grow() != 0);
}
static void errors(void) {
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(error_handler, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  int value = 0;
  printf("code %d\n", MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_SELF) != MPI_SUCCESS);
  MPI_Errhandler_free(&handler);
}
static void sessions(void) {
#if MPI_VERSION >= 4
  for (int i = 0; i < 5; i++) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int one = 1, sum = 0;
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)) { puts("no session"); break; }
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    printf("session %d\n", sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
  }
#endif
}
static void nested(int number) {
  static volatile int depth;
  if (depth < 200) depth++, raise(number == SIGUSR1 ? SIGUSR2 : SIGUSR1), grow(), depth--;
}
static void stacked_signals(void) {
  struct sigaction action = {.sa_handler = nested, .sa_flags = SA_NODEFER};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  raise(SIGUSR1);
  puts("nested");
}
static const struct { const char *word; void (*run)(void); } words[] = {
    {"close-range", close_range_of_files}, {"take-numbers", take_numbers}, {"strict-child", strict}, {"many-threads", many_threads},
    {"vforks", vforks_in_threads}, {"mpi-in-child", mpi_in_child}, {"daemonise", daemonise}, {"not-dumpable", not_dumpable},
    {"drop", drop}, {"stop-and-go", stop_and_go}, {"namespace", other_namespace}, {"data-limit", data_limit},
    {"locked-on-fault", protect_all}, {"realtime", realtime}, {"cpu-limit", no_cpu_time}, {"unshare", own_namespace},
    {"errors", errors}, {"sessions", sessions}, {"nested-signals", stacked_signals},
    {"filtered", filtered}, {"no-clock", no_clock},
#ifdef __x86_64__
    {"dispatch", dispatch_calls}, {"urgent", handle_urgent_with_library}, {"urgent-in-assembly", handle_urgent_alone}
#endif
};
int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  int provided;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(word, "limits-before")) limits_before();
  if (!strcmp(word, "sessions")) sessions();
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  printf("sum %d\n", use_mpi());
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].word, word)) words[i].run();
  if (!strcmp(word, "clobber")) clobber(argv);
  if (!strcmp(word, "abort-at-exit")) atexit(abort_at_exit);
  if (!strcmp(word, "leave-at-exit")) atexit(leave_at_exit);
  if (!strcmp(word, "running-threads")) { pthread_t t; for (int i = 0; i < 3; i++) pthread_create(&t, NULL, sleeper, NULL); usleep(20000); }
  printf("sum %d\n", use_mpi());
  MPI_Finalize();
  if (!strcmp(word, "exit-in-thread")) { pthread_t t; pthread_create(&t, NULL, exit_from_thread, NULL); pthread_join(t, NULL); }
  if (!strcmp(word, "strict-itself")) strict_itself();
  return 0;
}
