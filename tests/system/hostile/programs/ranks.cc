/* What a rank of MPI may do to its own process in C++, one way per word of the command line. */
#include <alloca.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <fcntl.h>
#include <future>
#include <mpi.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace {

int rank_number;

[[gnu::noinline]] int leaf(int x) { return x + 1; }
[[gnu::noinline]] int middle(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += leaf(i);
  return sum;
}
template <int n> [[gnu::noinline]] int many(int x) {
  if constexpr (n > 0) return leaf(x) + many<n - 1>(x);
  return x;
}
[[gnu::noinline]] int thrower(int depth) {
  if (depth == 0) throw std::runtime_error("thrown");
  return thrower(depth - 1) + leaf(depth);
}

int all(int value = 1) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void reduce_with_exceptions(void *in, void *out, int *count, MPI_Datatype *) {
  for (int i = 0; i < *count; i++) {
    try {
      thrower(5);
    } catch (const std::exception &) {
      static_cast<int *>(out)[i] += static_cast<int *>(in)[i];
    }
  }
}
int deleted(MPI_Comm, int, void *, void *) {
  try {
    return thrower(4);
  } catch (const std::exception &) {
    return MPI_SUCCESS;
  }
}
void exceptions_in_callbacks() {
  int key, value = 1, sum = 0;
  MPI_Op op;
  MPI_Op_create(reduce_with_exceptions, 1, &op);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &sum);
  for (int i = 0; i < 50; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  MPI_Comm_free_keyval(&key);
  MPI_Op_free(&op);
  std::printf("sum %d\n", sum == all());
}
void uncaught() {
  std::set_terminate([] {
    std::printf("terminate %d\n", middle(3));
    std::fflush(stdout);
    std::_Exit(9);
  });
  MPI_Barrier(MPI_COMM_WORLD);
  thrower(3);
}
void threads_and_futures() {
  std::vector<std::future<int>> futures;
  for (int i = 0; i < 20; i++)
    futures.push_back(std::async(std::launch::async, [i] { return i % 2 ? thrower(i) : middle(i); }));
  int caught = 0, sum = 0;
  for (auto &future : futures) {
    try {
      sum += future.get();
    } catch (const std::runtime_error &) {
      caught++;
    }
  }
  thread_local std::string own = "own";
  std::thread([&] { sum += own.empty(); }).join();
  std::printf("futures %d %d\n", sum, caught);
}

ucontext_t contexts[4];
int turns;
void in_context(int n) {
  for (int i = 0; i < 10; i++) {
    turns += all() > 0 && leaf(n) > 0;
    swapcontext(&contexts[n], &contexts[(n + 1) % 4]);
  }
}
void contexts_and_messages() {
  static char stacks[4][256 << 10];
  for (int n = 1; n < 4; n++) {
    getcontext(&contexts[n]);
    contexts[n].uc_stack = {stacks[n], 0, sizeof stacks[n]};
    contexts[n].uc_link = &contexts[0];
    makecontext(&contexts[n], reinterpret_cast<void (*)()>(in_context), 1, n);
  }
  for (int i = 0; i < 10; i++) {
    turns += all() > 0;
    swapcontext(&contexts[0], &contexts[1]);
  }
  std::printf("turns %d\n", turns);
}

