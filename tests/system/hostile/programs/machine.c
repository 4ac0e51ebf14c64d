/* What programs do to registers, addresses and attributes of their own process, named by the first argument. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <linux/rseq.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;
static int rank, size;
static volatile int seen;

static int one(int x) { return x + 1; }
static int two(int x) { return one(x) + 1; }
static int three(int x) { return two(x) + one(x); }
static int grow(void) {
  int (*functions[])(int) = {one, two, three};
  int sum = 0;
  for (int i = 0; i < 3; i++) sum += functions[i](i);
  return sum;
}
static int sum_all(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

/* A loop without any memory below its stack pointer, which counts: it is a general register. */
__attribute__((no_instrument_function, noinline)) static uint64_t count_with_stack_pointer(uint64_t rounds) {
  uint64_t result;
  __asm__ volatile(
      "mov %%rsp, %%r8\n\t"
      "mov %1, %%rcx\n\t"
      "xor %%esp, %%esp\n\t"
      "1: lea 3(%%rsp), %%rsp\n\t"
      "dec %%rcx\n\t"
      "jnz 1b\n\t"
      "mov %%rsp, %0\n\t"
      "mov %%r8, %%rsp\n\t"
      : "=r"(result)
      : "r"(rounds)
      : "rcx", "r8", "memory", "cc");
  return result;
}
static void stack_register(void) {
  uint64_t sum = 0;
  for (int i = 0; i < 40; i++) sum += count_with_stack_pointer(20000000);
  printf("sum %llu\n", (unsigned long long)sum);
}

/* The stack pointer reads an array: what was read must stay as it was. */
__attribute__((no_instrument_function, noinline)) static uint64_t pop_all(const uint64_t *from, uint64_t length) {
  uint64_t sum;
  __asm__ volatile(
      "mov %%rsp, %%r8\n\t"
      "mov %1, %%rsp\n\t"
      "mov %2, %%rcx\n\t"
      "xor %%eax, %%eax\n\t"
      "1: pop %%rdx\n\t"
      "add %%rdx, %%rax\n\t"
      "dec %%rcx\n\t"
      "jnz 1b\n\t"
      "mov %%r8, %%rsp\n\t"
      "mov %%rax, %0\n\t"
      : "=r"(sum)
      : "r"(from), "r"(length)
      : "rax", "rcx", "rdx", "r8", "memory", "cc");
  return sum;
}
static void stack_stream(void) {
  size_t length = 1 << 21;
  uint64_t *values = malloc(length * sizeof *values), sum = 0;
  for (size_t i = 0; i < length; i++) values[i] = i * 7;
  for (int round = 0; round < 100; round++) sum += pop_all(values, length);
  size_t changed = 0;
  for (size_t i = 0; i < length; i++) changed += values[i] != i * 7;
  printf("sum %llu changed %zu\n", (unsigned long long)sum, changed);
}

