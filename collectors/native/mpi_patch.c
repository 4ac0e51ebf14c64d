/* Rewrite the slots of global offset tables that lead into the MPI library, so that they lead to the wrappers.
 *
 * Exporting MPI_* instead would not work: mpi4py holds weak references to calls that an MPI library may lack, and an
 * exported name would make them look present. Slots of MPI_X and of PMPI_X lead to the same wrapper, unless the program
 * or a tool defines MPI_X itself: then slots of MPI_X stay, and the call of PMPI_X inside is timed. So every call is
 * timed once, where it enters the library. The Fortran bindings are callers like any other. */
#define _GNU_SOURCE
#include "image.h"
#include "mpi_wrapper.h"
#include "table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long adds_seen, removals_seen;
static int is_ready;
static int is_postponed; /* an object was still being loaded by another thread: the next call tries again */
/* How often patching was requested, and how many of these requests were fulfilled. Sequentially consistent: either the
 * thread that makes a request gets the lock, or the holder of the lock sees the request. */
static _Atomic unsigned requests, fulfilled;

#define OBJECTS 4096u
static uintptr_t patched[OBJECTS]; /* their program headers */
static unsigned patched_used;

static int by_name(const void *left, const void *right) {
  return strcmp(((const struct insitu_mpi_call *)left)->name, ((const struct insitu_mpi_call *)right)->name);
}

/* Resolve the wrapped functions. Returns 0 while there is no MPI library. */
static int prepare(void) {
  if (is_ready) return 1;
  if (!insitu_mpi_open()) return 0;
  qsort(insitu_mpi_calls, insitu_mpi_calls_count, sizeof *insitu_mpi_calls, by_name);
  for (size_t i = 0; i < insitu_mpi_calls_count; i++)
    *insitu_mpi_calls[i].real = insitu_mpi_resolve(insitu_mpi_calls[i].name);
  return is_ready = 1;
}

static int patch_slot(const struct insitu_image *image, uintptr_t at, const char *symbol) {
  struct insitu_mpi_call key = {.name = symbol + (*symbol == 'P')};
  const struct insitu_mpi_call *call = bsearch(&key, insitu_mpi_calls, insitu_mpi_calls_count, sizeof key, by_name);
  Function current = *(Function *)at;
  if (!call || !*call->real || !current || current == call->wrap || (call->is_overridden && *symbol == 'M')) return 0;
  return insitu_image_patch(image, at, (uintptr_t)call->wrap);
}

/* Whether an object is part of the MPI library, whose internal calls are not those of the program, or of insitu. */
static int is_inside(struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"mca_",     "libmca_",   "libopen-",   "libpmix",
                                         "libprrte", "libinsitu", "linux-vdso", "ld-linux"};
  return insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes) ||
         insitu_mpi_is_core((const void *)object->dlpi_addr);
}

static int is_patched(uintptr_t object) {
  for (unsigned i = 0; i < patched_used; i++)
    if (patched[i] == object) return 1;
  return 0;
}

/* ---- functions of MPI that the program defines itself --------------------------------------------------------- */

/* Whether the object defines this name. This is the look-up in a GNU hash table, as ld.so does it. */
static int defines(const struct insitu_image *image, const char *name) {
  uint32_t hash = 5381;
  for (const char *at = name; *at; at++) hash = hash * 33 + (unsigned char)*at;
  uint32_t buckets = image->hash[0], first = image->hash[1], words = image->hash[2], shift = image->hash[3];
  const ElfW(Addr) *bloom = (const ElfW(Addr) *)(image->hash + 4);
  const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
  const unsigned bits = 8 * sizeof *bloom;
  ElfW(Addr) word = bloom[hash / bits % words];
  if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1)) return 0;
  for (uint32_t at = bucket[hash % buckets]; at >= first; at++) {
    uint32_t entry = chain[at - first]; /* its lowest bit ends the chain */
    if ((entry | 1) == (hash | 1) && !strcmp(image->strings + image->symbols[at].st_name, name)) return 1;
    if (entry & 1) break;
  }
  return 0;
}

