/* Programs that are compiled and linked in unusual ways, named by the first argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

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

/* ---- functions that are chosen while the program is relocated ----------------------------------------------------- */

static int chosen_one(int x) { return x * 2; }
static int chosen_two(int x) { return x * 3; }
static int resolved;
static int choose(int x) {
  resolved++;
  return x > 0;
}
static int (*resolve(void))(int) {
  return choose(1) ? chosen_two : chosen_one;
}
int chosen(int x) __attribute__((ifunc("resolve")));
__attribute__((target_clones("avx2", "sse4.2", "default"), noinline)) double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}
static void chosen_functions(void) {
  double a[64], b[64], sum = 0;
  for (int i = 0; i < 64; i++) a[i] = i, b[i] = 2;
  for (int i = 0; i < 1000; i++) sum += dot(a, b, 64) + chosen(i) + sum_all(0);
  printf("dot %g resolved %d\n", sum, resolved > 0);
}

/* ---- before main, and after it ------------------------------------------------------------------------------------ */

static char before_text[256];
static void *first_thread(void *text) {
  strcat(text, " thread");
  return malloc(100);
}
static void very_early(int argc, char **argv, char **variables) {
  int flag = 5, version, more;
  pthread_t thread;
  void *result = NULL;
  if (argc < 2 || strcmp(argv[1], "early-and-late")) return;
  MPI_Initialized(&flag);
  MPI_Get_version(&version, &more);
  snprintf(before_text, sizeof before_text, "initialized %d version %d", flag, version > 2);
  pthread_create(&thread, NULL, first_thread, before_text);
  pthread_join(thread, &result);
  free(result);
  FILE *file = fopen("/proc/self/comm", "r");
  if (file && fgets(before_text + strlen(before_text), 30, file)) fclose(file);
  if (!fork()) _exit(grow() > 0);
  int status;
  wait(&status);
  grow();
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = very_early;
__attribute__((constructor(101))) static void early(void) { strcat(before_text, " early"); }
static int is_late;
__attribute__((destructor(101))) static void late(void) {
  int flag = 5;
  if (!is_late) return;
  MPI_Finalized(&flag);
  printf("late: finalized %d grown %d\n", flag, grow());
  fflush(stdout);
  free(malloc(1000));
}
static void early_and_late(void) {
  is_late = 1;
  printf("before: %s\n", before_text);
}

/* ---- own hooks of functions: the program traces itself ------------------------------------------------------------ */

#ifdef OWN_HOOKS
static long entered, left_functions;
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *caller) { entered++; }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *caller) { left_functions++; }
static void own_hooks(void) {
  long before = entered, after = left_functions;
  for (int i = 0; i < 100; i++) grow();
  printf("entered %ld left %ld\n", entered - before, left_functions - after);
}
#elif defined OWN_MCOUNT
static long entered;
__attribute__((no_instrument_function, naked)) void __fentry__(void) { __asm__("incq entered(%rip)\n\tret"); }
__asm__(".globl entered");
static void own_hooks(void) {
  long before = *(volatile long *)&entered;
  for (int i = 0; i < 100; i++) grow();
  printf("entered %d\n", *(volatile long *)&entered - before >= 700);
}
#else
static void own_hooks(void) {}
#endif

/* ---- room of thread-local storage, and libraries that come and go -------------------------------------------------- */

