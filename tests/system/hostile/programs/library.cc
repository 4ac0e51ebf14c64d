// What C++ programs ask of their compiler's library and of others', named by the first argument.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <future>
#include <mpi.h>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>
#ifdef FIBERS
#include <boost/context/fiber.hpp>
#endif

static int rank, size;
static int one(int x) { return x + 1; }
static int two(int x) { return one(x) + 1; }
static int grow() {
  int (*functions[])(int) = {one, two};
  return functions[0](1) + functions[1](2);
}
static int sum_all(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

#ifdef OWN_NEW
static long allocations, releases;
void *operator new(std::size_t bytes) {
  allocations++;
  if (void *place = std::malloc(bytes ? bytes : 1)) return place;
  throw std::bad_alloc();
}
void operator delete(void *place) noexcept { releases++, std::free(place); }
void operator delete(void *place, std::size_t) noexcept { releases++, std::free(place); }
static void own_new() {
  long before = allocations, after = releases;
  for (int i = 0; i < 100; i++) {
    std::vector<int> values(static_cast<std::size_t>(i + 1), 1);
    grow();
    sum_all(0);
  }
  std::thread(grow).join();
  std::printf("allocations %ld releases %ld\n", allocations - before, releases - after);
}
#else
static void own_new() {}
#endif

// Exceptions that handlers of signals throw, where the compiler allows it.
static void throw_it(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  throw std::runtime_error(number == SIGSEGV ? "segv" : number == SIGFPE ? "fpe" : "bus");
}
static volatile int zero;
__attribute__((noinline)) static int read_from(volatile int *place) { return *place + grow(); }
__attribute__((noinline)) static int divide(int by) { return 7 / by; }
static void throwing_handlers() {
  std::signal(SIGSEGV, throw_it);
  std::signal(SIGFPE, throw_it);
  int caught = 0;
  for (int i = 0; i < 50; i++) {
    try {
      i % 2 ? read_from(nullptr) : divide(zero);
    } catch (const std::exception &error) {
      caught += std::strlen(error.what()) == (i % 2 ? 4 : 3);
    }
    sum_all(0);
  }
  std::printf("caught %d\n", caught);
}

// Objects of threads whose destructors work, at each end of a thread.
struct Last {
  int number = 0;
  ~Last() {
    int flag = 0;
    MPI_Finalized(&flag);
    if (!flag && number) sum_self();
    std::vector<int> values(1000, number);
    std::fprintf(stderr, "last %d %d\n", number, flag);
  }
  static void sum_self() {
    int value = 1, sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    grow();
  }
};
static thread_local Last last;
static void objects_of_threads() {
  for (int i = 1; i < 6; i++) std::thread([i] { last.number = i, grow(); }).join();
  std::async(std::launch::async, [] { last.number = 6, grow(); }).get();
  pthread_t thread;
  pthread_create(&thread, nullptr, [](void *) -> void * { last.number = 7; pthread_exit(nullptr); }, nullptr);
  pthread_join(thread, nullptr);
  last.number = 8;
}

// No memory: handlers that make room, and exceptions.
static char *reserve;
static int made_room;
static void make_room() {
  if (!reserve) throw std::bad_alloc();
  std::free(reserve);
  reserve = nullptr;
  made_room++;
}
static void no_room() {
  reserve = static_cast<char *>(std::malloc(64 << 20));
  std::memset(reserve, 1, 64 << 20);
  std::set_new_handler(make_room);
  std::size_t pages = 0;
  FILE *file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%zu", &pages) != 1) return;
  std::fclose(file);
  rlimit before{}, limit{};
  getrlimit(RLIMIT_AS, &before);
  limit = {pages * 4096 + (20 << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &limit);
  int caught = 0;
  std::vector<char *> blocks;
  try {
    for (int i = 0; i < 1000; i++) blocks.push_back(new char[1 << 20]), grow();
  } catch (const std::bad_alloc &) {
    caught++;
  }
  int sum = sum_all(1);
  bool is_right = blocks.size() >= 70 && blocks.size() <= 90;
  for (char *block : blocks) delete[] block;
  setrlimit(RLIMIT_AS, &before);
  std::printf("caught %d room %d blocks %d sum %d\n", caught, made_room, is_right, sum);
}

#ifdef FIBERS
namespace ctx = boost::context;
static int descend(int n) { return n ? descend(n - 1) + 1 : grow() * 0; }
static void fibers() {
  long sum = 0;
  for (int round = 0; round < 20; round++) {
    std::vector<ctx::fiber> all;
    for (int i = 0; i < 50; i++)
      all.emplace_back([&sum, i](ctx::fiber &&back) {
        for (int k = 0; k < 3; k++) {
          sum += descend(20) + i;
          std::free(std::malloc(1000));
          if (i % 10 == 0) sum_all(0);
          try {
            if (k == 1) throw std::runtime_error("in a fiber");
          } catch (const std::exception &) {
            sum++;
          }
          back = std::move(back).resume();
        }
        return std::move(back);
      });
    for (int k = 0; k < 2; k++)
      for (auto &fiber : all) fiber = std::move(fiber).resume();
  }  // the third part never runs: stacks are unwound
  std::printf("fibers %ld\n", sum);
}
#else
static void fibers() {}
#endif

// Functions of C++ that leave MPI's callbacks: copies of attributes that throw.
static int copy_or_throw(MPI_Comm, int, void *extra, void *value, void *out, int *flag) {
  if (++*static_cast<int *>(extra) > 2) throw std::runtime_error("no copy");
  grow();
  *static_cast<void **>(out) = value;
  *flag = 1;
  return MPI_SUCCESS;
}
static void throwing_copies() {
  int key, copies = 0, caught = 0;
  MPI_Comm_create_keyval(copy_or_throw, MPI_COMM_NULL_DELETE_FN, &key, &copies);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, &copies);
  for (int i = 0; i < 5; i++) {
    MPI_Comm comm;
    try {
      MPI_Comm_dup(MPI_COMM_SELF, &comm);
      MPI_Comm_free(&comm);
    } catch (const std::exception &) {
      caught++;
    }
  }
  std::printf("copies %d caught %d\n", copies, caught);
}

static const struct {
  const char *name;
  void (*run)();
} words[] = {
    {"own-new", own_new}, {"throwing-handlers", throwing_handlers}, {"objects-of-threads", objects_of_threads},
    {"no-room", no_room}, {"fibers", fibers}, {"throwing-copies", throwing_copies},
};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  int provided;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const auto &entry : words)
    if (!std::strcmp(entry.name, word)) entry.run();
  int sum = 0;
  for (int i = 0; i < 10; i++) sum = sum_all(1);
  std::printf("sum %d\n", sum);
  MPI_Finalize();
}
