/* dlopen and dlclose in place of the C library's: the MPI calls of a loaded object are timed from its first one on, and
 * what is known of an unloaded object is forgotten.
 *
 * The C library looks at who called dlopen: an object's own search path (DT_RUNPATH, DT_RPATH) applies to what it
 * loads, and DT_RPATH to what is loaded by objects that it has loaded itself. If there is such a path and it could
 * matter, the call is passed on as a tail call, with the caller's return address, and the object is patched at a later
 * opportunity. */
#define _GNU_SOURCE
#include "annotations.h"
#include "compiled.h"
#include "cuda.h"
#include "eh_frame.h"
#include "files.h"
#include "gomp.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "ompt.h"
#include "preload.h"
#include "table.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void *(*Dlopen)(const char *, int);
typedef int (*Dlclose)(void *);

/* Whether the linker may find `name` in one of the folders of a path of `object`. A few folders are enough for what
 * programs have; with more, it may. */
static int may_be_in(const char *folders, const struct link_map *object, const char *name) {
  static const char origin[] = "$ORIGIN";
  char own[1024], path[1024];
  ssize_t length = *object->l_name ? 0 : readlink("/proc/self/exe", own, sizeof own - 1); /* the program has no name */
  if (length < 0) return 1;
  own[length] = 0;
  const char *file = length ? own : object->l_name, *slash = strrchr(file, '/');
  for (const char *at = folders; *at;) {
    size_t bytes = strcspn(at, ":"), skipped = strncmp(at, origin, sizeof origin - 1) ? 0 : sizeof origin - 1;
    if (memchr(at + skipped, '$', bytes - skipped) || (skipped && !slash)) return 1;
    int used = snprintf(path, sizeof path, "%.*s%.*s/", skipped ? (int)(slash - file) : 0, file, (int)(bytes - skipped),
                        at + skipped);
    if (used < 0 || (size_t)used + strlen(name) + 16 > sizeof path) return 1;
    strcpy(path + used, name);
    if (!access(path, F_OK)) return 1;
    strcpy(path + used, "glibc-hwcaps"); /* subfolders for newer processors */
    if (!access(path, F_OK)) return 1;
    at += bytes + (at[bytes] == ':');
  }
  return 0;
}

/* The folders of an object in which libraries are searched. */
struct folders {
  const char *rpath, *runpath; /* NULL if there are none */
};

static struct folders find_folders(const struct link_map *object) {
  const char *strings = NULL;
  struct folders folders = {NULL, NULL};
  for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_STRTAB) strings = (const char *)entry->d_un.d_ptr;
  for (const ElfW(Dyn) *entry = object->l_ld; strings && entry && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_RPATH) folders.rpath = strings + entry->d_un.d_val;
    if (entry->d_tag == DT_RUNPATH) folders.runpath = strings + entry->d_un.d_val;
  }
  return folders;
}

/* Whether the search for `file` depends on the object that contains `caller`. */
static int depends_on_caller(const char *file, const void *caller) {
  Dl_info info;
  struct link_map *object = NULL;
  if (!file) return 0;
  if (strchr(file, '$') || !dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) || !object) return 1;

  /* DT_RPATH also applies to the libraries that `file` needs, DT_RUNPATH only to `file` itself. */
  struct folders own = find_folders(object);
  if (own.rpath) return 1;
  if (strchr(file, '/')) return 0;
  if (own.runpath) return may_be_in(own.runpath, object, file);

  /* DT_RPATH of the objects that loaded this one, which stand in front of it in the list. That of the program, which is
   * the first, applies to all objects. */
  for (const struct link_map *loader = object->l_prev; loader && loader->l_prev; loader = loader->l_prev) {
    struct folders folders = find_folders(loader);
    if (folders.rpath && !folders.runpath && may_be_in(folders.rpath, loader, file)) return 1;
  }
  return 0;
}

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode) {
  static _Atomic(Dlopen) next; /* relaxed: every thread finds the same function */
  Dlopen call = atomic_load_explicit(&next, memory_order_relaxed);
  if (!call) {
    call = (Dlopen)dlsym(RTLD_NEXT, "dlopen");
    if (!call) return NULL;
    atomic_store_explicit(&next, call, memory_order_relaxed);
  }
  int may_load_mpi = !insitu_is_on && insitu_may_load_mpi();
  if ((!insitu_is_on && !may_load_mpi) || mode & RTLD_NOLOAD || depends_on_caller(file, __builtin_return_address(0)))
    return call(file, mode);

  int saved = errno;
  void *object = call(file, mode);
  if (!object) { /* the libraries that it needs may be found for the caller only */
    errno = saved;
    return call(file, mode);
  }
  saved = errno;
  if (may_load_mpi) {
    insitu_loaded();
    errno = saved;
    return object;
  }
  insitu_mpi_patch_opened();
  insitu_maps_patch();
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
  insitu_cuda_patch();
  errno = saved;
  return object;
}

__attribute__((visibility("default"))) int dlclose(void *handle) {
  static _Atomic(Dlclose) next; /* relaxed: every thread finds the same function */
  Dlclose call = atomic_load_explicit(&next, memory_order_relaxed);
  if (!call) {
    call = (Dlclose)dlsym(RTLD_NEXT, "dlclose");
    if (!call) return -1;
    atomic_store_explicit(&next, call, memory_order_relaxed);
  }
  struct link_map *object = NULL;
  struct insitu_object unused;
  int saved = errno;
  int is_known = insitu_is_on && !dlinfo(handle, RTLD_DI_LINKMAP, &object) && object;
  uintptr_t inside = is_known ? (uintptr_t)object->l_ld : 0;
  errno = saved;
  int failed = call(handle);
  /* Relaxed, as unwind.h explains. */
  atomic_fetch_add_explicit(&insitu_objects_unloaded, 1, memory_order_relaxed);
  if (!failed && inside && insitu_is_on && !insitu_object_find(inside, &unused)) insitu_compiled_unloaded();
  return failed;
}