__attribute__((no_instrument_function, noinline)) static uint64_t spin(uint64_t rounds) {
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < rounds; i++) sum += i;
  return sum;
}
/* Another thread pointer for a while, as emulators have it. */
static char other_block[8192] __attribute__((aligned(64)));
__attribute__((no_instrument_function, noinline)) static uint64_t spin_with_other_base(uint64_t base, uint64_t rounds) {
  uint64_t own, result = 0;
  syscall(SYS_arch_prctl, ARCH_GET_FS, &own);
  __asm__ volatile(
      "mov %1, %%rsi\n\t"
      "mov %4, %%edi\n\t"
      "mov %5, %%eax\n\t"
      "syscall\n\t"
      "mov %3, %%r9\n\t"
      "xor %%r10d, %%r10d\n\t"
      "1: add %%r9, %%r10\n\t"
      "dec %%r9\n\t"
      "jnz 1b\n\t"
      "mov %2, %%rsi\n\t"
      "mov %4, %%edi\n\t"
      "mov %5, %%eax\n\t"
      "syscall\n\t"
      "mov %%r10, %0\n\t"
      : "=&r"(result)
      : "r"(base), "r"(own), "r"(rounds), "i"(ARCH_SET_FS), "i"(SYS_arch_prctl)
      : "rax", "rcx", "rdi", "rsi", "r9", "r10", "r11", "memory", "cc");
  return result;
}
static void other_thread_pointer(void) {
  uint64_t sum = 0, own_like = (uint64_t)(other_block + 4096);
  for (int i = 0; i < 20; i++) sum += spin_with_other_base(own_like, 20000000);
  memset(other_block, 0x55, sizeof other_block);
  for (int i = 0; i < 20; i++) sum += spin_with_other_base(own_like, 20000000);
  for (int i = 0; i < 20; i++) sum += spin_with_other_base(0, 20000000);
  sum += spin(100000000);
  printf("sum %llu\n", (unsigned long long)sum);
}
static void own_segment(void) {
  static uint64_t mine[4] = {11, 22, 33, 44};
  uint64_t value, base, sum = 0;
  syscall(SYS_arch_prctl, ARCH_SET_GS, mine);
  double end = seconds() + 0.4;
  while (seconds() < end) {
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    if (value != 22) sum++;
    grow();
  }
  sum_all(1);
  syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
  printf("wrong %d base %d\n", sum != 0, base == (uint64_t)mine);
}
/* Alignment checks: any access that is not aligned, also in a handler, is SIGBUS. */
static void alignment_checks(void) {
  uint64_t sum = 0;
  for (int i = 0; i < 4; i++) {
    __asm__ volatile("pushf; orl $0x40000, (%%rsp); popf" ::: "memory", "cc");
    sum += spin(60000000);
    __asm__ volatile("pushf; andl $0xfffbffff, (%%rsp); popf" ::: "memory", "cc");
    grow();
  }
  printf("sum %llu\n", (unsigned long long)sum);
}
/* Single steps that a program makes of itself: each instruction is SIGTRAP. */
static volatile long steps;
__attribute__((no_instrument_function)) static void step(int number) { steps++; }
static void own_single_steps(void) {
  signal(SIGTRAP, step);
  for (int i = 0; i < 20; i++) {
    __asm__ volatile("pushf; orl $0x100, (%%rsp); popf" ::: "memory", "cc");
    spin(100);
    __asm__ volatile("pushf; andl $0xfffffeff, (%%rsp); popf" ::: "memory", "cc");
  }
  long before = steps;
  grow();
  sum_all(1);
  printf("stepped %d more %ld\n", before > 5000, steps - before);
}

