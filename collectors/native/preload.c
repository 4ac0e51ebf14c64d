/* Measure a compiled MPI program that was started with this library in LD_PRELOAD.
 *
 * Before main, a helper process runs collectors/attach.py, which tells where the table belongs and starts the agent of
 * the node. So that logic exists once, in Python, and this file only decides whether the process is a rank. The program
 * itself is executed once: constructors of other libraries may have run, printed or initialised MPI. */
#define _GNU_SOURCE
#include "preload.h"
#include "annotations.h"
#include "budget.h"
#include "counters.h"
#include "cuda.h"
#include "endings.h"
#include "files.h"
#include "gomp.h"
#include "heap.h"
#include "image.h"
#include "loop.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "ompt.h"
#include "python_abi.h"
#include "sample.h"
#include "table.h"
#include "traps.h"
#include "unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTACH \
  "import sys; sys.path.insert(0, sys.argv[1]); from insitu.collectors.attach import main; main(sys.argv[2:])"

static int is_mpi_library(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  const char *name = strrchr(object->dlpi_name, '/');
  return strncmp(name ? name + 1 : object->dlpi_name, "libmpi", 6) == 0;
}

static int visit_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *is_caller) {
  static const char *const names[] = {"MPI_Init",  "MPI_Init_thread", "PMPI_Init",       "PMPI_Init_thread",
                                      "mpi_init_", "mpi_init_f08_",   "mpi_init_thread_"};
  (void)image, (void)slot;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(symbol, names[i])) return *(int *)is_caller = 1;
  return 0;
}

/* Whether an object besides the MPI library and its bindings may initialise MPI. */
static int initialises_mpi(struct dl_phdr_info *object, size_t bytes, void *unused) {
  struct insitu_image image;
  int is_caller = 0;
  if (!is_mpi_library(object, bytes, unused) && insitu_image_read(object, &image))
    insitu_image_slots(&image, visit_slot, &is_caller);
  return is_caller;
}

