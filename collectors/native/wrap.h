/* Functions of a shared library that have wrappers here, called by the objects of the program. */
#ifndef INSITU_WRAP_H
#define INSITU_WRAP_H

#include "image.h"

struct insitu_wrapper {
  const char *name;
  void *real; /* the address of the variable that holds the function of the library */
  void *wrap;
};

struct insitu_wrapped {
  struct insitu_patches patches; /* with insitu_wrap_slot and insitu_wrap_excludes */
  const char *const *prefixes;   /* how the file name of the library begins */
  unsigned prefixes_count;
  const char *names; /* how all names begin */
  const struct insitu_wrapper *wrappers;
  unsigned count;
  _Atomic int is_ready, is_only_copy;
};

/* Lead the calls of newly loaded objects into the library to the wrappers. Does nothing while it is not loaded.
 *
 * If several copies of it are loaded, as with wheels of Python that bring their own, the first one counts. A slot that
 * is not bound yet is left alone then. */
void insitu_wrap(struct insitu_wrapped *wrapped);

int insitu_wrap_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *patches);
int insitu_wrap_excludes(const struct dl_phdr_info *object);
#define INSITU_WRAP_PATCHES {.visit = insitu_wrap_slot, .is_excluded = insitu_wrap_excludes}

#endif
