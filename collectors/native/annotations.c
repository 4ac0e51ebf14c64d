/* Regions that programs mark for other tools.
 *
 * NVTX, Kokkos and ITT are compiled into programs and libraries. They ask the environment for a library that a tool
 * has, load it and look for its functions, as does the driver of CUDA. This library has these functions (nvtx.c,
 * kokkos.c, itt.c, cuda.c), and the slots of getenv lead to a function that answers with its path. The environment
 * stays as it is, and nothing is loaded. Where the user has set such a variable, he gets his tool.
 *
 * PETSc has variables and functions for tools (petsc.c). */
#define _GNU_SOURCE
#include "annotations.h"

#include "cuda.h"
#include "image.h"
#include "table.h"
#include "wrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *(*real_getenv)(const char *) = getenv;
static char *(*real_secure_getenv)(const char *) = secure_getenv;

/* ---- who asks ------------------------------------------------------------------------------------------------- */

#define SEARCHED (32u << 20) /* bytes; reading more would take long and make the process larger */

struct search {
  const char *beside, *text;
  int is_found;
};

/* Look for the text among the constants of an object, if the other text is one of them. */
static int search_object(struct dl_phdr_info *object, size_t bytes, void *value) {
  (void)bytes;
  struct search *search = value;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || (uintptr_t)search->beside - from >= segment->p_filesz) continue;
    if (segment->p_flags & PF_W || !(segment->p_flags & PF_R)) return 1;
    search->is_found = segment->p_filesz > SEARCHED ||
                       memmem((const void *)from, segment->p_filesz, search->text, strlen(search->text)) != NULL;
    return 1;
  }
  return 0;
}

/* Whether the object that has the constant `beside` has this text, too. One that is too large is believed to. */
static int has_text(const char *beside, const char *text) {
  struct search search = {.beside = beside, .text = text};
  dl_iterate_phdr(search_object, &search);
  return search.is_found;
}

/* Whether a word of the command names a tool for Kokkos, which does not start if the environment names another one. */
static int names_kokkos_tool(void) {
  static const char option[] = "--kokkos-tools";
  char words[8192];
  size_t length = insitu_read_file("/proc/self/cmdline", words, sizeof words);
  for (const char *at = words; at < words + length; at += strlen(at) + 1)
    if (!strncmp(at, option, sizeof option - 1)) return 1;
  return 0;
}

struct callers {
  const char *kokkos; /* a constant of Kokkos */
  int pass_words, pass_settings;
};

static int visit_caller(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *value) {
  static const char settings[] = "_ZN6Kokkos10initializeENS_13InitArguments";
  struct callers *callers = value;
  (void)image, (void)slot;
  if (!strncmp(symbol, settings, sizeof settings - 1)) callers->pass_settings = 1;
  if (!strcmp(symbol, "_ZN6Kokkos10initializeERiPPc")) callers->pass_words = 1;
  return 0;
}

static int visit_object(struct dl_phdr_info *object, size_t bytes, void *value) {
  (void)bytes;
  const struct callers *callers = value;
  struct insitu_image image;
  if (!insitu_image_read(object, &image)) return 0;
  uintptr_t kokkos = (uintptr_t)callers->kokkos;
  if (kokkos < image.base || kokkos >= image.end) insitu_image_slots(&image, visit_caller, value);
  return 0;
}

/* Kokkos 3.4 to 3.6 does not start either if the code of the program names a tool, and the environment another one. So
 * the program must be known to pass words of its command line only, which it is where Kokkos is a shared library. */
static int may_set_kokkos_tool(const char *kokkos) {
  struct callers callers = {.kokkos = kokkos};
  if (!has_text(kokkos, "expecting a match between --kokkos-tools-library")) return 0;
  dl_iterate_phdr(visit_object, &callers);
  return callers.pass_settings || !callers.pass_words;
}

/* ---- the answers ---------------------------------------------------------------------------------------------- */

struct variable {
  const char *name;
  const char *other;  /* no answer if the user has set this one */
  const char *reader; /* part of the objects that are meant: a function that they look for in a tool */
  const char *newer;  /* not part of them; NULL for nothing */
  const char *value;  /* NULL for the path of this library */
};