/* Code of 32 bits inside of this process, as Wine runs it. */
static void other_mode(void) {
  const int how = PROT_READ | PROT_WRITE | PROT_EXEC, where = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
  unsigned char *code = mmap(NULL, 4096, how, where, -1, 0);
  char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, where, -1, 0);
  unsigned char *next = code;
  uint32_t rounds = 50000000, back = (uint32_t)(uintptr_t)(code + 512);
  *next++ = 0xb9, memcpy(next, &rounds, 4), next += 4;                            /* mov ecx, rounds */
  *next++ = 0x31, *next++ = 0xc0;                                                 /* xor eax, eax */
  *next++ = 0x83, *next++ = 0xc0, *next++ = 3;                                    /* add eax, 3 */
  *next++ = 0x49;                                                                 /* dec ecx */
  *next++ = 0x75, *next++ = 0xfa;                                                 /* jnz: the addition */
  *next++ = 0xea, memcpy(next, &back, 4), next += 4, *next++ = 0x33, *next++ = 0; /* jmp 0x33:back */
  memcpy(code + 512, "\x48\x89\xec\xc3", 4);                                      /* mov rsp, rbp; ret */
  uint64_t total = 0;
  for (int i = 0; i < 10; i++) {
    uint64_t result;
    __asm__ volatile(
        "push %%rbp\n\t"
        "push %%rbx\n\t"
        "lea 1f(%%rip), %%rax\n\t"
        "push %%rax\n\t"
        "mov %%rsp, %%rbp\n\t"
        "mov %1, %%rsp\n\t"
        "push $0x23\n\t"
        "push %2\n\t"
        "lretq\n\t"
        "1: pop %%rbx\n\t"
        "pop %%rbp\n\t"
        : "=&a"(result)
        : "S"(stack + 60000), "D"((uint64_t)(uintptr_t)code)
        : "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    total += (uint32_t)result;
    grow();
  }
  printf("total %llu\n", (unsigned long long)total);
}
/* A handler leaves its alternate stack, which the kernel has disarmed meanwhile, and comes back to it. */
static ucontext_t elsewhere, in_handler;
static void work_elsewhere(void) {
  stack_t now;
  spin(30000000);
  sigaltstack(NULL, &now);
  printf("elsewhere %d flags %x sum %d\n", seen, (unsigned)now.ss_flags, sum_all(1));
  setcontext(&in_handler);
}
static void go_elsewhere(int number) {
  static char stack[65536];
  seen++;
  getcontext(&elsewhere);
  elsewhere.uc_stack.ss_sp = stack;
  elsewhere.uc_stack.ss_size = sizeof stack;
  makecontext(&elsewhere, work_elsewhere, 0);
  swapcontext(&in_handler, &elsewhere);
  seen++;
}
static void disarmed_stack(void) {
  static char room[65536];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room, .ss_flags = (int)(1u << 31)}, now;
  struct sigaction action = {.sa_handler = go_elsewhere, .sa_flags = SA_ONSTACK | SA_NODEFER};
  int failed = sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 5; i++) raise(SIGUSR1), spin(30000000), grow();
  sigaltstack(NULL, &now);
  printf("failed %d seen %d flags %x size %zu\n", failed, seen, (unsigned)now.ss_flags, now.ss_size);
}
/* From now on, no memory becomes executable. */
static void sealed_code(void) {
  int failed = prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
  for (int i = 0; i < 20; i++) sum_all(grow());
  void *library = dlopen("libcrypt.so.1", RTLD_NOW);
  if (library) dlclose(library);
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("failed %d refused %d\n", failed, mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0);
  fflush(stdout);
  printf("child %d\n", system("exit 3"));
}

/* ---- what the process is ----------------------------------------------------------------------------------------- */

