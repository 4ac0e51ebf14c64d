/* dlopen and dlclose in place of the C library's: the MPI calls of a loaded object are timed from its first one on, and
 * what is known of an unloaded object is forgotten.
 *
 * The C library looks at who called dlopen: an object's own search path (DT_RUNPATH, DT_RPATH) applies to what it
 * loads. If the caller has such a path and it could matter, the call is passed on as a tail call, with the caller's
 * return address, and the object is patched at a later opportunity. */
#define _GNU_SOURCE
#include "annotations.h"
#include "files.h"
#include "gomp.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "ompt.h"
#include "table.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

typedef void *(*Dlopen)(const char *, int);
typedef int (*Dlclose)(void *);

/* Whether the search for `file` depends on the object that contains `caller`. */
static int depends_on_caller(const char *file, const void *caller) {
  Dl_info info;
  struct link_map *object = NULL;
  if (!file) return 0;
  if (strchr(file, '$') || !dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP) || !object) return 1;
  for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
    /* DT_RPATH also applies to the libraries that `file` needs, DT_RUNPATH only to `file` itself. */
    if (entry->d_tag == DT_RPATH || (entry->d_tag == DT_RUNPATH && !strchr(file, '/'))) return 1;
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
  if (!insitu_is_on || mode & RTLD_NOLOAD || depends_on_caller(file, __builtin_return_address(0)))
    return call(file, mode);

  void *object = call(file, mode);
  if (!object) return NULL;
  int saved = errno;
  insitu_mpi_patch_opened();
  insitu_maps_patch();
  insitu_files_patch();
  insitu_gomp_patch();
  insitu_ompt_patch();
  insitu_annotations_patch();
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
  int failed = call(handle);
  /* Relaxed, as unwind.h explains. */
  atomic_fetch_add_explicit(&insitu_objects_unloaded, 1, memory_order_relaxed);
  return failed;
}
