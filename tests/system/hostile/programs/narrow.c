/* Little room, few rights, and what the kernel does for few programs; the first word of the command line selects it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int one(int x) { return x + 1; }
static int two(int x) { return one(x) + 1; }
static int three(int x) { return two(x) + 1; }
static int four(int x) { return three(x) + two(x); }
/* Call paths that are new: rows are added. */
static int grow(void) { return one(1) + two(1) + three(1) + four(1); }

static int sum_all(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

static void limit(int what, rlim_t soft) {
  struct rlimit now;
  getrlimit(what, &now);
  now.rlim_cur = soft;
  if (setrlimit(what, &now)) perror("setrlimit");
}

static void *add(void *value) { return (void *)(long)one((int)(long)value); }

static int start_threads(int count) {
  int failed = 0;
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, add, (void *)(long)i)) failed++;
    else pthread_join(thread, NULL);
  }
  return failed;
}

/* No new private memory, on the heap or mapped. */
static void data_limit(void) {
  limit(RLIMIT_DATA, 1 << 20);
  void *mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *large = malloc(64 << 20);
  int failed = start_threads(3), grown = grow();
  limit(RLIMIT_DATA, RLIM_INFINITY);
  printf("mapped %d large %d threads %d grown %d\n", mapped != MAP_FAILED, large != NULL, failed, grown);
}

static volatile int signals;
static void count(int number) { (void)number, signals++; }

static void file_limit(void) {
  signal(SIGXFSZ, count);
  limit(RLIMIT_FSIZE, 4096);
  char block[8192] = {0};
  int file = open("limited", O_RDWR | O_CREAT, 0600);
  long first = write(file, block, sizeof block), second = write(file, block, sizeof block);
  int grown = grow() + start_threads(3);
  printf("first %ld second %ld %d signals %d grown %d\n", first, second, errno == EFBIG, signals, grown);
  limit(RLIMIT_FSIZE, RLIM_INFINITY);
}

static void process_limit(void) {
  limit(RLIMIT_NPROC, 0);
  int failed = syscall(SYS_setresuid, -1, 65534, -1) != 0; /* of root, the kernel counts no processes */
  int threads = start_threads(3);
  pid_t child = fork();
  if (!child) _exit(0);
  printf("switched %d threads %d child %d grown %d\n", !failed, threads, child > 0, grow());
  if (child > 0) waitpid(child, NULL, 0);
  syscall(SYS_setresuid, -1, 0, -1);
}

static void no_descriptors(void) {
  int first = dup(0), last = first, count = 0;
  limit(RLIMIT_NOFILE, (rlim_t)first + 3);
  while ((last = dup(0)) >= 0) count++;
  printf("more %d %d grown %d threads %d\n", count, errno == EMFILE, grow(), start_threads(3));
}

/* A ring without liburing: a write and a read through it. */
static void io_uring(void) {
  struct io_uring_params params = {0};
  int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
  if (ring < 0) {
    printf("no ring\n");
    return;
  }
  size_t bytes = params.sq_off.array + params.sq_entries * 4, others = params.cq_off.cqes + params.cq_entries * 16;
  if (others > bytes) bytes = others;
  char *queue = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe *entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
  int file = open("ring", O_RDWR | O_CREAT, 0600);
  char text[6] = "hello", back[6] = "";
  for (unsigned i = 0; i < 2; i++) {
    entries[i] = (struct io_uring_sqe){.opcode = i ? IORING_OP_READ : IORING_OP_WRITE, .fd = file, .len = 6};
    entries[i].addr = (unsigned long)(i ? back : text);
    ((unsigned *)(queue + params.sq_off.array))[i] = i;
    __atomic_store_n((unsigned *)(queue + params.sq_off.tail), i + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
  }
  printf("ring %s grown %d\n", back, grow());
}

static void closes_every_number(void) {
  fflush(stdout);
  int failed = (int)syscall(SYS_close_range, 3, ~0u, 0);
  int file = open("/dev/null", O_RDONLY);
  printf("closed %d next %d grown %d threads %d\n", !failed, file, grow(), start_threads(3));
}

static void few_rights(void) {
  int failed = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) | prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int own = open("/proc/self/ns/uts", O_RDONLY);
  int before = unshare(CLONE_NEWUTS), back = setns(own, CLONE_NEWUTS), files = unshare(CLONE_FILES | CLONE_FS);
  close(own);
  printf("%d unshared %d back %d files %d dumpable %d grown %d\n", failed, before, back, files,
         prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), grow() + start_threads(3));
}

static double work(int steps) {
  volatile double value = 1;
  for (int i = 0; i < steps; i++) value = value * 1.0000001 + 1e-9;
  return value;
}

/* Each signal of out-of-band data and of kill is handled once, and no other. */
static void counts_urgent(void) {
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
  sigaction(SIGURG, &action, NULL);
  for (int i = 0; i < 200; i++) {
    kill(getpid(), SIGURG);
    work(200000);
    if (i % 50 == 0) grow();
  }
  printf("urgent %d\n", signals);
}

/* Children leave no zombies: waiting for them fails when all have ended. */
static void no_wait(void) {
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  int failed = 0;
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (!child) _exit(one(2));
    int status;
    failed += waitpid(child, &status, 0) < 0 && errno == ECHILD;
  }
  printf("system %d none %d some %d grown %d\n", system("exit 3"), failed, signals > 0, grow());
}

static void low_maps(void) {
  int mapped = 0;
  for (uintptr_t at = 0x10000; at < 0x400000; at += 0x10000)
    mapped += mmap((void *)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
              (void *)at;
  printf("mapped %d grown %d threads %d\n", mapped, grow(), start_threads(3));
}

static void *storm(void *failed) {
  static char *words[] = {"true", NULL};
  extern char **environ;
  for (int i = 0; i < 100; i++) {
    pid_t child = vfork();
    int status = -1;
    if (!child) {
      execve("/bin/true", words, environ);
      _exit(9);
    }
    if (waitpid(child, &status, 0) < 0 || status) (*(int *)failed)++;
  }
  return NULL;
}

static void exec_storm(void) {
  pthread_t threads[4];
  int failed[4] = {0}, all = 0;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, storm, &failed[i]);
  for (int i = 0; i < 100; i++) {
    sum_all(grow());
    free(malloc(1 << 20));
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL), all += failed[i];
  printf("failed %d\n", all);
}

int main(int argc, char **argv) {
  struct {
    const char *name;
    void (*run)(void);
  } words[] = {
      {"data-limit", data_limit},       {"file-limit", file_limit},
      {"process-limit", process_limit}, {"no-descriptors", no_descriptors},
      {"io-uring", io_uring},           {"closes-every-number", closes_every_number},
      {"few-rights", few_rights},       {"counts-urgent", counts_urgent},
      {"no-wait", no_wait},             {"low-maps", low_maps},
      {"exec-storm", exec_storm},
  };
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (argc > 1 && !strcmp(argv[1], words[i].name)) words[i].run();
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "closes-every-number")) {
    printf("sum %d\n", sum_all(1));
    MPI_Finalize();
  } else {
    fflush(stdout);
    _exit(0);
  }
  return 0;
}