static void show_file(const char *path, const char *const *names) {
  char line[512];
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    int is_shown = !names;
    for (const char *const *name = names; name && *name; name++) is_shown |= !strncmp(line, *name, strlen(*name));
    if (is_shown) printf("%s: %s%s", path, line, strchr(line, '\n') ? "" : "\n");
  }
  if (file) fclose(file);
}
static void census(void) {
  const char *const fields[] = {"Name", "Umask", "State", "TracerPid", "Uid", "Gid", "Groups", "Threads", "ShdPnd", "SigPnd",
                                "SigBlk", "SigIgn", "Cap", "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed_list",
                                "Mems_allowed_list", "CoreDumping", "THP_enabled", "untag_mask", NULL};
  show_file("/proc/self/status", fields);
  for (const char *const *path = (const char *const[]){"/proc/self/limits", "/proc/self/cgroup", "/proc/self/oom_score_adj",
                                                       "/proc/self/timerslack_ns", "/proc/self/sessionid", "/proc/self/loginuid",
                                                       "/proc/self/uid_map", "/proc/self/personality",
                                                       "/proc/self/setgroups", "/proc/self/attr/current", NULL};
       *path; path++)
    show_file(*path, NULL);
  printf("timer slack %d securebits %d thp %d keep %d\n", prctl(PR_GET_TIMERSLACK), prctl(PR_GET_SECUREBITS),
         prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), prctl(PR_GET_KEEPCAPS));
  int subreaper = -1, death = -1, tsc = -1;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  prctl(PR_GET_PDEATHSIG, &death);
  prctl(PR_GET_TSC, &tsc);
  printf("subreaper %d death %d tsc %d mce %d io %d\n", subreaper, death, tsc, prctl(PR_MCE_KILL_GET, 0, 0, 0, 0),
         (int)syscall(SYS_ioprio_get, 1, 0));
  printf("secure %lu flags %lu clock %lu group %d session %d\n", getauxval(AT_SECURE), getauxval(AT_FLAGS),
         getauxval(AT_CLKTCK), getpgrp() == getpid(), getsid(0) == getpid());
  char name[64], text[64] = "";
  snprintf(name, sizeof name, "/proc/%d/comm", getppid());
  FILE *file = fopen(name, "r");
  if (file && fgets(text, sizeof text, file)) printf("parent %s", text);
  if (file) fclose(file);
  for (int number = 1; number < 65; number++) {
    struct sigaction action;
    if (!sigaction(number, NULL, &action) && action.sa_handler != SIG_DFL) printf("signal %d flags %x\n", number, action.sa_flags);
  }
  struct sched_param priority;
  int policy;
  pthread_getschedparam(pthread_self(), &policy, &priority);
  pthread_attr_t attributes;
  size_t stack, guard;
  pthread_getattr_default_np(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_getguardsize(&attributes, &guard);
  printf("policy %d default stack %zu guard %zu\n", policy, stack, guard);
  int caught, state, kind;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &kind);
  printf("cancel %d %d pending %d\n", state, kind, sigpending((sigset_t[1]){}));
}
/* The text of the program, of the C library and of the MPI library is that of their files, as checks of licences want. */
static int check_object(struct dl_phdr_info *info, size_t length, void *unused) {
  const char *name = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
  if (*info->dlpi_name && !strstr(name, "libc.so") && !strstr(name, "libmpi.so") && !strstr(name, "libm.so")) return 0;
  int file = open(name, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
    char *original = malloc(header->p_filesz);
    if (pread(file, original, header->p_filesz, (off_t)header->p_offset) != (ssize_t)header->p_filesz) printf("short\n");
    if (memcmp(original, (void *)(info->dlpi_addr + header->p_vaddr), header->p_filesz)) {
      printf("changed %s %d\n", strrchr(name, '/'), i);
    }
    free(original);
  }
  close(file);
  seen++;
  return 0;
}
static void checks_itself(void) {
  sum_all(1);
  dl_iterate_phdr(check_object, NULL);
  grow();
  dl_iterate_phdr(check_object, NULL);
  printf("objects %d\n", seen >= 2);
}
/* The end of the data segment belongs to the program: pieces are adjacent. */
static void moves_break(void) {
  mallopt(M_MMAP_THRESHOLD, 4096);
  char *first = sbrk(4096), *last = first;
  int gaps = 0;
  for (int i = 0; i < 50; i++) {
    grow();
    if (!(i % 10)) sum_all(i);
    unsetenv("NOTHING");
    clock();
    char *next = sbrk(4096);
    gaps += next != last + 4096;
    memset(next, i, 4096);
    last = next;
  }
  for (int i = 0; i < 51; i++) sbrk(-4096);
  printf("gaps %d back %d\n", gaps, sbrk(0) == first);
}

