/* Programs that a job script starts: they inherit the measurement even if the script sets LD_PRELOAD or PYTHONPATH.
 *
 * Until a rank is measured, every process of the run has this library preloaded, also shells and launchers. When one of
 * them executes a program, the library is put back into LD_PRELOAD, and our folder into PYTHONPATH, in front of what
 * the script wants there; a rank removes them again (preload.c, start_in_rank.py). A program that could not load the
 * library gets none. In all other processes nothing changes. */
#define _GNU_SOURCE
#include "exec.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_VARIABLES 20000u   /* larger environments are passed on unchanged: they are copied on the stack */
#define MAX_HEADER_BYTES 4096  /* of a program: its ELF header and the program headers, which follow it */
#define MAX_LIST_BYTES 100000u /* the same for each list; the kernel's limit for a variable is 128 KiB */

/* Return the value of a variable, NULL if it is not set. */
static const char *value_of(char *const *environment, const char *name) {
  size_t bytes = strlen(name);
  for (; environment && *environment; environment++)
    if (!strncmp(*environment, name, bytes) && (*environment)[bytes] == '=') return *environment + bytes + 1;
  return NULL;
}

static int contains_word(const char *list, const char *word, const char *separators) {
  size_t bytes = strlen(word);
  for (const char *at = list; *at; at += *at != 0) {
    size_t length = strcspn(at, separators);
    if (length == bytes && !memcmp(at, word, bytes)) return 1;
    at += length;
  }
  return 0;
}

/* Copy a list without a word. */
static void copy_without(const char *list, const char *word, char *copy) {
  size_t bytes = strlen(word), used = 0;
  for (const char *at = list; *at; at += *at != 0) {
    size_t length = strcspn(at, ": ");
    if (length && (length != bytes || memcmp(at, word, bytes))) {
      if (used) copy[used++] = ':';
      memcpy(copy + used, at, length);
      used += length;
    }
    at += length;
  }
  copy[used] = 0;
}

/* ---- programs that cannot load the library ---------------------------------------------------------------------- */

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"))); /* of this library; from the linker */

/* Whether this file is a program for another machine, or for musl, whose dynamic linker ends it because the library
 * needs glibc. Only system calls: open() would be a cancellation point, which exec is not. */
static int is_foreign_file(const char *path) {
  union {
    ElfW(Ehdr) elf;
    char bytes[MAX_HEADER_BYTES];
  } head;
  char linker[64] = "";
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return 0;
  long bytes = syscall(SYS_pread64, file, head.bytes, sizeof head.bytes, 0L);
  int is_elf = bytes >= (long)sizeof head.elf && !memcmp(head.elf.e_ident, ELFMAG, SELFMAG);
  int is_ours = is_elf && head.elf.e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
                head.elf.e_machine == __ehdr_start.e_machine;
  for (unsigned i = 0; is_ours && i < head.elf.e_phnum; i++) {
    const ElfW(Phdr) *entry = (const ElfW(Phdr) *)(head.bytes + head.elf.e_phoff) + i;
    if (head.elf.e_phoff > sizeof head.bytes || (const char *)(entry + 1) > head.bytes + bytes) break;
    if (entry->p_type == PT_INTERP) syscall(SYS_pread64, file, linker, sizeof linker - 1, (long)entry->p_offset);
  }
  syscall(SYS_close, file);
  return is_elf && (!is_ours || strstr(linker, "/ld-musl-"));
}

static int is_foreign(const char *program) {
  char path[PATH_MAX];
  if (!program || strchr(program, '/')) return program && is_foreign_file(program);
  for (const char *at = getenv("PATH"); at && *at; at += *at == ':') {
    size_t length = strcspn(at, ":");
    if (length + strlen(program) + 2 <= sizeof path) {
      memcpy(path, at, length);
      stpcpy(stpcpy(path + length, "/"), program);
      if (!syscall(SYS_faccessat, AT_FDCWD, path, X_OK)) return is_foreign_file(path);
    }
    at += length;
  }
  return 0;
}

/* Whether the program can open the library: a sandbox or a new root may hide it, and the dynamic linker would print an
 * error into the output of the program. */