/* Mark the calls that an object defines itself. */
static int mark_defined(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  struct insitu_image image;
  if (is_patched((uintptr_t)object->dlpi_phdr) || is_inside(object) || !insitu_image_read(object, &image) ||
      !image.hash)
    return 0;
  for (size_t i = 0; i < insitu_mpi_calls_count; i++) {
    struct insitu_mpi_call *call = &insitu_mpi_calls[i];
    if (!call->is_overridden && defines(&image, call->name)) call->is_defined = 1;
  }
  return 0;
}

/* Such a function counts only if callers are bound to it, since it may be private to its object. This is not done while
 * objects are iterated: dlsym waits for threads in dlopen, which wait for the end of the iteration. */
static void mark_overridden(void) {
  dl_iterate_phdr(mark_defined, NULL);
  for (size_t i = 0; i < insitu_mpi_calls_count; i++) {
    struct insitu_mpi_call *call = &insitu_mpi_calls[i];
    Dl_info definition;
    if (!call->is_defined) continue;
    call->is_defined = 0;
    void *bound = dlsym(RTLD_DEFAULT, call->name);
    call->is_overridden = bound && dladdr(bound, &definition) && !insitu_mpi_is_core(definition.dli_fbase);
  }
}

/* ---- all objects ---------------------------------------------------------------------------------------------- */

static int leads_into_mpi(const char *symbol) {
  return strncmp(symbol + (*symbol == 'P'), "MPI_", 4) == 0;
}

/* Stops at the first slot that the linker has not relocated. */
static int visit_unrelocated(const struct insitu_image *image, uintptr_t slot, const char *symbol,
                             void *is_unfinished) {
  return *(int *)is_unfinished =
             leads_into_mpi(symbol) && insitu_image_value(slot) && !insitu_image_has_value(image, slot);
}

static int visit_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *total) {
  if (leads_into_mpi(symbol)) *(int *)total += patch_slot(image, slot, symbol);
  return 0;
}

/* Objects are visible before the linker has relocated them, if another thread is loading them. Then the linker would
 * relocate what is written here, or find its page protected. */
static int is_relocated(const struct insitu_image *image) {
  int is_unfinished = 0;
  if (!insitu_image_is_sealed(image)) return 0;
  insitu_image_slots(image, visit_unrelocated, &is_unfinished);
  return !is_unfinished;
}

static int patch_object(struct dl_phdr_info *object, size_t bytes, void *total) {
  (void)bytes;
  struct insitu_image image;
  if (is_patched((uintptr_t)object->dlpi_phdr)) return 0;
  int has_slots = !is_inside(object) && insitu_image_read(object, &image);
  if (has_slots && !is_relocated(&image)) {
    is_postponed = 1;
    return 0;
  }
  if (patched_used < OBJECTS) patched[patched_used++] = (uintptr_t)object->dlpi_phdr;
  if (has_slots) insitu_image_slots(&image, visit_slot, total);
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

/* Called with `patching` held. */
static int patch_new_objects(void) {
  struct loads loads = {0, 0};
  int total = 0;
  dl_iterate_phdr(count_loads, &loads);
  if ((loads.adds == adds_seen && !is_postponed) || !prepare()) return 0;
  adds_seen = loads.adds;
  is_postponed = 0;
  if (loads.removals != removals_seen) patched_used = 0; /* addresses may have been used again */
  removals_seen = loads.removals;
  mark_overridden();
  dl_iterate_phdr(patch_object, &total);
  return total;
}

int insitu_mpi_patch(void) {
  int total = 0;
  struct insitu_interrupts before = insitu_block_interrupts();
  atomic_fetch_add(&requests, 1);
  /* Waiting for the lock could deadlock with a holder that waits for the loader. */
  while (atomic_load(&fulfilled) != atomic_load(&requests) && !pthread_mutex_trylock(&patching)) {
    unsigned seen = atomic_load(&requests);
    total += patch_new_objects();
    atomic_store(&fulfilled, seen);
    pthread_mutex_unlock(&patching);
  }
  insitu_restore_interrupts(&before);
  return total;
}

void insitu_mpi_patch_opened(void) {
  const struct timespec pause = {.tv_nsec = 100 * 1000};
  struct insitu_interrupts before = insitu_block_interrupts();
  insitu_mpi_patch();
  unsigned request = atomic_load(&requests);
  for (int i = 0; i < 10000 && (int)(atomic_load(&fulfilled) - request) < 0; i++) nanosleep(&pause, NULL);
  insitu_restore_interrupts(&before);
}
