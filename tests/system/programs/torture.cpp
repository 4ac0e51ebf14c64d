// Everything at once: threads allocate, map, pass blocks to each other, recurse, throw, longjmp and call MPI, while
// signals arrive, phases change and children are forked. The test computes the expected counts.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#ifdef WITH_MPI
#include <mpi.h>
#endif

extern "C" void insitu_sample_check(void) {}  // sample.c is not linked in
extern "C" void insitu_evaluator_check(void) {}  // nor is hook.c

#define UNTOLD __attribute__((no_instrument_function))
#define KEPT __attribute__((noinline))

extern "C" {
int insitu_table_create(const char *, int, int, const char *, const char *, size_t);
void insitu_finish(int, int);
int insitu_mpi_patch(void);
void insitu_maps_start(void);
void insitu_phase(const char *);
struct insitu_gate {
  char before[65536];
  int is_on;
  char after[65536];
};
extern struct insitu_gate insitu_gate;
}

static const int threads = 8, slots = 64;
static int turns = 300;
static void *shelf[slots]; // blocks that threads pass to each other

KEPT static int fib(int n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
KEPT static void fall(int i) {
  if (i % 3 == 0) throw std::runtime_error(std::string(40, 'x'));
}
KEPT static void leap(jmp_buf &back) {
  longjmp(back, 1);
}
KEPT static void leave(jmp_buf &back) {
  leap(back);
}
KEPT static void handle(int) {
}
KEPT static void trade(unsigned seed) {
  void *mine = nullptr;
  switch (seed % 5) {
    case 0: mine = malloc(seed % 3000 + 1); break;
    case 1: mine = calloc(seed % 30 + 1, 40); break;
    case 2: mine = realloc(malloc(10), seed % 5000 + 1); break;
    case 3:
      if (posix_memalign(&mine, 64, seed % 2000 + 1)) mine = nullptr;
      break;
    case 4: mine = aligned_alloc(128, 128 * (seed % 9 + 1)); break;
  }
  if (mine && seed % 7) memset(mine, 1, 1);
  free(__atomic_exchange_n(&shelf[seed / 5 % slots], mine, __ATOMIC_ACQ_REL));
}
KEPT static void map(unsigned seed) {
  size_t bytes = 4096 * (seed % 7 + 2);
  char *mine = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(mine + 4096, bytes - 4096);
  munmap(mine, 4096);
}
KEPT static void talk() {
#ifdef WITH_MPI
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
#endif
}
KEPT static void turn(int i, unsigned seed) {
  for (int j = 0; j < 10; j++) trade(seed * 1103515245u + 12345u * j);
  fib(5);
  map(seed);
  talk();
  try {
    fall(i);
  } catch (const std::exception &) {}
}
KEPT static void work(unsigned seed) {
  jmp_buf back;
  for (volatile int i = 0; i < turns; i = i + 1) {
    turn(i, seed = seed * 1664525u + 1013904223u);
    if (!setjmp(back)) leave(back);
  }
}
KEPT static void bear() {
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; i++) free(malloc(i));
    fib(5);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

UNTOLD int main(int argc, char **argv) {
  if (argc > 2) turns = atoi(argv[2]);
  if (insitu_table_create(argv[1], 0, 1, "torture", "{}", 2)) return 3;
  insitu_gate.is_on = 1;
  insitu_mpi_patch();
  insitu_maps_start();
#ifdef WITH_MPI
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
#endif
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  itimerval often = {{0, 1000}, {0, 1000}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (int round = 0; round < 2; round++) {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) all.emplace_back([i]() UNTOLD { work(i + 1); });
    for (int i = 0; i < 6; i++) {
      insitu_phase(i % 2 ? "odd" : "even");
#ifndef WITHOUT_FORK
      if (i < 3) bear();
#endif
    }
    for (auto &one : all) one.join();
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  for (void *&block : shelf) free(__atomic_exchange_n(&block, nullptr, __ATOMIC_ACQ_REL));
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  insitu_finish(1, 0);
  return 0;
}
