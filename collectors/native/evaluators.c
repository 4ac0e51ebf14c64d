/* CPython 3.11: tools of the program that set a frame evaluator of their own while ours is there, as debuggers and
 * TorchDynamo do. Their calls of the two functions lead to those of hook.c, which keep ours in front of theirs.
 *
 * An extension module calls them through its slots. ctypes and cffi look them up by name, so the slots of `dlsym` lead
 * to a function that knows these two names and passes all others on. Since nothing can be called in a loaded object
 * before something in it is looked up, objects that were loaded are also patched there. */
#define _GNU_SOURCE
#include "hook.h"

#include "image.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

typedef void *(*Dlsym)(void *, const char *);

static Dlsym real_dlsym;

static void *wrap_dlsym(void *handle, const char *name);

struct wrapper {
  const char *name;
  uintptr_t expected; /* what the name means to the whole program; a slot that leads elsewhere is left alone */
  const void *wrap;
};
static struct wrapper wrappers[] = {
    {"_PyInterpreterState_SetEvalFrameFunc", 0, (const void *)insitu_set_evaluator},
    {"_PyInterpreterState_GetEvalFrameFunc", 0, (const void *)insitu_get_evaluator},
    {"dlsym", 0, (const void *)wrap_dlsym},
};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers };

static struct wrapper *find_wrapper(const char *name) {
  for (size_t i = 0; i < WRAPPERS; i++)
    if (!strcmp(wrappers[i].name, name)) return &wrappers[i];
  return NULL;
}

static void patch_loaded(void);

static void *wrap_dlsym(void *handle, const char *name) {
  patch_loaded();
  if (__builtin_expect(name && !strncmp(name, "_PyInterp", 9), 0)) {
    void *function = real_dlsym(handle, name);
    const struct wrapper *wrapper = find_wrapper(name);
    return wrapper && function && (uintptr_t)function == wrapper->expected ? (void *)(uintptr_t)wrapper->wrap
                                                                           : function;
  }
  return real_dlsym(handle, name); /* a tail call: the C library looks at who called, for RTLD_NEXT */
}

static int patch_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *patches) {
  const struct wrapper *wrapper = *symbol == '_' || *symbol == 'd' ? find_wrapper(symbol) : NULL;
  uintptr_t current = insitu_image_value(slot);
  if (!wrapper || !wrapper->expected || !current || current == (uintptr_t)wrapper->wrap) return 0;
  if (!insitu_image_has_value(image, slot)) {
    insitu_image_postpone(patches);
    return 0;
  }
  /* Before its first call a slot leads into its own object, to the code that finds the function. */
  int is_lazy = current >= image->base && current < image->end;
  if (current == wrapper->expected || is_lazy) insitu_image_patch(image, slot, (uintptr_t)wrapper->wrap);
  return 0;
}

static int is_excluded(const struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"libinsitu", "libc.so", "ld-linux", "ld-musl", "linux-vdso"};
  return insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes);
}

static void patch_loaded(void) {
  static struct insitu_patches patches = {.visit = patch_slot, .is_excluded = is_excluded};
  if (!insitu_is_owner()) return;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  insitu_image_patch_loaded(&patches);
  insitu_restore_interrupts(&before);
  errno = saved;
}

void insitu_evaluators_patch(void) {
  for (size_t i = 0; i < WRAPPERS; i++) wrappers[i].expected = (uintptr_t)dlsym(RTLD_DEFAULT, wrappers[i].name);
  memcpy(&real_dlsym, &wrappers[WRAPPERS - 1].expected, sizeof real_dlsym);
  if (real_dlsym) patch_loaded();
}
