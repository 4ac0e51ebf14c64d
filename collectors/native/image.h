/* Loaded objects, and the slots of their global offset tables. */
#ifndef INSITU_IMAGE_H
#define INSITU_IMAGE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct insitu_image {
  uintptr_t base;
  uintptr_t end;                  /* behind its last byte */
  uintptr_t relro_from, relro_to; /* whole pages that are read-only after relocation */
  const ElfW(Sym) * symbols;
  const char *strings;
  const ElfW(Rela) * relocations[2]; /* of data, of the procedure linkage table */
  size_t bytes[2];
  const uint32_t *hash; /* DT_GNU_HASH */
};

/* Called with a slot and the symbol that it leads to; stops the iteration if it returns other than 0. */
typedef int (*insitu_slot_visitor)(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *context);

/* Read the dynamic section of an object. Returns 0 if it has no symbols. */
int insitu_image_read(const struct dl_phdr_info *object, struct insitu_image *image);
/* Whether a word can be written. Afterwards its page is in memory, or has space on the disk. */
int insitu_image_is_writable(uintptr_t at);
/* Whether the linker is done with the object as a whole. While another thread loads it, it is visible already. */
int insitu_image_is_sealed(const struct insitu_image *image);
/* Whether the linker has written the final value, or the address of the code that finds it, into a slot. */
int insitu_image_has_value(const struct insitu_image *image, uintptr_t slot);
/* Visit each slot that leads to a function. */
void insitu_image_slots(const struct insitu_image *image, insitu_slot_visitor visit, void *context);
/* Where a slot leads. Relaxed: another thread may be patching it. */
static inline uintptr_t insitu_image_value(uintptr_t slot) {
  return __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
}
/* Let a slot lead to another function. Returns 1 on success. */
int insitu_image_patch(const struct insitu_image *image, uintptr_t slot, uintptr_t function);

/* Slots of all loaded objects that lead to functions of ours. */
struct insitu_patches {
  insitu_slot_visitor visit;                             /* patches a slot */
  int (*is_excluded)(const struct dl_phdr_info *object); /* whether an object keeps its slots */
  unsigned long long loads;                              /* how often objects had been loaded at the last visit */
  unsigned postponed; /* how often an object was still being loaded by another thread */
  unsigned retried;   /* how many of these times were before the last visit */
  uint64_t visited;   /* how many objects, in the order in which they were loaded; above 32 bits, how often objects had
                       * been unloaded */
};
/* Visit the slots of objects that were loaded since the last visit; if objects were unloaded, those of all. */
void insitu_image_patch_loaded(struct insitu_patches *patches);
void insitu_image_postpone(struct insitu_patches *patches);
/* Whether the file name of an object, without its directory, begins with one of `count` prefixes. */
int insitu_image_has_prefix(const char *path, const char *const *prefixes, size_t count);
/* Count the loaded objects with such a file name, and write the path of the first one. */
#define INSITU_IMAGE_PATH 1024u
unsigned insitu_image_find(const char *const *prefixes, size_t count, char path[INSITU_IMAGE_PATH]);

#endif
