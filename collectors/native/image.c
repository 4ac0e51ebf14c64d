/* Loaded objects as the dynamic linker sees them: their dynamic section, and the slots that calls go through. */
#define _GNU_SOURCE
#include "image.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t unsealing = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t absolute(const struct insitu_image *image, uintptr_t at) {
  return at < image->base ? image->base + at : at;
}

static void read_dynamic(struct insitu_image *image, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    uintptr_t value = (uintptr_t)entry->d_un.d_val;
    switch (entry->d_tag) {
      case DT_SYMTAB: image->symbols = (const ElfW(Sym) *)absolute(image, value); break;
      case DT_STRTAB: image->strings = (const char *)absolute(image, value); break;
      case DT_RELA: image->relocations[0] = (const ElfW(Rela) *)absolute(image, value); break;
      case DT_RELASZ: image->bytes[0] = value; break;
      case DT_JMPREL: image->relocations[1] = (const ElfW(Rela) *)absolute(image, value); break;
      case DT_PLTRELSZ: image->bytes[1] = value; break;
      case DT_GNU_HASH: image->hash = (const uint32_t *)absolute(image, value); break;
    }
  }
}

int insitu_image_read(const struct dl_phdr_info *object, struct insitu_image *image) {
  memset(image, 0, sizeof *image);
  image->base = object->dlpi_addr;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type == PT_GNU_RELRO) {
      image->sealed_from = image->base + segment->p_vaddr;
      image->sealed_to = image->sealed_from + segment->p_memsz;
    } else if (segment->p_type == PT_DYNAMIC) {
      read_dynamic(image, (const ElfW(Dyn) *)(image->base + segment->p_vaddr));
    }
  }
  return image->symbols && image->strings;
}

static int is_slot(unsigned type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  return 0;
#endif
}

void insitu_image_slots(const struct insitu_image *image,
                        int (*found)(const struct insitu_image *, uintptr_t slot, const char *symbol, void *context),
                        void *context) {
  for (int table = 0; table < 2; table++)
    for (size_t i = 0; i < image->bytes[table] / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela) *relocation = &image->relocations[table][i];
      if (!is_slot((unsigned)ELF64_R_TYPE(relocation->r_info))) continue;
      const char *symbol = image->strings + image->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
      if (found(image, image->base + relocation->r_offset, symbol, context)) return;
    }
}

int insitu_image_patch(const struct insitu_image *image, uintptr_t slot, uintptr_t function) {
  int is_sealed = slot >= image->sealed_from && slot < image->sealed_to;
  uintptr_t page = slot & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
  int is_open = 1;
  pthread_mutex_lock(&unsealing); /* else another thread's slot in this page would be sealed before it is written */
  if (is_sealed) is_open = !mprotect((void *)page, slot + sizeof slot - page, PROT_READ | PROT_WRITE);
  if (is_open) __atomic_store_n((uintptr_t *)slot, function, __ATOMIC_RELEASE); /* others may be calling through it */
  if (is_open && is_sealed) mprotect((void *)page, slot + sizeof slot - page, PROT_READ);
  pthread_mutex_unlock(&unsealing);
  return is_open;
}