static void build(const char *name, const char *text, const char *flags) {
  char command[4096];
  snprintf(command, sizeof command, "printf '%%s' '%s' | gcc -w -shared -fPIC -x c %s -o %s-%d.so -", text, flags, name, rank);
  fflush(stdout);
  if (system(command)) printf("not built\n");
}
static void *open_built(const char *name, int flags) {
  char path[256];
  snprintf(path, sizeof path, "./%s-%d.so", name, rank);
  return dlopen(path, flags);
}
static void thread_local_room(void) {
  for (int bytes = 64; bytes <= 2048; bytes += bytes < 1400 ? 448 : 64) {
    char text[256], name[32];
    snprintf(name, sizeof name, "tls%d", bytes);
    snprintf(text, sizeof text, "__attribute__((tls_model(\"initial-exec\"))) __thread char block[%d]; char *f(void) { return block; }", bytes);
    build(name, text, "");
    void *library = open_built(name, RTLD_NOW);
    printf("%d %s\n", bytes, library ? "fits" : strstr(dlerror(), "static TLS") ? "no room" : "?");
    if (library) dlclose(library);
    grow();
  }
}
static int visit(struct dl_phdr_info *info, size_t length, void *counts) {
  ((unsigned long long *)counts)[0] = info->dlpi_adds;
  ((unsigned long long *)counts)[1] = info->dlpi_subs;
  return 0;
}
static void libraries_come_and_go(void) {
  unsigned long long before[2], after[2];
  const char *text =
      "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nstatic __thread char big[100000];"
      "static void say(const char *text) { if (write(1, text, strlen(text)) < 0) abort(); }"
      "__attribute__((constructor)) static void in(void) { say(\"in\\n\"); big[5] = 1; }"
      "__attribute__((destructor)) static void out(void) { say(\"out\\n\"); }"
      "void exit_handler(void) { say(\"handler\\n\"); }"
      "int work(int n) { if (n == 7) atexit(exit_handler); return n + big[5]; }";
  build("come", text, "-finstrument-functions");
  sum_all(1);
  dl_iterate_phdr(visit, before);
  for (int i = 0; i < 20; i++) {
    void *library = open_built("come", (i % 2 ? RTLD_LAZY : RTLD_NOW) | (i % 3 ? RTLD_LOCAL : RTLD_GLOBAL) | (i % 5 ? 0 : RTLD_DEEPBIND));
    int (*work)(int) = (int (*)(int))dlsym(library, "work");
    printf("work %d again %d\n", work(i), open_built("come", RTLD_NOW | RTLD_NOLOAD) == library);
    dlclose(library);
    dlclose(library);
    printf("gone %d\n", open_built("come", RTLD_NOW | RTLD_NOLOAD) == NULL);
    sum_all(0);
  }
  dl_iterate_phdr(visit, after);
  printf("added %llu removed %llu\n", after[0] - before[0], after[1] - before[1]);
  Dl_info info;
  const char *names[] = {"malloc", "free", "open", "read", "pthread_create", "dlopen", "sigaction", "exit", "fork"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *next = dlsym(RTLD_NEXT, names[i]), *any = dlsym(RTLD_DEFAULT, names[i]);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), *own = dlsym(libc, names[i]);
    printf("%s %d %d %d\n", names[i], next != NULL, any != NULL, own && dladdr(own, &info) && strstr(info.dli_fname, "libc.so") != NULL);
  }
}

/* ---- stacks that grow in pieces, code on the stack, transactions ---------------------------------------------------- */

__attribute__((noinline)) static int deep(int n) {
  volatile char room[2000];
  room[n % 2000] = 1;
  if (n % 20000 == 0) sum_all(0), free(malloc(50));
  return n ? deep(n - 1) + room[n % 2000] : 0;
}
static void *deep_thread(void *unused) {
  return (void *)(intptr_t)deep(60000);
}
static void split_stacks(void) {
  pthread_t thread;
  void *result;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  if (pthread_create(&thread, &attributes, deep_thread, NULL)) printf("no thread\n");
  else pthread_join(thread, &result), printf("deep %ld\n", (long)result);
}
static int apply(int (*function)(int), int n) { return function(n); }
static void nested_functions(void) {
  int sum = 0;
  int add(int n) {
    sum += n;
    if (n % 10 == 0) sum_all(0);
    return sum;
  }
  for (int i = 0; i < 100; i++) apply(add, i);
  build("stack", "int g(int (*f)(int)) { return f(1); } int h(int n) { int k(int m) { return n + m; } return g(k); }", "-O0 -z execstack");
  void *library = open_built("stack", RTLD_NOW);
  int (*h)(int) = library ? (int (*)(int))dlsym(library, "h") : NULL;
  printf("nested %d %d\n", sum, h ? h(4) : -1);
}
#ifdef TRANSACTIONS
static long counter;
__attribute__((transaction_safe)) static long bump(long by) { return counter += by; }
static void *transact(void *unused) {
  for (int i = 0; i < 20000; i++) __transaction_atomic { bump(1); }
  return NULL;
}
static void transactions(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, transact, NULL);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  sum_all(1);
  printf("counter %ld\n", counter);
}
#else
static void transactions(void) {}
#endif
#ifdef LARGE
static char large[3ul << 30];
static void large_model(void) {
  for (size_t i = 0; i < sizeof large; i += 256 << 20) large[i] = (char)grow();
  sum_all(1);
  printf("large %d\n", large[512 << 20]);
}
#else
static void large_model(void) {}
#endif

