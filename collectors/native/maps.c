/* Memory that the program maps itself: mmap, munmap and mremap, counted in the running call path.
 *
 * The slots through which objects call these functions are rewritten, so nothing changes unless this is requested. The
 * allocator keeps its slots, since its memory counts as blocks; the C library calls itself without slots. Writable
 * memory counts from mmap to munmap. The ranges are stored, because a program may unmap memory that was not counted. */
#define _GNU_SOURCE
#include "maps.h"

#include "heap.h"
#include "image.h"
#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGES                                                                                           \
  65536u /* more than the kernel allows mappings by default; untouched pages of the array take no memory \
          */

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);
static uintptr_t page;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;
/* Set while this thread holds `mapping`: a signal handler that maps memory meanwhile would deadlock, and is not
 * counted. */
static __thread int is_mapping;

/* ---- the counted ranges, in ascending order ------------------------------------------------------------------- */

struct range {
  uintptr_t from, to;
};
static struct range ranges[RANGES];
static size_t ranges_used;

/* Return the index of the first range that ends behind `at`. */
static size_t find(uintptr_t at) {
  size_t low = 0, high = ranges_used;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].to <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void move_ranges(size_t from, size_t to) {
  memmove(&ranges[to], &ranges[from], (ranges_used - from) * sizeof *ranges);
  ranges_used += to - from;
}

/* Remove a range from those that are counted. Returns how many bytes of it were. */
static int64_t remove_range(uintptr_t from, uintptr_t to) {
  int64_t bytes = 0;
  size_t at = find(from), end = at;
  if (at < ranges_used && ranges[at].from < from && ranges[at].to > to) { /* a hole in one range */
    if (ranges_used == RANGES) return 0;
    move_ranges(at, at + 1);
    ranges[at].to = from;
    ranges[at + 1].from = to;
    return (int64_t)(to - from);
  }
  if (at < ranges_used && ranges[at].from < from) {
    bytes += (int64_t)(ranges[at].to - from);
    ranges[at++].to = from;
    end = at;
  }
  while (end < ranges_used && ranges[end].to <= to) bytes += (int64_t)(ranges[end].to - ranges[end].from), end++;
  if (end < ranges_used && ranges[end].from < to) {
    bytes += (int64_t)(to - ranges[end].from);
    ranges[end].from = to;
  }
  if (end > at) move_ranges(end, at);
  return bytes;
}

/* Add a range that overlaps no other. Returns 0 if there is no room. */
static int add_range(uintptr_t from, uintptr_t to) {
  size_t at = find(from);
  int extends_previous = at && ranges[at - 1].to == from, extends_next = at < ranges_used && ranges[at].from == to;
  if (extends_previous && extends_next) {
    ranges[at - 1].to = ranges[at].to;
    move_ranges(at + 1, at);
  } else if (extends_previous) {
    ranges[at - 1].to = to;
  } else if (extends_next) {
    ranges[at].from = from;
  } else {
    if (ranges_used == RANGES) return 0;
    move_ranges(at, at + 1);
    ranges[at] = (struct range){from, to};
  }
  return 1;
}

/* ---- in place of the C library's functions -------------------------------------------------------------------- */

/* Count the bytes of `removed` no longer, and those of `added`; either may be empty. The lock is held for the moment of
 * counting only, since signals are blocked meanwhile: to unmap memory may take long. Returns how many bytes of
 * `removed` were counted. */
static int64_t change_ranges(struct range removed, struct range added) {
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  is_mapping = 1;
  pthread_mutex_lock(&mapping);
  int64_t freed = removed.from < removed.to ? remove_range(removed.from, removed.to) : 0;
  int64_t bytes = added.from < added.to && add_range(added.from, added.to) ? (int64_t)(added.to - added.from) : 0;
  pthread_mutex_unlock(&mapping);
  if (freed) insitu_heap_count(-freed, 0);
  if (bytes) insitu_heap_count(bytes, 1);
  is_mapping = 0;
  insitu_restore_interrupts(&before);
  errno = saved;
  return freed;
}