std::atomic<int> hits;
void timers_on_own_stack() {
  stack_t stack = {std::malloc(1 << 20), 0, 1 << 20};
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = [](int) { hits += leaf(0); };
  action.sa_flags = SA_ONSTACK | SA_RESTART | SA_NODEFER;
  sigaction(SIGALRM, &action, nullptr);
  sigaction(SIGVTALRM, &action, nullptr);
  itimerval often = {{0, 500}, {0, 500}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  setitimer(ITIMER_VIRTUAL, &often, nullptr);
  long total = 0;
  int fewest = 0;
  do {
    int mine = hits;
    total += many<300>(1);
    MPI_Allreduce(&mine, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  } while (fewest < 100);
  setitimer(ITIMER_REAL, &never, nullptr);
  setitimer(ITIMER_VIRTUAL, &never, nullptr);
  std::printf("timers %d\n", total > 0);
}
void children() {
  std::fflush(stdout);
  for (int kind = 0; kind < 4; kind++) {
    pid_t child = kind == 1 ? vfork() : fork();
    if (!child) {
      if (kind == 0) std::exit(middle(3));
      if (kind == 1) execl("/bin/sh", "sh", "-c", "exit 7", nullptr), _exit(1);
      if (kind == 2) std::quick_exit(many<100>(1) & 7);
      std::abort();
    }
    int status;
    waitpid(child, &status, 0);
    std::printf("child %d %d %d\n", kind, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
}
void no_children_to_wait_for() {
  std::signal(SIGCHLD, SIG_IGN);
  std::printf("system %d\n", std::system("exit 3"));
  if (!fork()) _exit(middle(2));
  std::printf("wait %d\n", wait(nullptr));
}
void closes_all() {
  MPI_Finalize();
  for (int file = 0; file < 4096; file++) close(file);
  int sum = many<300>(1);
  _exit(sum > 0 && open("/dev/null", O_RDWR) == 0 ? 11 : 12);
}
void leaves_folder() {
  char name[] = "/tmp/hostileXXXXXX";
  if (!mkdtemp(name) || chdir(name) || rmdir(name)) return;
  umask(0777);
  char path[4096];
  std::printf("cwd %d sum %d\n", getcwd(path, sizeof path) == nullptr, many<300>(1));
}
void empty_filesystems() {
  if (unshare(CLONE_NEWNS) || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) return;
  int failed = mount("none", "/tmp", "tmpfs", 0, "size=4k") || mount("none", "/dev/shm", "tmpfs", MS_RDONLY, "");
  std::printf("mounted %d sum %d\n", !failed, many<300>(1));
}
void small_limits() {
  for (auto what : {RLIMIT_NPROC, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING, RLIMIT_CORE}) {
    rlimit limit = {what == RLIMIT_NOFILE ? 3u : 1u, what == RLIMIT_NOFILE ? 3u : 1u};
    setrlimit(what, &limit);
  }
  std::printf("limits %d\n", many<300>(1));
}
void processor_limit() {
  MPI_Barrier(MPI_COMM_WORLD);
  rlimit limit = {1, 2};
  setrlimit(RLIMIT_CORE, &limit);
  setrlimit(RLIMIT_CPU, &limit);
  for (;;) middle(1000);
}
void finalizes_twice() {
  MPI_Finalize();
  MPI_Finalize();
  std::printf("after %d\n", middle(3));
}
void forgets_finalize() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("forgets %d\n", middle(3));
  std::fflush(stdout);
  std::_Exit(0);
}
void frees_in_handler(int number) {
  static char text[] = "segmentation\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(1);
  std::signal(number, SIG_DFL);
  raise(number);
}
void handles_crash() {
  MPI_Barrier(MPI_COMM_WORLD);
  rlimit none = {};
  setrlimit(RLIMIT_CORE, &none);
  std::signal(SIGSEGV, frees_in_handler);
  thrower(-1); /* until the stack is full: no handler without a stack of its own */
}
void large_frames() {
  for (int size = 1; size < 6 << 20; size *= 3) {
    volatile char *memory = static_cast<char *>(alloca(size > 1 << 20 ? 1 << 20 : size));
    memory[0] = memory[size > 1 << 20 ? (1 << 20) - 1 : size - 1] = leaf(size);
  }
  std::printf("frames %d\n", middle(3));
}
void *small(void *) { return reinterpret_cast<void *>(static_cast<long>(all() > 0 ? middle(20) : 0)); }
void small_stacks() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10); /* MPICH 4.0 needs more than 128 KiB */
  pthread_attr_setguardsize(&attributes, 0);
  long sum = 0;
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    void *value = nullptr;
    pthread_create(&thread, &attributes, small, nullptr);
    pthread_join(thread, &value);
    sum += reinterpret_cast<long>(value);
  }
  std::printf("stacks %ld\n", sum);
}
void abort_in_thread() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::thread([] { MPI_Abort(MPI_COMM_WORLD, middle(3)); }).detach();
  for (;;) middle(1000);
}
void interposed() {
  void *self = dlopen(nullptr, RTLD_NOW);
  std::printf("same %d\n", dlsym(self, "MPI_Init_thread") == dlsym(RTLD_DEFAULT, "MPI_Init_thread"));
  Dl_info info;
  std::printf("named %d\n", dladdr(reinterpret_cast<void *>(&MPI_Allreduce), &info) != 0);
}
struct AtEnd {
  ~AtEnd() {
    int done = 0;
    MPI_Finalized(&done);
    if (rank_number == 0) std::printf("destroyed %d %d\n", done, middle(3));
  }
} at_end;

struct {
  const char *word;
  void (*run)();
} const words[] = {{"exceptions-in-callbacks", exceptions_in_callbacks},
                   {"uncaught", uncaught},
                   {"threads-and-futures", threads_and_futures},
                   {"contexts", contexts_and_messages},
                   {"timers-on-own-stack", timers_on_own_stack},
                   {"children", children},
                   {"no-children", no_children_to_wait_for},
                   {"closes-all", closes_all},
                   {"leaves-folder", leaves_folder},
                   {"empty-filesystems", empty_filesystems},
                   {"small-limits", small_limits},
                   {"processor-limit", processor_limit},
                   {"finalizes-twice", finalizes_twice},
                   {"forgets-finalize", forgets_finalize},
                   {"handles-crash", handles_crash},
                   {"large-frames", large_frames},
                   {"small-stacks", small_stacks},
                   {"abort-in-thread", abort_in_thread},
                   {"interposed", interposed}};

} // namespace

int main(int argc, char **argv) {
  int provided;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_number);
  for (auto &entry : words)
    if (argc > 1 && !std::strcmp(entry.word, argv[1])) entry.run();
  std::printf("end %d\n", all() > 0);
  MPI_Finalize();
  return 0;
}
