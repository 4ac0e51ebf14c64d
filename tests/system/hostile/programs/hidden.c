/* State that the C library hides, and corners of files, executions and OpenMP, named by the first argument. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <locale.h>
#include <mpi.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <search.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#ifdef _OPENMP
#include <omp.h>
#endif

extern char **environ;
static int rank, size;
static volatile int seen;

static int one(int x) { return x + 1; }
static int two(int x) { return one(x) + 1; }
static int three(int x) { return two(x) + one(x); }
static int f0(int x) { return three(x); }
static int f1(int x) { return f0(x) + 1; }
static int f2(int x) { return f1(x) + 1; }
static int f3(int x) { return f2(x) + 1; }
/* New call paths each time. */
static int grow(void) {
  static int (*functions[])(int) = {one, two, three, f0, f1, f2, f3};
  static unsigned next;
  return functions[next++ % 7](1) + functions[next++ % 7](2);
}
static int sum_all(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
static void everything(void) {
  grow();
  sum_all(1);
  free(malloc(100000));
  FILE *file = fopen("/dev/null", "r");
  if (file) fclose(file);
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  DIR *folder = opendir("/");
  if (folder) readdir(folder), closedir(folder);
  double end = MPI_Wtime() + 0.02;
  while (MPI_Wtime() < end) grow();
}

/* Errors and results that wait to be read while other functions are called. */
static void waiting_results(void) {
  dlopen("not-there.so", RTLD_NOW);
  everything();
  const char *text = dlerror();
  printf("dlerror %s\n", text ? text : "none");
  printf("dlerror %s\n", dlerror() ? "again" : "gone");
  dlsym(RTLD_DEFAULT, "not_there_either");
  everything();
  text = dlerror();
  printf("dlerror %s\n", text ? strrchr(text, ':') : "none");
  dlerror();
  everything();
  printf("dlerror %s\n", dlerror() ? "some" : "none");
  void *library = dlopen("libm.so.6", RTLD_NOW);
  printf("dlerror %s\n", dlerror() ? "some" : "none");
  dlclose(library);
  srand(5), srandom(6), srand48(7);
  int first = rand();
  everything();
  printf("random %d %d %ld %.3f\n", first, rand(), random(), drand48());
  char words[] = "a b c d", *word = strtok(words, " ");
  for (; word; word = strtok(NULL, " ")) printf("word %s\n", word), everything();
  time_t then = 1000000000;
  setenv("TZ", "UTC", 1);
  struct tm *local = localtime(&then);
  char *when = asctime(local), *reason = strerror(ENOTSUP), *number = ecvt(3.25, 4, &(int){0}, &(int){0});
  struct in_addr address = {htonl(0x7f000001)};
  char *dotted = inet_ntoa(address);
  struct passwd *user = getpwuid(0);
  everything();
  printf("time %d %s reason %s number %s address %s user %s\n", local->tm_year, strtok(when, "\n"), reason, number, dotted, user->pw_name);
  char *arguments[] = {"program", "-a", "-b", "c", NULL};
  optind = 1;
  for (int option; (option = getopt(4, arguments, "ab:")) > 0;) printf("option %c %d\n", option, optind), everything();
  hcreate(10);
  hsearch((ENTRY){"key", "value"}, ENTER);
  everything();
  printf("found %s\n", (char *)hsearch((ENTRY){"key"}, FIND)->data);
  hdestroy();
  setlocale(LC_ALL, "C.UTF-8");
  mbstate_t state = {0};
  wchar_t wide;
  mbrtowc(&wide, "\xc3", 1, &state);
  everything();
  size_t left = mbrtowc(&wide, "\xa4", 1, &state);
  mblen(NULL, 0);
  printf("wide %zu %x locale %s %.2f\n", left, (unsigned)wide, setlocale(LC_ALL, NULL), 1.5);
  setpwent();
  getpwent();
  everything();
  user = getpwent();
  printf("second user %s\n", user ? user->pw_name : "none");
  endpwent();
  errno = 77;
  everything();
  errno = 77;
  grow();
  free(malloc(10));
  printf("errno %d umask %o\n", errno, umask(umask(022)));
  ungetc('x', stdin);
  printf("unget %d pending %zu\n", getchar() == 'x', __fpending(stdout));
  sigset_t none;
  sigemptyset(&none);
  struct timespec rest = {0}, much = {0, 300000000};
  signal(SIGALRM, SIG_DFL);
  int done = nanosleep(&much, &rest);
  printf("sleep %d\n", done);
}

/* Files that few programs open in this way. */
static void interrupt(int number) { seen++; }
static int visit(const char *path, const struct stat *state, int kind, struct FTW *where) {
  seen++;
  return grow() < 0;
}
static void file_corners(void) {
  char name[64], text[4096];
  snprintf(name, sizeof name, "files-%d", rank);
  mkdir(name, 0700);
  if (chdir(name)) return;
  struct sigaction action = {.sa_handler = interrupt};
  sigaction(SIGALRM, &action, NULL);
  mkfifo("pipe", 0600);
  struct itimerval soon = {{0, 50000}, {0, 50000}}, never = {{0}};
  for (int i = 0; i < 3; i++) {
    setitimer(ITIMER_REAL, &soon, NULL);
    FILE *stream = i == 1 ? fopen("pipe", "r") : NULL;
    int error = errno, file = i == 0 ? open("pipe", O_RDONLY) : i == 2 ? openat(AT_FDCWD, "pipe", O_WRONLY) : -1;
    if (i != 1) error = errno;
    setitimer(ITIMER_REAL, &never, NULL);
    printf("interrupted %d %d %d\n", stream == NULL, file, error);
  }
  int both = open("pipe", O_RDWR);
  setitimer(ITIMER_REAL, &soon, NULL);
  ssize_t got = read(both, text, 10);
  int error = errno;
  setitimer(ITIMER_REAL, &never, NULL);
  printf("read %zd %d\n", got, error);
  int hidden = open(".", O_TMPFILE | O_RDWR, 0640);
  if (write(hidden, "hidden", 6) == 6) {
    snprintf(text, sizeof text, "/proc/self/fd/%d", hidden);
    struct stat state = {0};
    int linked = linkat(AT_FDCWD, text, AT_FDCWD, "shown", AT_SYMLINK_FOLLOW);
    stat("shown", &state);
    printf("linked %d mode %o size %ld\n", linked, state.st_mode & 07777, (long)state.st_size);
  }
  int folder = open(".", O_PATH | O_DIRECTORY);
  printf("by folder %d write %d loop %d\n", openat(folder, "shown", O_RDONLY) >= 0, open(".", O_WRONLY), errno);
  symlink("loop", "loop");
  printf("loop %d %d exclusive %d %d\n", open("loop", O_RDONLY), errno == ELOOP, fopen("shown", "wx") == NULL, errno == EEXIST);
  for (int depth = 0; depth < 30; depth++) {
    memset(text, 'd', 200);
    text[200] = 0;
    if (mkdir(text, 0700) || chdir(text)) break;
  }
  int far = open("far", O_CREAT | O_WRONLY, 0600);
  printf("far %d cwd %d\n", far >= 0, getcwd(text, sizeof text) == NULL ? errno : 0);
  close(far);
  unlink("far");
  memset(text, 'd', 200);
  text[200] = 0;
  for (int depth = 0; depth < 30; depth++)
    if (chdir("..") || rmdir(text)) break;
  if (fchdir(folder)) return;
  seen = 0;
  printf("tree %d", nftw(".", visit, 20, FTW_PHYS | FTW_DEPTH));
  printf(" %d\n", seen);
  FILE *odd = fopen("new\nline\xff", "w+e");
  fputs("first line\nsecond", odd);
  rewind(odd);
  char *line = NULL;
  size_t room = 0;
  printf("line %zd", getline(&line, &room, odd));
  printf(" %zd", getdelim(&line, &room, 'o', odd));
  odd = freopen(NULL, "a", odd);
  if (odd) fputs("more", odd), fflush(odd);
  printf(" reopened %d at %ld\n", odd != NULL, odd ? ftell(odd) : -1);
  glob_t names = {0};
  int failed = glob("s*", 0, NULL, &names);
  printf("glob %d %zu\n", failed, names.gl_pathc);
  globfree(&names);
  FILE *lines = popen("echo 1; exit 3", "re");
  got = (ssize_t)fread(text, 1, 10, lines);
  printf("popen %zd %d\n", got, WEXITSTATUS(pclose(lines)));
  char copy[] = "copy-XXXXXX";
  int made = mkostemp(copy, O_CLOEXEC | O_APPEND);
  unlink(copy);
  printf("made %d %d\n", made >= 0, fcntl(made, F_GETFL) & O_APPEND ? 1 : 0);
  DIR *entries = opendir(".");
  readdir(entries);
  long place = telldir(entries);
  struct dirent *second = readdir(entries);
  ino_t number = second->d_ino;
  seekdir(entries, place);
  printf("directory %d\n", readdir(entries)->d_ino == number);
  closedir(entries);
  FILE *temporary = tmpfile();
  printf("temporary %d", fileno(temporary) >= 0);
  close(fileno(temporary));
  fputc('x', temporary);
  printf(" closed below %d %d\n", fclose(temporary), errno == EBADF);
  if (chdir("..")) return;
}

/* Executions that fail, and those that find their program in odd ways. */
static void executions(void) {
  char name[64], path[4096];
  snprintf(name, sizeof name, "exec-%d", rank);
  mkdir(name, 0700);
  if (chdir(name)) return;
  FILE *script = fopen("no-shebang", "w");
  fputs("echo script $0 $#\nexit 4\n", script);
  fchmod(fileno(script), 0755);
  fclose(script);
  script = fopen("not-executable", "w");
  fclose(script);
  char *many[600] = {"no-shebang"}, large[3000];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = 0;
  for (int i = 1; i < 500; i++) many[i] = "word";
  char *huge[3000] = {"true"};
  for (int i = 1; i < 2900; i++) huge[i] = large;
  setenv("PATH", "/not-there:.:/usr/bin:/bin", 1);
  for (int kind = 0; kind < 9; kind++) {
    int status = -1, failed = 0;
    pid_t child = 0;
    fflush(stdout);
    everything();
    if (kind < 7 && !(child = kind % 2 ? vfork() : fork())) {
      if (kind == 0) execvp("no-shebang", many);
      if (kind == 1) execv("./no-shebang", many);
      if (kind == 2) execlp("not-executable", "a", NULL);
      if (kind == 3) execvp("true", huge);
      if (kind == 4) execvpe("no-shebang", many, (char *[]){"A=1", NULL});
      if (kind == 5) execve("/usr/bin/env", (char *[]){"env", NULL}, (char *[]){"B=2", "B=3", "=4", "C", NULL});
      if (kind == 6) {
        int file = open("/bin/true", O_PATH | O_CLOEXEC);
        execveat(file, "", (char *[]){"true", NULL}, environ, AT_EMPTY_PATH);
      }
      _exit(100 + errno % 100);
    }
    if (kind == 7) failed = posix_spawnp(&child, "no-shebang", NULL, NULL, many, environ);
    if (kind == 8) failed = posix_spawn(&child, "./not-there", NULL, NULL, many, environ);
    if (!failed && child > 0) waitpid(child, &status, 0);
    printf("kind %d failed %d status %d\n", kind, failed, status);
  }
  for (int i = 0; i < 3; i++) printf("fails %d %d\n", execv("not-there", many), errno), everything();
  if (chdir("..")) return;
}

/* What OpenMP has beside loops. */
static void openmp(void) {
#ifdef _OPENMP
  long sum = 0;
  int threads = 0;
  omp_set_max_active_levels(3);
#pragma omp parallel num_threads(3) reduction(+ : sum)
  {
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += one(omp_get_thread_num());
#pragma omp single
    for (int i = 0; i < 20; i++) {
#pragma omp task firstprivate(i) depend(inout : threads)
      threads += two(i) > 0;
    }
#pragma omp for schedule(dynamic, 3) ordered
    for (int i = 0; i < 50; i++) {
      sum += i;
#pragma omp ordered
      sum += one(0);
    }
#pragma omp sections
    {
#pragma omp section
      sum++;
#pragma omp section
      sum++;
    }
#pragma omp taskloop grainsize(5)
    for (int i = 0; i < 10; i++) one(i);
#pragma omp for schedule(guided) nowait
    for (int i = 0; i < 10; i++) sum += i;
#pragma omp cancellation point parallel
#pragma omp critical(mine)
    sum += one(1);
  }
  printf("sum %ld tasks %d\n", sum, threads);
  pid_t child = fork();
  if (!child) _exit(one(2));
  int status;
  waitpid(child, &status, 0);
  printf("child %d pause %d\n", WEXITSTATUS(status), omp_pause_resource_all(omp_pause_hard));
#pragma omp parallel num_threads(2) reduction(+ : sum)
  sum += 1;
#pragma omp target map(tofrom : sum)
  sum += 5;
  printf("sum %ld\n", sum);
  sum_all(1);
#endif
}

static const struct {
  const char *name;
  void (*run)(void);
} words[] = {{"waiting-results", waiting_results}, {"file-corners", file_corners}, {"executions", executions}, {"openmp", openmp}};

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