static int is_uncounted(void) {
  return is_mapping || insitu_heap_is_off();
}

static struct range range_at(void *block, size_t bytes) {
  uintptr_t from = (uintptr_t)block;
  return (struct range){from, from + ((bytes + page - 1) & ~(page - 1))};
}

static const struct range nothing;

static void *count_mmap(void *hint, size_t bytes, int protection, int flags, int file, off_t offset) {
  void *mapped = next_mmap(hint, bytes, protection, flags, file, offset);
  if (mapped == MAP_FAILED || is_uncounted()) return mapped;
  struct range range = range_at(mapped, bytes);
  /* With MAP_FIXED it replaced what was mapped there. */
  change_ranges(flags & MAP_FIXED ? range : nothing, protection & PROT_WRITE ? range : nothing);
  return mapped;
}

/* Once the memory is unmapped, another thread may map some at this address. So it is no longer counted before. */
static int count_munmap(void *block, size_t bytes) {
  if (is_uncounted()) return next_munmap(block, bytes);
  struct range range = range_at(block, bytes);
  int64_t freed = change_ranges(range, nothing);
  int failed = next_munmap(block, bytes);
  if (failed && freed == (int64_t)(range.to - range.from)) change_ranges(nothing, range);
  return failed;
}

static void *count_mremap(void *block, size_t old_bytes, size_t bytes, int flags, void *hint) {
  if (is_uncounted()) return next_mremap(block, old_bytes, bytes, flags, hint);
  struct range old = range_at(block, old_bytes);
  int64_t freed = change_ranges(old, nothing);
  void *mapped = next_mremap(block, old_bytes, bytes, flags, hint);
  if (mapped != MAP_FAILED) {
    struct range fresh = range_at(mapped, bytes);
    change_ranges(flags & MREMAP_FIXED ? fresh : nothing, freed ? fresh : nothing);
  } else if (freed && freed == (int64_t)(old.to - old.from)) {
    change_ranges(nothing, old);
  }
  return mapped;
}

/* ---- slots ---------------------------------------------------------------------------------------------------- */

static int patch_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *patches) {
  uintptr_t function = !strcmp(symbol, "mmap") || !strcmp(symbol, "mmap64") ? (uintptr_t)count_mmap
                       : !strcmp(symbol, "munmap")                          ? (uintptr_t)count_munmap
                       : !strcmp(symbol, "mremap")                          ? (uintptr_t)count_mremap
                                                                            : 0;
  uintptr_t current = insitu_image_value(slot);
  if (!function || !current || current == function) return 0;
  if (insitu_image_has_value(image, slot)) insitu_image_patch(image, slot, function);
  else insitu_image_postpone(patches);
  return 0;
}

/* Looked up before objects are iterated: dladdr waits for threads in dlopen, which wait for the end of the iteration.
 */
static const void *own_object, *allocator_object;

/* Whether an object keeps its slots: the C library, sanitizers, this library and the allocator. */
static int is_excluded(const struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"libc.so", "ld-linux", "linux-vdso", "libasan", "libtsan", "libubsan"};
  if (insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes)) return 1;
  const void *base = (const void *)object->dlpi_addr;
  return base == own_object || base == allocator_object;
}

void insitu_maps_patch(void) {
  static struct insitu_patches patches = {.visit = patch_slot, .is_excluded = is_excluded};
  if (!next_mmap) return;
  struct insitu_interrupts before = insitu_block_interrupts();
  insitu_image_patch_loaded(&patches);
  insitu_restore_interrupts(&before);
}

void insitu_maps_start(void) {
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
  next_mremap = (void *(*)(void *, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
  if (next_munmap && next_mremap) next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  Dl_info ours;
  own_object = dladdr((const void *)&page, &ours) ? ours.dli_fbase : NULL;
  allocator_object = insitu_heap_allocator();
  insitu_maps_patch();
}