static int is_visible(const char *library) {
  int file = (int)syscall(SYS_openat, AT_FDCWD, library, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == EMFILE || errno == ENFILE; /* the program has its descriptors again */
  syscall(SYS_close, file);
  return 1;
}

/* ---- the environment -------------------------------------------------------------------------------------------- */

/* A list of the environment, and our word in it. */
struct list {
  const char *name, *word, *value; /* NULL if it is not set */
  int has_word;
};

static struct list find_list(char *const *environment, const char *name, const char *variable, const char *separators) {
  struct list list = {.name = name, .word = value_of(environment, variable), .value = value_of(environment, name)};
  list.has_word = list.word && list.value && contains_word(list.value, list.word, separators);
  return list;
}

static int can_change(const struct list *list) {
  return list->word && *list->word && (!list->value || strlen(list->value) <= MAX_LIST_BYTES);
}

/* What an environment has to be changed in. */
struct change {
  struct list libraries, folders;
  int adds_library, removes_library, adds_folder;
};

static struct change find_change(const char *program, char *const *environment) {
  struct change change = {.libraries = find_list(environment, "LD_PRELOAD", "INSITU_LIBRARY", ": "),
                          .folders = find_list(environment, "PYTHONPATH", "INSITU_SITE", ":")};
  if (!can_change(&change.libraries) || !value_of(environment, "INSITU_RUN")) return change;
  int saved = errno, is_wanted = !is_foreign(program) && is_visible(change.libraries.word);
  errno = saved;
  change.adds_library = is_wanted && !change.libraries.has_word;
  change.removes_library = !is_wanted && change.libraries.has_word;
  change.adds_folder = !change.folders.has_word && can_change(&change.folders);
  return change;
}

static size_t bytes_of(const struct list *list) {
  return strlen(list->name) + strlen(list->word) + (list->value ? strlen(list->value) : 0) + sizeof "=:";
}

size_t insitu_exec_bytes(const char *program, char *const *environment) {
  struct change change = find_change(program, environment);
  size_t count = 0;
  if (!change.adds_library && !change.removes_library && !change.adds_folder) return 0;
  while (environment[count]) count++;
  if (count > MAX_VARIABLES) return 0;
  return (count + 3) * sizeof *environment + bytes_of(&change.libraries) +
         (change.adds_folder ? bytes_of(&change.folders) : 0);
}

/* Write NAME=WORD[:VALUE] at `text` and return its end, with the terminating zero. */
static char *add_word(const struct list *list, char *text) {
  text = stpcpy(stpcpy(stpcpy(text, list->name), "="), list->word);
  if (list->value && *list->value) text = stpcpy(stpcpy(text, ":"), list->value);
  return text + 1;
}

char **insitu_exec_copy(const char *program, char *const *environment, char **copy) {
  struct change change = find_change(program, environment);
  size_t count = 0, used = 0;
  while (environment[count]) count++;
  char *text = (char *)(copy + count + 3), *list = text;
  if (change.adds_folder) {
    copy[used++] = text;
    text = list = add_word(&change.folders, text);
  }
  if (change.adds_library) add_word(&change.libraries, text);
  if (change.removes_library) {
    text = stpcpy(text, "LD_PRELOAD=");
    copy_without(change.libraries.value, change.libraries.word, text);
  }
  if (change.adds_library || (change.removes_library && *text)) copy[used++] = list;

  for (size_t i = 0; i < count; i++) {
    int is_replaced = (change.adds_folder && !strncmp(environment[i], "PYTHONPATH=", 11)) ||
                      ((change.adds_library || change.removes_library) && !strncmp(environment[i], "LD_PRELOAD=", 11));
    if (!is_replaced) copy[used++] = environment[i];
  }
  copy[used] = NULL;
  return copy;
}

typedef int (*Spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const[], char *const[]);
static Spawn next_spawn, next_spawnp;

__attribute__((constructor)) static void find_next(void) {
  next_spawn = (Spawn)dlsym(RTLD_NEXT, "posix_spawn");
  next_spawnp = (Spawn)dlsym(RTLD_NEXT, "posix_spawnp");
}

EXPORT int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const words[], char *const entries[]) {
  if (!next_spawn) find_next(); /* called by the constructor of another library */
  return next_spawn ? next_spawn(child, path, actions, attributes, words, INSITU_EXEC_ENVIRONMENT(path, entries))
                    : ENOSYS;
}

EXPORT int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[], char *const entries[]) {
  if (!next_spawnp) find_next();
  return next_spawnp ? next_spawnp(child, file, actions, attributes, words, INSITU_EXEC_ENVIRONMENT(file, entries))
                     : ENOSYS;
}
