/* A library that is preloaded into every process of a test. When a process of a rank ends, it appends what the process
 * can see of itself to the file WITNESS_FILE: signals, limits, environment, descriptors, names of mapped files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;
static char path[512], text[1 << 20];
static size_t used;
static int is_rank;

static void add(const char *format, ...) {
  va_list values;
  va_start(values, format);
  if (used < sizeof text - 1) used += (size_t)vsnprintf(text + used, sizeof text - used, format, values);
  va_end(values);
  if (used > sizeof text - 1) used = sizeof text - 1;
}

static void add_signals(void) {
  for (int number = 1; number < 65; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action)) continue;
    if (action.sa_handler != SIG_DFL) add("signal %d %s\n", number, action.sa_handler == SIG_IGN ? "ignored" : "caught");
  }
  sigset_t mask, pending;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  sigpending(&pending);
  for (int number = 1; number < 65; number++) {
    if (sigismember(&mask, number) == 1) add("signal %d blocked\n", number);
    if (sigismember(&pending, number) == 1) add("signal %d pending\n", number);
  }
  stack_t stack;
  if (!sigaltstack(NULL, &stack)) add("signal stack %s\n", stack.ss_flags & SS_DISABLE ? "none" : "set");
}

static void add_limits(void) {
  for (int what = 0; what < RLIM_NLIMITS; what++) {
    struct rlimit limit;
    if (!getrlimit(what, &limit)) add("limit %d %lld %lld\n", what, (long long)limit.rlim_cur, (long long)limit.rlim_max);
  }
  cpu_set_t cores;
  if (!sched_getaffinity(0, sizeof cores, &cores)) add("cores %d\n", CPU_COUNT(&cores));
  mode_t mode = umask(0);
  umask(mode);
  add("nice %d scheduler %d umask %o personality %x\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0),
      (unsigned)mode, personality(0xffffffff));
  add("dumpable %d keep %d subreaper-free\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS));
}

static void add_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  struct dirent *entry;
  while (folder && (entry = readdir(folder))) {
    char name[300], target[512];
    snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
    ssize_t length = readlink(name, target, sizeof target - 1);
    if (length < 0 || atoi(entry->d_name) == dirfd(folder)) continue;
    target[length] = 0;
    int flags = fcntl(atoi(entry->d_name), F_GETFD);
    add("file %s %s%s\n", entry->d_name, target, flags & FD_CLOEXEC ? " cloexec" : "");
  }
  if (folder) closedir(folder);
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd)) add("cwd %s\n", cwd);
}

/* `python -m insitu.run` starts the program, and has the variables of a program without launcher. */
static int is_insitu(void) {
  char words[4096] = "";
  int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, words, sizeof words - 1);
  if (file >= 0) close(file);
  return length > 0 && memmem(words, (size_t)length, "insitu.run", 10);
}

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("WITNESS_FILE");
  is_rank = getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK") || (getenv("WITNESS_SINGLE") && !is_insitu());
  if (file) snprintf(path, sizeof path, "%s", file);
}

__attribute__((destructor)) static void end(void) {
  char *word = NULL;
  if (!is_rank || !*path) return;
  used = 0;
  add("== %s\n", program_invocation_short_name);
  add_signals();
  add_limits();
  add_files();
  for (char **entry = environ; entry && *entry; entry++) add("variable %s\n", *entry);
  add("==\n");
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0 && write(file, text, used) < 0) word = text;
  (void)word;
  if (file >= 0) close(file);
}