/* Own restartable sequences, where the C library has none. */
static _Alignas(32) struct rseq own_sequence;
static void own_sequences(void) {
  int failed = (int)syscall(SYS_rseq, &own_sequence, sizeof own_sequence, 0, 0x53053053), wrong = 0;
  double end = seconds() + 0.3;
  while (seconds() < end) {
    grow();
    wrong += own_sequence.cpu_id >= 1024;
  }
  sum_all(1);
  printf("failed %d wrong %d again %d\n", failed, wrong, (int)syscall(SYS_rseq, &own_sequence, sizeof own_sequence, 1, 0x53053053));
}
/* Locks in shared memory whose owners die. */
static void robust_locks(void) {
  pthread_mutex_t *lock = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(lock, &kind);
  int dead = 0;
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (!child) {
      pthread_mutex_lock(lock);
      grow();
      if (i % 2) raise(SIGKILL);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    if (pthread_mutex_lock(lock) == EOWNERDEAD) dead++, pthread_mutex_consistent(lock);
    sum_all(i);
    pthread_mutex_unlock(lock);
  }
  printf("dead %d\n", dead);
}
/* Leases and notices of the kernel about files that somebody opens or changes. */
static void notice(int number) { seen++; }
static void leases(void) {
  char name[32];
  snprintf(name, sizeof name, "lease-%d", rank);
  mkdir(name, 0700);
  if (chdir(name)) return;
  signal(SIGIO, notice);
  int file = open("file", O_RDWR | O_CREAT, 0600), folder = open(".", O_RDONLY);
  int leased = fcntl(file, F_SETLEASE, F_WRLCK);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  fcntl(folder, F_NOTIFY, DN_CREATE | DN_MODIFY | DN_ACCESS | DN_MULTISHOT);
  int locked = fcntl(file, F_SETLK, &lock);
  for (int i = 0; i < 20; i++) grow(), sum_all(i), free(malloc(100000));
  printf("before %d\n", seen);
  if (write(file, "text", 4) != 4) printf("unwritten\n");
  pid_t child = fork();
  if (!child) {
    int failed = fcntl(file, F_SETLK, &lock);
    _exit(failed && (errno == EAGAIN || errno == EACCES) ? 3 : 4);
  }
  int status;
  while (waitpid(child, &status, 0) < 0) {}
  printf("lease %d lock %d notices %d child %d still %d\n", leased, locked, seen, WEXITSTATUS(status), fcntl(file, F_GETLEASE) == F_WRLCK);
  if (chdir("..")) return;
}
/* Ends by signals that few know, with a core file or without. */
static void odd_ends(void) {
  const int signals[] = {SIGRTMIN + 5, SIGRTMAX, SIGSYS, SIGXCPU, SIGIO, SIGSTKFLT, SIGPWR, SIGTRAP, SIGBUS, SIGVTALRM};
  char folder[32];
  snprintf(folder, sizeof folder, "core-%d", rank);
  mkdir(folder, 0700);
  if (chdir(folder)) return;
  setrlimit(RLIMIT_CORE, &(struct rlimit){64 << 20, RLIM_INFINITY});
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
      grow();
      raise(signals[i]);
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("signal %d core %d\n", WTERMSIG(status), !!WCOREDUMP(status));
  }
  if (system("rm -f core*") || chdir("..")) printf("stays\n");
}
static void real_time_end(void) {
  sum_all(1);
  fflush(stdout);
  raise(SIGRTMIN + 3);
}
/* Queued signals with values arrive, all of them; a busy machine delivers some in another order, bare as well. */
static long sum_of_values;
static void on_value(int number, siginfo_t *info, void *context) {
  sum_of_values += info->si_value.sival_int;
  seen++;
}
static void queued_values(void) {
  struct sigaction action = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN + 1, &action, NULL);
  pid_t self = getpid(), child = fork();
  if (!child) {
    for (int i = 1; i <= 3000; i++)
      while (sigqueue(self, SIGRTMIN + 1, (union sigval){i})) usleep(1000);
    _exit(0);
  }
  double end = seconds() + 0.4;
  while (seconds() < end || seen < 3000) grow();
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
  printf("seen %d sum %ld\n", seen, sum_of_values);
}
/* Clocks of the process and of its threads. */
static void *spin_thread(void *unused) {
  double end = seconds() + 0.5;
  while (seconds() < end) grow();
  return NULL;
}
static void processor_clocks(void) {
  pthread_t thread;
  clockid_t clock;
  struct timespec other, mine, whole;
  pthread_create(&thread, NULL, spin_thread, NULL);
  usleep(1000);
  int failed = pthread_getcpuclockid(thread, &clock);
  usleep(200000);
  failed += clock_gettime(clock, &other);
  pthread_join(thread, NULL);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &whole);
  struct itimerval timer;
  getitimer(ITIMER_PROF, &timer);
  printf("failed %d other %d timer %ld %ld\n", failed, other.tv_nsec > 0, timer.it_value.tv_sec, timer.it_interval.tv_usec);
  printf("gone %d\n", clock_gettime(clock, &other) != 0);
}
/* All that the launcher gave is thrown away and the program is executed again by the path of the kernel. */
static void clears_and_executes(char **argv) {
  if (getenv("AGAIN")) return;
  char path[] = "PATH=/usr/bin:/bin", again[] = "AGAIN=1", *kept[4096] = {path, again};
  int count = 2;
  for (char **entry = environ; *entry && count < 4000; entry++)
    if (!strncmp(*entry, "PM", 2) || !strncmp(*entry, "OMPI", 4) || !strncmp(*entry, "PRTE", 4) || !strncmp(*entry, "WITNESS", 7) ||
        !strncmp(*entry, "HYD", 3) || !strncmp(*entry, "LD_LIBRARY", 10))
      kept[count++] = *entry;
  clearenv();
  execve("/proc/self/exe", argv, kept);
}
static void shows_variables(void) {
  for (char **entry = environ; *entry; entry++)
    if (strncmp(*entry, "PM", 2) && strncmp(*entry, "OMPI", 4) && strncmp(*entry, "PRTE", 4) && strncmp(*entry, "WITNESS", 7) &&
        strncmp(*entry, "HYD", 3) && strncmp(*entry, "UCX", 3) && strncmp(*entry, "MPI", 3) && strncmp(*entry, "LD_LIBRARY", 10))
      printf("variable %s\n", *entry);
}
/* Children that inherit nothing but what is said. */
static void spawn_actions(void) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  char *words[] = {"sh", "-c", "pwd; ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; env | wc -l; umask", NULL};
  char *variables[] = {"A=1", "LD_LIBRARY_PATH=", NULL};
  for (int i = 0; i < 3; i++) {
    pid_t child;
    int status;
    grow();
    fflush(stdout);
    int failed = posix_spawn(&child, "/bin/sh", &actions, &attributes, words, variables);
    waitpid(child, &status, 0);
    printf("failed %d status %d\n", failed, status);
  }
}
/* A pipe that is full, a socket pair whose other end is closed, a file that is at its limit. */
static void refused_writes(void) {
  int pair[2], ends[2], signals = 0;
  signal(SIGPIPE, notice);
  signal(SIGXFSZ, notice);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  close(pair[1]);
  ssize_t sent = send(pair[0], "a", 1, 0);
  int error = errno;
  printf("sent %zd %d seen %d\n", sent, error, seen);
  if (pipe2(ends, O_NONBLOCK)) return;
  size_t total = 0;
  for (ssize_t n; (n = write(ends[1], "0123456789", 10)) > 0;) total += (size_t)n;
  error = errno;
  printf("full %zu %d\n", total, error);
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, before.rlim_max});
  char name[32];
  snprintf(name, sizeof name, "limit-%d", rank);
  int file = open(name, O_WRONLY | O_CREAT, 0600);
  grow();
  sum_all(1);
  ssize_t first = write(file, other_block, 8192), second = write(file, "a", 1);
  error = errno;
  setrlimit(RLIMIT_FSIZE, &before);
  signals = seen;
  printf("file %zd %zd %d seen %d\n", first, second, error, signals);
}

static const struct {
  const char *name;
  void (*run)(void);
} words[] = {
    {"stack-register", stack_register}, {"stack-stream", stack_stream}, {"other-thread-pointer", other_thread_pointer},
    {"own-segment", own_segment}, {"alignment-checks", alignment_checks}, {"own-single-steps", own_single_steps},
    {"other-mode", other_mode}, {"disarmed-stack", disarmed_stack},
    {"sealed-code", sealed_code}, {"census", census}, {"checks-itself", checks_itself}, {"moves-break", moves_break},
    {"own-sequences", own_sequences}, {"robust-locks", robust_locks}, {"leases", leases}, {"odd-ends", odd_ends},
    {"real-time-end", real_time_end}, {"queued-values", queued_values}, {"processor-clocks", processor_clocks},
    {"clears-and-executes", shows_variables}, {"spawn-actions", spawn_actions}, {"refused-writes", refused_writes},
};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(word, "clears-and-executes")) clears_and_executes(argv);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].name, word)) words[i].run();
  int sum = 0;
  for (int i = 0; i < 10; i++) sum = sum_all(1);
  printf("sum %d\n", sum);
  MPI_Finalize();
  return 0;
}