/* Write the path of the program, "" if it is unknown. */
static void read_program_path(char itself[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", itself, PATH_MAX - 1);
  itself[length > 0 ? length : 0] = 0;
}

/* Whether this is a Python interpreter. A program that embeds Python, such as LAMMPS, is not. */
static int is_python(void) {
  char itself[PATH_MAX];
  read_program_path(itself);
  const char *name = strrchr(itself, '/');
  return PyModule_Create2 && name && (!strncmp(name, "/python", 7) || !strncmp(name, "/pypy", 5));
}

/* Whether an option of Python makes it ignore PYTHONPATH, or import no sitecustomize. `*has_value` says whether the
 * next word belongs to it. */
static int isolates(const char *option, int *has_value) {
  *has_value = !strcmp(option, "--check-hash-based-pycs");
  if (option[1] == '-') return 0;
  for (const char *letter = option + 1; *letter; letter++) {
    if (strchr("IES", *letter)) return 1;
    if (strchr("cmWX", *letter)) {
      *has_value = !letter[1];
      return 0;
    }
  }
  return 0;
}

/* Whether this Python cannot measure itself because of its options. */
static int is_isolated_python(void) {
  char words[4096]; /* options come first; a script behind them may have any number of words */
  size_t length = insitu_read_file("/proc/self/cmdline", words, sizeof words);
  const char *end = words + length, *at = words + strlen(words) + 1;
  int has_value = 0;
  if (!length || !is_python()) return 0;
  for (; at < end && (has_value || (*at == '-' && at[1])); at += strlen(at) + 1) {
    int is_value = has_value;
    has_value = 0;
    if (is_value) continue;
    if (isolates(at, &has_value)) return 1;
    if (!strncmp(at, "-c", 2) || !strncmp(at, "-m", 2)) return 0;
  }
  return 0;
}

/* Whether MPI_Comm_spawn started this process, as in rank.py. */
static int is_spawned(void) {
  return getenv("PMI_SPAWNED") || getenv("OMPI_PARENT_PORT");
}

/* Whether a launcher started this process, or the process that started it. */
static int has_rank(void) {
  for (size_t i = 0; i < INSITU_RANK_VARIABLES; i++)
    if (getenv(insitu_rank_variables[i])) return 1;
  return 0;
}

/* Whether this is a rank that does not measure itself as Python does. Shells and launchers are not: they only pass the
 * environment on. */
static int is_compiled_rank(int is_isolated) {
  if (!secure_getenv("INSITU_RUN") || !getenv("INSITU_PYTHON") || !getenv("INSITU_HOME")) return 0;
  if (is_spawned()) return 0;
  if (!is_isolated && (is_python() || !dl_iterate_phdr(is_mpi_library, NULL))) return 0;
  if (has_rank()) return 1;
  /* Without a launcher: a program that only has the library, such as ompi_info, is no rank. */
  return getenv("INSITU_SINGLE") && (is_isolated || dl_iterate_phdr(initialises_mpi, NULL));
}

/* ---- the environment ------------------------------------------------------------------------------------------ */

/* Give a variable the value that the user set, which `insitu run` stored in `stored`. */
static void restore_variable(const char *name, const char *stored) {
  const char *original = getenv(stored);
  if (original) setenv(name, original, 1);
  else unsetenv(name);
}

/* Remove a word from a list; an empty list is removed as a whole. The variable may have changed since `insitu run`
 * added the word. An empty last word is kept: in PYTHONPATH it is the current folder. */
static void remove_word(const char *name, const char *word, const char *separators) {
  const char *list = getenv(name);
  if (!list || !word || !*word) return;
  size_t bytes = strlen(word), used = 0;
  char *rest = malloc(strlen(list) + 1);
  if (!rest) return;
  for (const char *at = list, *next; at; at = next) {
    size_t length = strcspn(at, separators);
    next = at[length] ? at + length + 1 : NULL;
    if (length != bytes || memcmp(at, word, bytes)) {
      memcpy(rest + used, at, length + 1); /* with the separator */
      used += length + 1;
    }
  }
  rest[used ? used - 1 : 0] = 0; /* the last separator */
  if (used) setenv(name, rest, 1);
  else unsetenv(name);
  free(rest);
}

/* Leave the environment as the user set it: the program and its children see nothing of the measurement. */
static void restore_environment(void) {
  remove_word("PYTHONPATH", getenv("INSITU_SITE"), ":");
  remove_word("LD_PRELOAD", getenv("INSITU_LIBRARY"), ": ");
  remove_word("ASAN_OPTIONS", INSITU_ASAN_OPTION, ": ");
  /* Other variables that begin with INSITU_ are the user's. */
  char names[1024], *rest = NULL;
  const char *list = getenv("INSITU_VARIABLES");
  snprintf(names, sizeof names, "%s", list ? list : "");
  for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    char stored[96];
    snprintf(stored, sizeof stored, "INSITU_USER_%s", name);
    restore_variable(name, stored);
    unsetenv(stored);
  }
}

/* Whether a variable is for the program only: the libraries and modules that it brings, and what the dynamic linker and
 * the C library are to print, or to write into files. */
static int is_for_program(const char *entry) {
  if (!strncmp(entry, "LD_LIBRARY_PATH=", 16)) return 0; /* the helper's Python may be found there only */
  return !strncmp(entry, "LD_", 3) || !strncmp(entry, "MALLOC_", 7) || !strncmp(entry, "PYTHONPATH=", 11);
}

/* The environment of the helper, which is not measured itself. Returns NULL if there is no memory. */
static char **helper_environment(void) {
  size_t count = 0, used = 0;
  while (environ[count]) count++;
  char **copy = malloc((count + 1) * sizeof *copy);
  for (char **entry = environ; copy && *entry; entry++)
    if (!is_for_program(*entry)) copy[used++] = *entry;
  if (copy) copy[used] = NULL;
  return copy;
}

/* ---- the helper ----------------------------------------------------------------------------------------------- */

struct helper {
  char **words, **environment;
  int channel; /* its end of a pair of sockets, closed by exec in every other process */
  sigset_t mask;
};

