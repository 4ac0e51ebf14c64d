/* The ends of a process that run no exit handlers: _exit and quick_exit, whose status is recorded, and exec.
 *
 * A program that replaces itself by another one, such as set-up code that restarts its interpreter, gets the variables
 * of the measurement again, so that the new program is measured in place of the old one. A child never does: the
 * process id is that of the table only in the process that created it, also after vfork. The functions are exported, so
 * they replace those of the C library where this library is preloaded. They may run in signal handlers: no locks, no
 * malloc.
 */
#define _GNU_SOURCE
#include "endings.h"

#include "exec.h"
#include "finish.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_STORED 32 /* variables of insitu */

const char *const insitu_rank_variables[INSITU_RANK_VARIABLES] = {
    "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_STEP_ID"};

static char *stored[MAX_STORED + 1]; /* entries of the environment, from insitu_endings_start on */
static const char *site, *library;   /* our word of PYTHONPATH; that of LD_PRELOAD, NULL if it has none */

static void (*next_exit)(int), (*next_quick_exit)(int);
static int (*next_execve)(const char *, char *const[], char *const[]);
static int (*next_execvpe)(const char *, char *const[], char *const[]);
static int (*next_fexecve)(int, char *const[], char *const[]);
static int (*next_execveat)(int, const char *, char *const[], char *const[], int);

__attribute__((constructor)) static void find_next(void) {
  next_exit = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
  next_quick_exit = (void (*)(int))dlsym(RTLD_NEXT, "quick_exit");
  next_execve = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
  next_execvpe = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execvpe");
  next_fexecve = (int (*)(int, char *const[], char *const[]))dlsym(RTLD_NEXT, "fexecve");
  next_execveat = (int (*)(int, const char *, char *const[], char *const[], int))dlsym(RTLD_NEXT, "execveat");
}

/* ---- the end of the table ------------------------------------------------------------------------------------- */

static int is_measured(void) {
  return !insitu_is_stopped() && insitu_is_owner() && insitu_table->header->state == INSITU_RUNNING;
}

/* Set the state that readers wait for. Calls that are open now are open until the latest tick. */
static void set_state(enum insitu_state state, int status) {
  struct insitu_header *header = insitu_table->header;
  int saved = errno;
  insitu_pair_clocks();
  header->exit_status = status;
  header->ended_ns = insitu_wall_ns();
  /* Release: a reader that sees the state sees the totals. */
  atomic_thread_fence(memory_order_release);
  header->state = (uint32_t)state;
  errno = saved;
}

static void at_exit(int status, void *unused) {
  (void)unused;
  insitu_finish(INSITU_ENDED, status);
}

EXPORT __attribute__((noreturn)) void _exit(int status) {
  if (is_measured()) set_state(INSITU_ENDED, status & 0xFF);
  if (next_exit) next_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

EXPORT __attribute__((noreturn)) void _Exit(int status) {
  _exit(status);
}

EXPORT __attribute__((noreturn)) void quick_exit(int status) {
  if (next_quick_exit) {
    if (is_measured()) set_state(INSITU_ENDED, status & 0xFF);
    next_quick_exit(status);
  }
  _exit(status);
}

/* ---- the environment of a program that replaces this one -------------------------------------------------------- */

static int has_name(const char *entry, const char *name) {
  size_t bytes = strlen(name);
  return !strncmp(entry, name, bytes) && entry[bytes] == '=';
}

static const char *find_variable(char *const *entries, const char *name) {
  for (; *entries; entries++)
    if (has_name(*entries, name)) return *entries + strlen(name) + 1;
  return NULL;
}

/* Whether `insitu run` set an entry: its name is in the list, or it stores what the user set under such a name. */
static int is_of_insitu(const char *entry, const char *names) {
  if (strncmp(entry, "INSITU_", 7) || !names) return 0;
  if (!strncmp(entry, "INSITU_USER_", 12)) return 1;
  size_t bytes = strcspn(entry, "=");
  for (const char *at = names; *at;) {
    size_t length = strcspn(at, " ");
    if (length == bytes && !memcmp(at, entry, bytes)) return 1;
    at += length + (at[length] != 0);
  }
  return 0;
}

void insitu_endings_start(void) {
  size_t used = 0;
  const char *folder = getenv("INSITU_SITE"), *preloads = getenv("LD_PRELOAD"), *own = getenv("INSITU_LIBRARY");
  const char *names = getenv("INSITU_VARIABLES");
  for (char **entry = environ; *entry && used < MAX_STORED; entry++)
    if (is_of_insitu(*entry, names) && !has_name(*entry, "INSITU_PYTHONPATH")) {
      stored[used] = strdup(*entry);
      used += stored[used] != NULL;
    }
  if (folder) site = strdup(folder);
  if (preloads && own && *own && strstr(preloads, own)) library = strdup(own);
  on_exit(at_exit, NULL);
}

/* Write NAME=FIRST[:REST] at `text` and return its end, with the terminating zero. */
static char *join(char *text, const char *name, const char *first, const char *rest) {
  text = stpcpy(stpcpy(stpcpy(text, name), "="), first);
  if (rest && *rest) text = stpcpy(stpcpy(text, ":"), rest);
  return text + 1;
}

static int is_launched(char *const *entries) {
  if (getenv("INSITU_SINGLE") || find_variable(stored, "INSITU_SINGLE")) return 1;
  for (size_t i = 0; i < INSITU_RANK_VARIABLES; i++)
    if (find_variable(entries, insitu_rank_variables[i])) return 1;
  return 0;
}

/* Return the environment with the variables of the measurement, NULL if there is no memory for it or the new program
 * would not know its rank. `bytes` is the length of the mapping that holds it. */
static char **add_measurement(char *const *entries, size_t *bytes) {
  size_t count = MAX_STORED + 8, text_bytes = 256;
  const char *path = find_variable(entries, "PYTHONPATH"), *preloads = find_variable(entries, "LD_PRELOAD");
  const char *options = find_variable(entries, "ASAN_OPTIONS"), *names = find_variable(stored, "INSITU_VARIABLES");
  const char *values[] = {path, path, preloads, options, site, library};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) text_bytes += values[i] ? strlen(values[i]) : 0;
  for (char *const *entry = entries; *entry; entry++) count++;
  *bytes = count * sizeof(char *) + text_bytes;
  if (!*stored || !site || !is_launched(entries)) return NULL;
  char **all = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;

  size_t used = 0;
  for (char *const *entry = entries; *entry; entry++) {
    int is_replaced = has_name(*entry, "PYTHONPATH") || is_of_insitu(*entry, names) ||
                      (library && (has_name(*entry, "LD_PRELOAD") || has_name(*entry, "ASAN_OPTIONS")));
    if (!is_replaced) all[used++] = *entry;
  }
  for (char **entry = stored; *entry; entry++) all[used++] = *entry;

  char *text = (char *)(all + count);
  all[used++] = text;
  text = join(text, "PYTHONPATH", site, path);
  if (path && *path) {
    all[used++] = text;
    text = join(text, "INSITU_PYTHONPATH", path, NULL);
  }
  if (library) {
    all[used++] = text;
    text = join(text, "LD_PRELOAD", library, preloads);
    all[used++] = text;
    join(text, "ASAN_OPTIONS", options && *options ? options : INSITU_ASAN_OPTION, options ? INSITU_ASAN_OPTION : NULL);
  }
  all[used] = NULL;
  return all;
}

