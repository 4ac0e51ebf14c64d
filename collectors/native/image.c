/* Loaded objects as the dynamic linker sees them: their dynamic section, and the slots that calls go through. */
#define _GNU_SOURCE
#include "image.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;

/* glibc relocates the addresses in a dynamic section, but not those of the vdso. */
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
      image->relro_from = image->base + segment->p_vaddr;
      image->relro_to = image->relro_from + segment->p_memsz;
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

void insitu_image_slots(const struct insitu_image *image, insitu_slot_visitor visit, void *context) {
  for (int table = 0; table < 2; table++)
    for (size_t i = 0; i < image->bytes[table] / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela) *relocation = &image->relocations[table][i];
      if (!is_slot((unsigned)ELF64_R_TYPE(relocation->r_info))) continue;
      const char *symbol = image->strings + image->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
      if (visit(image, image->base + relocation->r_offset, symbol, context)) return;
    }
}

int insitu_image_patch(const struct insitu_image *image, uintptr_t slot, uintptr_t function) {
  int is_read_only = slot >= image->relro_from && slot < image->relro_to;
  uintptr_t page = slot & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
  int is_writable = 1;

  /* Without the lock another thread could protect the page again before the slot is written. */
  pthread_mutex_lock(&patching);
  if (is_read_only) is_writable = !mprotect((void *)page, slot + sizeof slot - page, PROT_READ | PROT_WRITE);
  /* Release: another thread that calls through the slot finds the function ready. */
  if (is_writable) __atomic_store_n((uintptr_t *)slot, function, __ATOMIC_RELEASE);
  if (is_writable && is_read_only) mprotect((void *)page, slot + sizeof slot - page, PROT_READ);
  pthread_mutex_unlock(&patching);
  return is_writable;
}