/* Runs in the memory of the program, which waits: only system calls. */
static int become_helper(void *argument) {
  const struct helper *helper = argument;
  fcntl(helper->channel, F_SETFD, 0);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* where a Python that does not start explains itself */
  if (null >= 0) dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &helper->mask, NULL);
  /* Not through endings.c, which would put the library back into LD_PRELOAD. */
  syscall(SYS_execve, helper->words[0], helper->words, helper->environment);
  _exit(127);
}

/* Start the helper. It sends no SIGCHLD at its end, and is no child that the program could wait for by accident. */
static pid_t start_helper(struct helper *helper) {
  static _Alignas(16) char stack[32768];
  sigset_t all;
  sigfillset(&all); /* handlers of the program must not run in the child */
  sigprocmask(SIG_BLOCK, &all, &helper->mask);
  pid_t child = clone(become_helper, stack + sizeof stack, CLONE_VM | CLONE_VFORK, helper);
  /* qemu-user runs no child without a signal at its end. */
  if (child < 0 && errno == EINVAL) child = clone(become_helper, stack + sizeof stack, CLONE_VFORK | SIGCHLD, helper);
  sigprocmask(SIG_SETMASK, &helper->mask, NULL);
  return child;
}

/* Read until `last` or the end. Returns the number of bytes, without `last`. */
static size_t read_until(int channel, char last, char *text, size_t capacity) {
  size_t used = 0;
  while (used + 1 < capacity) {
    ssize_t got = read(channel, text + used, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text[used] == last) break;
    used++;
  }
  text[used] = 0;
  return used;
}

/* Create the table where the helper says, which is a line of numbers and a path. Returns 0 or an errno. */
static int create_table(int channel, const char *program) {
  char numbers[128], path[PATH_MAX];
  int rank, size;
  unsigned long long root_pid, root_started;
  double budget;
  const char *meta = getenv("INSITU_META"), *name = strrchr(program, '/');
  if (!read_until(channel, '\n', numbers, sizeof numbers) || !read_until(channel, 0, path, sizeof path)) return ENOENT;
  if (sscanf(numbers, "%d %d %lf %llu %llu", &rank, &size, &budget, &root_pid, &root_started) != 5) return EINVAL;
  int failed =
      insitu_table_create(path, rank, size, name ? name + 1 : program, meta ? meta : "", meta ? strlen(meta) : 0);
  if (failed) return failed;
  insitu_table->header->budget = budget;
  insitu_table->header->root_pid = root_pid;
  insitu_table->header->root_started = root_started;
  const char *iterations = getenv("INSITU_ITERATIONS");
  if (iterations) insitu_loop_limit(strtoull(iterations, NULL, 10));
  return 0;
}

/* Tell the launcher why this rank is not measured, in a file: the streams belong to the program. */
static void report_unmeasured(const char *reason, const char *detail) {
  const char *path = getenv("INSITU_TROUBLE");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  if (file < 0) return;
  dprintf(file, "%s: %s\n", reason, detail);
  close(file);
}

/* The process, if it is one that only passes the environment on, as a shell does: it is not linked with MPI. It is a
 * rank all the same if it loads MPI later, as R does. */
static _Atomic pid_t passed_on_by;
static unsigned samples_per_second;

/* Such a program is measured from the end of the dlopen that loaded MPI, unless loader.c only passed that call on. */
__attribute__((destructor)) static void after_main(void) {
  if (passed_on_by != getpid() || !dl_iterate_phdr(is_mpi_library, NULL)) return;
  char itself[PATH_MAX];
  int saved = errno;
  read_program_path(itself);
  report_unmeasured("it loads MPI with dlopen, unseen by insitu", itself);
  errno = saved;
}

