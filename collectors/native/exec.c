/* Programs that a job script starts: they inherit the measurement even if the script sets LD_PRELOAD.
 *
 * Until a rank is measured, every process of the run has this library preloaded, also shells and launchers. When one of
 * them executes a program, the library is put back into LD_PRELOAD, in front of what the script wants there; a rank
 * removes it again (preload.c). In all other processes nothing changes. */
#define _GNU_SOURCE
#include "exec.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_VARIABLES 20000u   /* larger environments are passed on unchanged: they are copied on the stack */
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

size_t insitu_exec_bytes(char *const *environment) {
  const char *library = value_of(environment, "INSITU_LIBRARY");
  const char *list = value_of(environment, "LD_PRELOAD");
  size_t count = 0;
  if (!library || !*library || !value_of(environment, "INSITU_RUN")) return 0;
  if (list && (contains_word(list, library) || strlen(list) > MAX_LIST_BYTES)) return 0;
  while (environment[count]) count++;
  if (count > MAX_VARIABLES) return 0;
  return (count + 2) * sizeof *environment + sizeof "LD_PRELOAD=:" + strlen(library) + (list ? strlen(list) : 0);
}

char **insitu_exec_copy(char *const *environment, char **copy) {
  const char *library = value_of(environment, "INSITU_LIBRARY");
  const char *list = value_of(environment, "LD_PRELOAD");
  size_t count = 0, used = 0;
  while (environment[count]) count++;
  char *text = (char *)(copy + count + 2);
  copy[used++] = text;
  text = stpcpy(stpcpy(text, "LD_PRELOAD="), library);
  if (list && *list) stpcpy(stpcpy(text, ":"), list);
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
  return next_spawn ? next_spawn(child, path, actions, attributes, words, INSITU_WITH_LIBRARY(entries)) : ENOSYS;
}

EXPORT int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[], char *const entries[]) {
  if (!next_spawnp) find_next();
  return next_spawnp ? next_spawnp(child, file, actions, attributes, words, INSITU_WITH_LIBRARY(entries)) : ENOSYS;
}
