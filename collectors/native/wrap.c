/* Rewrite the slots that lead into a shared library, so that they lead to wrappers, as mpi_patch.c does for MPI. */
#define _GNU_SOURCE
#include "wrap.h"

#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Whether the library is loaded. It is never unloaded from then on. */
static int prepare(struct insitu_wrapped *wrapped) {
  char path[INSITU_IMAGE_PATH]; /* of the first copy */
  unsigned copies = insitu_image_find(wrapped->prefixes, wrapped->prefixes_count, path);
  /* Relaxed: the thread that sets it reads it. */
  atomic_store_explicit(&wrapped->is_only_copy, copies == 1, memory_order_relaxed);
  /* Acquire and release order the functions that were looked up. */
  if (atomic_load_explicit(&wrapped->is_ready, memory_order_acquire)) return 1;
  /* Not while objects are iterated: the linker waits for threads that wait for the end of the iteration. */
  void *library = copies ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!library) return 0;
  for (unsigned i = 0; i < wrapped->count; i++) {
    void *function = dlsym(library, wrapped->wrappers[i].name);
    memcpy(wrapped->wrappers[i].real, &function, sizeof function);
  }
  atomic_store_explicit(&wrapped->is_ready, 1, memory_order_release);
  return 1;
}

int insitu_wrap_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *patches) {
  const struct insitu_wrapped *wrapped = patches; /* its first member */
  if (strncmp(symbol, wrapped->names, strlen(wrapped->names))) return 0;
  for (unsigned i = 0; i < wrapped->count; i++) {
    const struct insitu_wrapper *wrapper = &wrapped->wrappers[i];
    if (strcmp(wrapper->name, symbol)) continue;
    uintptr_t current = insitu_image_value(slot), expected = *(const uintptr_t *)wrapper->real;
    if (!expected || !current || current == (uintptr_t)wrapper->wrap) return 0;
    if (!insitu_image_has_value(image, slot)) {
      insitu_image_postpone(patches);
      return 0;
    }
    /* Before its first call a slot leads into its own object, to the code that finds the function. Relaxed, as above.
     */
    int is_lazy = current >= image->base && current < image->end;
    int is_free = is_lazy && atomic_load_explicit(&wrapped->is_only_copy, memory_order_relaxed);
    if (current == expected || is_free) insitu_image_patch(image, slot, (uintptr_t)wrapper->wrap);
    return 0;
  }
  return 0;
}

int insitu_wrap_excludes(const struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"libgomp", "libomp.",  "libomp-", "libiomp5",  "libinsitu",
                                         "libmpi",  "ld-linux", "ld-musl", "linux-vdso"};
  return insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes);
}

void insitu_wrap(struct insitu_wrapped *wrapped) {
  if (!insitu_table) return;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  if (prepare(wrapped)) insitu_image_patch_loaded(&wrapped->patches);
  insitu_restore_interrupts(&before);
  errno = saved;
}
