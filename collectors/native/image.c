/* Loaded objects as the dynamic linker sees them: their dynamic section, and the slots that calls go through. */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  memset(image, 0, sizeof *image);
  image->base = object->dlpi_addr;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type == PT_GNU_RELRO) {
      /* As the linker does it: the last page stays writable unless the range contains all of it. Objects that were
       * linked for smaller pages have other data there. */
      image->relro_from = (image->base + segment->p_vaddr) & ~(page - 1);
      image->relro_to = (image->base + segment->p_vaddr + segment->p_memsz) & ~(page - 1);
    } else if (segment->p_type == PT_LOAD) {
      image->end = image->base + segment->p_vaddr + segment->p_memsz;
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

/* The kernel adds 0 to the word: that changes nothing, also if another thread is writing it. */
int insitu_image_is_writable(uintptr_t at) {
  int saved = errno;
  uint32_t nobody = 0;
  long failed = syscall(SYS_futex, &nobody, FUTEX_WAKE_OP_PRIVATE, 0, NULL, (void *)at,
                        FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
  int is_refused = failed < 0 && errno == EFAULT;
  errno = saved;
  return !is_refused;
}

int insitu_image_is_sealed(const struct insitu_image *image) {
  return image->relro_from >= image->relro_to || !insitu_image_is_writable(image->relro_from);
}

int insitu_image_has_value(const struct insitu_image *image, uintptr_t slot) {
  /* Before relocation it is 0, or the position of that code within the object. */
  return !image->base || insitu_image_value(slot) >= image->end - image->base;
}

int insitu_image_patch(const struct insitu_image *image, uintptr_t slot, uintptr_t function) {
  int is_read_only = slot >= image->relro_from && slot < image->relro_to;
  uintptr_t page = slot & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
  int can_write = 1;

  /* Without the lock another thread could protect the page again before the slot is written. */
  pthread_mutex_lock(&patching);
  if (is_read_only) can_write = !mprotect((void *)page, slot + sizeof slot - page, PROT_READ | PROT_WRITE);
  /* Release: another thread that calls through the slot finds the function ready. */
  if (can_write) __atomic_store_n((uintptr_t *)slot, function, __ATOMIC_RELEASE);
  if (can_write && is_read_only) mprotect((void *)page, slot + sizeof slot - page, PROT_READ);
  pthread_mutex_unlock(&patching);
  return can_write;
}

int insitu_image_has_prefix(const char *path, const char *const *prefixes, size_t count) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  for (size_t i = 0; i < count; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return 1;
  return 0;
}

struct search {
  const char *const *prefixes;
  size_t count;
  char *path;
  unsigned found;
};

static int find_object(struct dl_phdr_info *object, size_t bytes, void *value) {
  (void)bytes;
  struct search *search = value;
  if (insitu_image_has_prefix(object->dlpi_name, search->prefixes, search->count) && !search->found++)
    snprintf(search->path, INSITU_IMAGE_PATH, "%s", object->dlpi_name);
  return 0;
}

unsigned insitu_image_find(const char *const *prefixes, size_t count, char path[INSITU_IMAGE_PATH]) {
  struct search search = {.prefixes = prefixes, .count = count, .path = path};
  path[0] = 0;
  dl_iterate_phdr(find_object, &search);
  return search.found;
}

void insitu_image_postpone(struct insitu_patches *patches) {
  __atomic_fetch_add(&patches->postponed, 1, __ATOMIC_RELAXED); /* Relaxed: only a hint to try again. */
}

struct visit {
  struct insitu_patches *patches;
  unsigned from, objects;
};

static int patch_object(struct dl_phdr_info *object, size_t bytes, void *value) {
  (void)bytes;
  struct visit *visit = value;
  struct insitu_patches *patches = visit->patches;
  struct insitu_image image;
  if (visit->objects++ < visit->from) return 0;
  if (patches->is_excluded(object) || !insitu_image_read(object, &image)) return 0;
  if (insitu_image_is_sealed(&image)) insitu_image_slots(&image, patches->visit, patches);
  else insitu_image_postpone(patches);
  return 0;
}

struct loads {
  unsigned long long adds, removals;
};

static int count_loads(struct dl_phdr_info *object, size_t bytes, void *loads) {
  (void)bytes;
  *(struct loads *)loads = (struct loads){object->dlpi_adds, object->dlpi_subs};
  return 1;
}

void insitu_image_patch_loaded(struct insitu_patches *patches) {
  struct loads loads = {0, 0};
  struct visit visit = {.patches = patches};
  unsigned postponed = __atomic_load_n(&patches->postponed, __ATOMIC_RELAXED);
  uint64_t visited = __atomic_load_n(&patches->visited, __ATOMIC_ACQUIRE);
  int is_again = __atomic_load_n(&patches->retried, __ATOMIC_ACQUIRE) != postponed;
  dl_iterate_phdr(count_loads, &loads);
  if (__atomic_load_n(&patches->loads, __ATOMIC_ACQUIRE) == loads.adds && !is_again) return;
  /* New objects come last, unless others were unloaded. */
  if (!is_again && visited >> 32 == (uint32_t)loads.removals) visit.from = (uint32_t)visited;
  /* If two threads see a new object at the same time, both patch it, and patching is idempotent. Release, and only
   * afterwards: a thread that finds its object counted finds it patched. */
  dl_iterate_phdr(patch_object, &visit);
  __atomic_store_n(&patches->visited, loads.removals << 32 | visit.objects, __ATOMIC_RELEASE);
  __atomic_store_n(&patches->loads, loads.adds, __ATOMIC_RELEASE);
  __atomic_store_n(&patches->retried, postponed, __ATOMIC_RELEASE);
}