static const struct variable variables[] = {
    {"NVTX_INJECTION64_PATH", "", "InitializeInjectionNvtx2", NULL, NULL},
    {"KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY", "kokkosp_", NULL, NULL},
    /* Before Kokkos 3.5. Later ones warn of it. */
    {"KOKKOS_PROFILE_LIBRARY", "KOKKOS_TOOLS_LIBS", "kokkosp_", "KOKKOS_TOOLS_LIBS", NULL},
    {"CUDA_INJECTION64_PATH", "", "InitializeInjection", NULL, NULL},
    {"INTEL_LIBITTNOTIFY64", "", "__itt_api_version", NULL, NULL},
    /* The group to which tasks belong. */
    {"INTEL_ITTNOTIFY_GROUPS", "INTEL_LIBITTNOTIFY64", "__itt_api_version", NULL, "structure"},
};

/* The path of this library, NULL if it is unknown. */
static const char *own_path(void) {
  Dl_info info;
  return dladdr((const void *)&real_getenv, &info) ? info.dli_fname : NULL;
}

/* Return what a variable has that the user has not set; NULL if it stays unset. */
static __attribute__((noinline)) const char *answer(const char *name) {
  const struct variable *variable = variables, *end = variables + sizeof variables / sizeof *variables;
  while (variable < end && strcmp(variable->name, name)) variable++;
  if (variable == end || real_getenv(variable->other)) return NULL;
  if (*name == 'C' && !insitu_cuda_is_wanted()) return NULL;

  int saved = errno;
  int is_reader = has_text(name, variable->reader) && !(variable->newer && has_text(name, variable->newer));
  if (*name == 'K' && is_reader) is_reader = !names_kokkos_tool() && !may_set_kokkos_tool(name);
  errno = saved;
  if (!is_reader) return NULL;
  return variable->value ? variable->value : own_path();
}

static inline __attribute__((always_inline)) char *look_up(char *(*real)(const char *), const char *name) {
  char *value = real(name);
  if (value && *name == 'C' && !strcmp(name, "CUDA_INJECTION64_PATH")) insitu_cuda_has_other();
  if (value || (*name != 'K' && *name != 'N' && *name != 'I' && *name != 'C') || !insitu_is_on) return value;
  return (char *)answer(name); /* the C library's type, too; nobody may write to it */
}

static char *wrap_getenv(const char *name) {
  return look_up(real_getenv, name);
}

static char *wrap_secure_getenv(const char *name) {
  return look_up(real_secure_getenv, name);
}

/* The runtimes of OpenMP and TBB mark what they do themselves. */
static int is_excluded(const struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"libtbb", "libc."};
  return insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes) ||
         insitu_wrap_excludes(object);
}

void insitu_annotations_patch(void) {
  static const struct insitu_wrapper wrappers[] = {
      {"getenv", &real_getenv, (void *)wrap_getenv},
      {"secure_getenv", &real_secure_getenv, (void *)wrap_secure_getenv},
  };
  /* The C library is known without a search. */
  static struct insitu_wrapped wrapped = {.patches = {.visit = insitu_wrap_slot, .is_excluded = is_excluded},
                                          .names = "",
                                          .wrappers = wrappers,
                                          .count = sizeof wrappers / sizeof *wrappers,
                                          .is_ready = 1,
                                          .is_only_copy = 1};
  if (!insitu_table) return;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  insitu_image_patch_loaded(&wrapped.patches);
  insitu_restore_interrupts(&before);
  errno = saved;
  insitu_petsc_patch();
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

#define NAMES 8192u /* a power of two */
#define CHUNK (1u << 18)
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static const char *names[NAMES];

/* Return room for a text that is never freed; not from the program's heap, which is measured. */
static char *reserve(size_t bytes) {
  static char *chunk;
  static size_t left;
  if (bytes > CHUNK) return NULL;
  if (bytes > left) {
    void *fresh = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return NULL;
    chunk = fresh;
    left = CHUNK;
  }
  char *text = chunk;
  chunk += bytes;
  left -= bytes;
  return text;
}

const char *insitu_annotations_keep(const char *name) {
  const char *kept = NULL;
  size_t bytes = strlen(name) + 1;
  uint64_t hash = 5381;
  if (!insitu_is_on) return NULL; /* after a fork the lock may be held for ever */
  for (const char *at = name; *at; at++) hash = hash * 33 + (unsigned char)*at;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&keeping);
  for (unsigned i = 0; i < NAMES; i++) {
    const char **entry = &names[(hash + i) & (NAMES - 1)];
    if (*entry && strcmp(*entry, name)) continue;
    char *text = *entry ? NULL : reserve(bytes);
    if (text) *entry = memcpy(text, name, bytes);
    kept = *entry;
    break;
  }
  pthread_mutex_unlock(&keeping);
  insitu_restore_interrupts(&before);
  errno = saved;
  return kept;
}