/* ---- exec ----------------------------------------------------------------------------------------------------- */

/* How a program is named: by its path, by a word that is looked up in PATH, by a descriptor, or by a path below one. */
struct target {
  const char *path, *word, *below;
  int file, flags;
};

static int execute(const struct target *target, char *const *words, char *const *entries) {
  if (target->path && next_execve) return next_execve(target->path, words, entries);
  if (target->path) return (int)syscall(SYS_execve, target->path, words, entries);
  if (target->word && next_execvpe) return next_execvpe(target->word, words, entries);
  if (target->below && next_execveat) return next_execveat(target->file, target->below, words, entries, target->flags);
  if (!target->word && !target->below && next_fexecve) return next_fexecve(target->file, words, entries);
  errno = ENOSYS;
  return -1;
}

static int replace(const struct target *target, char *const *words, char *const *entries) {
  static char *const empty[] = {NULL};
  size_t bytes = 0;
  if (!entries) entries = empty; /* as the kernel does it */
  if (insitu_is_stopped()) return execute(target, words, entries);
  /* Programs try one folder after the other: where there is no such file, nothing else happens. */
  int can_run = !target->path || !faccessat(AT_FDCWD, target->path, X_OK, AT_EACCESS);
  if (!can_run) return execute(target, words, entries);
  if (!is_measured()) {
    const char *program = target->path ? target->path : target->word;
    return execute(target, words, INSITU_EXEC_ENVIRONMENT(program, entries));
  }

  char **measured = add_measurement(entries, &bytes);
  set_state(INSITU_REPLACED, 0);
  int failed = execute(target, words, measured ? measured : entries);
  /* The variables may exceed the limits of the kernel. */
  if (measured && errno == E2BIG) failed = execute(target, words, entries);
  int saved = errno;
  insitu_table->header->state = INSITU_RUNNING;
  if (measured) munmap(measured, bytes);
  errno = saved;
  return failed;
}

EXPORT int execve(const char *path, char *const words[], char *const entries[]) {
  return replace(&(struct target){.path = path}, words, entries);
}

EXPORT int execv(const char *path, char *const words[]) {
  return replace(&(struct target){.path = path}, words, environ);
}

EXPORT int execvpe(const char *word, char *const words[], char *const entries[]) {
  return replace(&(struct target){.word = word}, words, entries);
}

EXPORT int execvp(const char *word, char *const words[]) {
  return replace(&(struct target){.word = word}, words, environ);
}

EXPORT int fexecve(int file, char *const words[], char *const entries[]) {
  return replace(&(struct target){.file = file}, words, entries);
}

EXPORT int execveat(int folder, const char *path, char *const words[], char *const entries[], int flags) {
  return replace(&(struct target){.below = path, .file = folder, .flags = flags}, words, entries);
}

/* Collect the words of execl, execlp or execle up to the terminating NULL, behind which execle has the environment. */
#define COLLECT(FIRST, WORDS, REST)              \
  va_list REST, count_of_them;                   \
  size_t count = 1;                              \
  va_start(REST, FIRST);                         \
  va_copy(count_of_them, REST);                  \
  while (va_arg(count_of_them, char *)) count++; \
  va_end(count_of_them);                         \
  char *WORDS[count + 1];                        \
  WORDS[0] = (char *)FIRST;                      \
  for (size_t i = 1; i <= count; i++) WORDS[i] = va_arg(REST, char *)

EXPORT int execl(const char *path, const char *first, ...) {
  COLLECT(first, words, rest);
  va_end(rest);
  return replace(&(struct target){.path = path}, words, environ);
}

EXPORT int execlp(const char *word, const char *first, ...) {
  COLLECT(first, words, rest);
  va_end(rest);
  return replace(&(struct target){.word = word}, words, environ);
}

EXPORT int execle(const char *path, const char *first, ...) {
  COLLECT(first, words, rest);
  char *const *entries = va_arg(rest, char *const *);
  va_end(rest);
  return replace(&(struct target){.path = path}, words, entries);
}