/* ---- checks of the C library --------------------------------------------------------------------------------------- */

static volatile size_t too_much = 64;
static void fortified(void) {
  for (int kind = 0; kind < 7; kind++) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
      char small[16];
      grow();
      int file = open("/proc/self/exe", O_RDONLY);
      FILE *stream = fopen("/proc/self/exe", "r");
      if (kind == 0) (void)!read(file, small, too_much);
      if (kind == 1) (void)!pread(file, small, too_much, 0);
      if (kind == 2) (void)!fread(small, 1, too_much, stream);
      if (kind == 3) memcpy(small, "0123456789012345678901234567890123456789", too_much / 2);
      if (kind == 4) open("fortified", O_CREAT | (int)(too_much - 64));
      if (kind == 5) sprintf(small, "%0*d", (int)too_much, 5);
      if (kind == 6) (void)!getcwd(small, too_much);
      _exit(small[0] == 77);
    }
    int status;
    waitpid(child, &status, 0);
    printf("kind %d signal %d\n", kind, WTERMSIG(status));
  }
}
/* How many frames are above a function, wherever it was called from. */
static int compare_depth(const void *a, const void *b) {
  void *frames[64];
  static int is_shown;
  int depth = backtrace(frames, 64);
  if (!is_shown++) printf("in qsort %d\n", depth > 2);
  return *(const int *)a - *(const int *)b;
}
static void *depth_of_thread(void *unused) {
  void *frames[64];
  printf("in a thread %d\n", backtrace(frames, 64));
  return NULL;
}
static void depth_at_exit(void) {
  void *frames[64];
  printf("at exit %d\n", backtrace(frames, 64));
  fflush(stdout);
}
static void depth_in_handler(int number) {
  void *frames[64];
  printf("in a handler %d\n", backtrace(frames, 64));
}
static void backtraces(void) {
  void *frames[64];
  int values[] = {3, 1, 2};
  pthread_t thread;
  printf("in main %d\n", backtrace(frames, 64));
  qsort(values, 3, sizeof *values, compare_depth);
  pthread_create(&thread, NULL, depth_of_thread, NULL);
  pthread_join(thread, NULL);
  signal(SIGUSR1, depth_in_handler);
  raise(SIGUSR1);
  atexit(depth_at_exit);
  char **symbols = backtrace_symbols(frames, backtrace(frames, 64));
  printf("%s\n", strrchr(symbols[0], '/'));
  free(symbols);
  backtrace_symbols_fd(frames, 2, 1);
}
static void just_works(void) {
  double sum = 0;
  for (int i = 0; i < 2000000; i++) sum += sqrt(i);
  for (int i = 0; i < 100000; i++) grow();
  for (int i = 0; i < 1000; i++) free(malloc((size_t)i * 10));
  printf("work %g\n", sum);
}
static void executes_helper(void) { /* a program that another dynamic linker loads, or none */
  const char *helper = getenv("HELPER");
  for (int i = 0; i < 2; i++) {
    grow();
    fflush(stdout);
    pid_t child = i ? vfork() : fork();
    if (!child) {
      execl(helper, "helper", NULL);
      _exit(99);
    }
    int status;
    waitpid(child, &status, 0);
    printf("status %d\n", status);
  }
}

static const struct {
  const char *name;
  void (*run)(void);
} words[] = {
    {"chosen-functions", chosen_functions}, {"early-and-late", early_and_late}, {"own-hooks", own_hooks},
    {"thread-local-room", thread_local_room}, {"libraries-come-and-go", libraries_come_and_go},
    {"split-stacks", split_stacks}, {"nested-functions", nested_functions}, {"transactions", transactions},
    {"large-model", large_model}, {"fortified", fortified}, {"backtraces", backtraces}, {"works", just_works},
    {"executes-helper", executes_helper},
};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
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