/* Create the table of this process with the help of attach.py. Returns 0 or an errno. */
static int measure_this_process(void) {
  char itself[PATH_MAX], number[16];
  int ends[2], status = 0;
  read_program_path(itself);
  if (!*itself) {
    report_unmeasured("/proc/self/exe", strerror(errno));
    return ENOENT;
  }
  struct helper helper = {.environment = helper_environment()};
  if (!helper.environment) return ENOMEM;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
    free(helper.environment);
    return errno;
  }

  helper.channel = ends[1];
  snprintf(number, sizeof number, "%d", ends[1]);
  /* -S: without site-packages, which take a third of the start-up time. */
  char *words[] = {getenv("INSITU_PYTHON"), "-I", "-S", "-c", ATTACH, getenv("INSITU_HOME"), number, NULL};
  helper.words = words;
  pid_t child = start_helper(&helper);
  close(ends[1]);
  int failed = child < 0 ? errno : create_table(ends[0], itself);
  /* The helper starts the agent, or reports why there is no table. MSG_NOSIGNAL: it may have failed itself. */
  if (child >= 0) (void)!send(ends[0], &failed, sizeof failed, MSG_NOSIGNAL);
  close(ends[0]);
  while (child > 0 && waitpid(child, &status, __WALL) < 0 && errno == EINTR) continue;
  /* A helper that started reports itself. */
  if (child < 0) report_unmeasured("no process for the start of the measurement", strerror(failed));
  else if (failed && status) report_unmeasured("the Python of insitu did not start", words[0]);
  free(helper.environment);
  return failed;
}

/* Measure this process from now on; `hook` is how. The functions of an interpreter say nothing of the program. */
static void begin(const char *hook) {
  int saved = errno, is_program = strcmp(hook, "isolated") != 0;
  uint64_t traps = insitu_block_traps(); /* the budget is read as a number with a fraction */
  int failed = measure_this_process();
  insitu_restore_traps(traps);
  if (!failed) insitu_endings_start();
  restore_environment();
  errno = saved;
  if (failed) return;
  strcpy(insitu_table->header->hook, hook);
  insitu_counters_start();
  insitu_is_unwinding = is_program;
  insitu_is_on = 1;
  insitu_mpi_start();
  if (is_program) insitu_sample_start(samples_per_second);
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
  insitu_cuda_patch();
}

int insitu_may_load_mpi(void) {
  return passed_on_by && passed_on_by == getpid() && !dl_iterate_phdr(is_mpi_library, NULL);
}

void insitu_loaded(void) {
  pid_t self = getpid();
  if (dl_iterate_phdr(is_mpi_library, NULL) && atomic_compare_exchange_strong(&passed_on_by, &self, 0))
    begin("preload");
}

/* In a pilot run each rank of a program with counters of gcov writes into a folder of its own; gcov adds what
 * processes write into the same one. It reads the variable at the end. */
static void separate_counts(void) {
  const char *counts = secure_getenv("INSITU_COUNTS");
  char folder[PATH_MAX];
  if (counts && snprintf(folder, sizeof folder, "%s/%d", counts, getpid()) < (int)sizeof folder)
    setenv("GCOV_PREFIX", folder, 1);
}

__attribute__((constructor)) static void before_main(void) {
  /* secure_getenv: a program that runs with the rights of another user (setuid) is not measured. */
  const char *heap = secure_getenv("INSITU_HEAP");
  if (heap && strcmp(heap, "off") == 0) insitu_heap_stop();
  if (heap && strcmp(heap, "mmap") == 0) insitu_maps_start();
  const char *gpu = secure_getenv("INSITU_GPU");
  if (gpu && strcmp(gpu, "off") == 0) insitu_cuda_disable();
  const char *sample = secure_getenv("INSITU_SAMPLE");
  samples_per_second = sample ? (unsigned)atoi(sample) : 0; /* read here: the variable is removed later */
  const char *in_python = secure_getenv("INSITU_SAMPLE_PYTHON");
  if (in_python) insitu_sample_rate_in_python = (unsigned)atoi(in_python);
  const char *files = secure_getenv("INSITU_FILES");
  if (files && strcmp(files, "off") == 0) insitu_files_stop();
  if (is_spawned() && secure_getenv("INSITU_RUN")) {
    restore_environment(); /* it is not measured, and neither are its children */
    return;
  }
  separate_counts();
  int is_isolated = is_isolated_python();
  if (is_compiled_rank(is_isolated)) begin(is_isolated ? "isolated" : "preload");
  else if (secure_getenv("INSITU_RUN") && (has_rank() || getenv("INSITU_SINGLE")) && !is_python())
    passed_on_by = getpid();
}
