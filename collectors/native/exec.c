/* Programs that a job script starts: they inherit the measurement even if the script sets LD_PRELOAD.
 *
 * Until a rank is measured, every process of the run has this library preloaded, also shells and launchers. When one of
 * them executes a program, the library is put back into LD_PRELOAD, in front of what the script wants there; a rank
 * removes it again (preload.c). A program that could not load it gets none. In all other processes nothing changes. */
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
#define MAX_LIST_BYTES 100000u /* the same for LD_PRELOAD; the kernel's limit for a variable is 128 KiB */

/* Return the value of a variable, NULL if it is not set. */
static const char *value_of(char *const *environment, const char *name) {
  size_t bytes = strlen(name);
  for (; environment && *environment; environment++)
    if (!strncmp(*environment, name, bytes) && (*environment)[bytes] == '=') return *environment + bytes + 1;
  return NULL;
}

static int contains_word(const char *list, const char *word) {
  size_t bytes = strlen(word);
  for (const char *at = list; *at; at += *at != 0) {
    size_t length = strcspn(at, ": ");
    if (length == bytes && !memcmp(at, word, bytes)) return 1;
    at += length;
  }
  return 0;
}

/* Copy a list without a word, and return the end of the copy. */
static char *copy_without(const char *list, const char *word, char *copy) {
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
  return copy + used;
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

/* ---- the environment -------------------------------------------------------------------------------------------- */

size_t insitu_exec_bytes(const char *program, char *const *environment) {
  const char *library = value_of(environment, "INSITU_LIBRARY");
  const char *list = value_of(environment, "LD_PRELOAD");
  size_t count = 0;
  if (!library || !*library || !value_of(environment, "INSITU_RUN")) return 0;
  if (list && strlen(list) > MAX_LIST_BYTES) return 0;
  int saved = errno, is_there = list && contains_word(list, library), is_wanted = !is_foreign(program);
  errno = saved;
  if (is_there == is_wanted) return 0;
  while (environment[count]) count++;
  if (count > MAX_VARIABLES) return 0;
  return (count + 2) * sizeof *environment + sizeof "LD_PRELOAD=:" + strlen(library) + (list ? strlen(list) : 0);
}

char **insitu_exec_copy(char *const *environment, char **copy) {
  const char *library = value_of(environment, "INSITU_LIBRARY");
  const char *list = value_of(environment, "LD_PRELOAD");
  size_t count = 0, used = 0;
  while (environment[count]) count++;
  char *text = stpcpy((char *)(copy + count + 2), "LD_PRELOAD=");
  int is_there = list && contains_word(list, library);
  if (is_there) text = copy_without(list, library, text);
  else text = stpcpy(text, library);
  if (!is_there && list && *list) text = stpcpy(stpcpy(text, ":"), list);
  if (text[-1] != '=') copy[used++] = (char *)(copy + count + 2);
  for (size_t i = 0; i < count; i++)
    if (strncmp(environment[i], "LD_PRELOAD=", 11)) copy[used++] = environment[i];
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
