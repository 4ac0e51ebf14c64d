/* Loaded objects, and the slots of their global offset tables. */
#ifndef INSITU_IMAGE_H
#define INSITU_IMAGE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct insitu_image {
  uintptr_t base, sealed_from, sealed_to;
  const ElfW(Sym) * symbols;
  const char *strings;
  const ElfW(Rela) * relocations[2];
  size_t bytes[2];
  const uint32_t *hash; /* DT_GNU_HASH */
};

/* What an object says of itself; 0 if it has no symbols. */
int insitu_image_read(const struct dl_phdr_info *object, struct insitu_image *image);
/* Call `found` with the place and the symbol of each slot that leads to a function, until it returns other than 0. */
void insitu_image_slots(const struct insitu_image *image,
                        int (*found)(const struct insitu_image *, uintptr_t slot, const char *symbol, void *context),
                        void *context);
/* Let a slot lead to another function; 1 if it does now. */
int insitu_image_patch(const struct insitu_image *image, uintptr_t slot, uintptr_t function);

#endif
