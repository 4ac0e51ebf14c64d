/* Memory that the program maps by itself: mmap, munmap and mremap, counted in the call path that runs.
 *
 * The slots through which objects call them are rewritten, so that nothing changes where this is not asked for; the
 * allocator's are left, since its memory counts as blocks, and the C library calls itself without slots. What may be
 * written counts from mmap to munmap. Ranges are remembered, because a program may unmap what came uncounted. */
#define _GNU_SOURCE
#include "maps.h"

#include "heap.h"
#include "image.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGES 65536u /* more than the kernel allows mappings; pages of it that are not used take no memory */

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);
static uintptr_t page;
static pthread_mutex_t mapping = PTHREAD_MUTEX_INITIALIZER;
static __thread int is_mapping; /* a signal handler that maps meanwhile is not counted: it would wait for itself */

/* ---- what is counted now, in order ---------------------------------------------------------------------------- */

struct range {
  uintptr_t from, to;
};
static struct range ranges[RANGES];
static size_t ranges_used;

/* The first range that ends behind `at`. */
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

/* Forget what is counted of a range; the bytes of that. */
static int64_t uncover(uintptr_t from, uintptr_t to) {
  int64_t bytes = 0;
  size_t at = find(from), end = at;
  if (at < ranges_used && ranges[at].from < from && ranges[at].to > to) { /* a hole within one */
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

/* A new range, which covers none; 0 if there is no room. */
static int cover(uintptr_t from, uintptr_t to) {
  size_t at = find(from);
  int joins_before = at && ranges[at - 1].to == from, joins_behind = at < ranges_used && ranges[at].from == to;
  if (joins_before && joins_behind) {
    ranges[at - 1].to = ranges[at].to;
    move_ranges(at + 1, at);
  } else if (joins_before) {
    ranges[at - 1].to = to;
  } else if (joins_behind) {
    ranges[at].from = from;
  } else {
    if (ranges_used == RANGES) return 0;
    move_ranges(at, at + 1);
    ranges[at] = (struct range){from, to};
  }
  return 1;
}

/* ---- in place of the C library's functions -------------------------------------------------------------------- */

/* Until `end`, no other thread maps through us: an address that is given back is not handed out meanwhile. */
static int begin(void) {
  if (is_mapping || insitu_heap_is_off()) return 0;
  is_mapping = 1;
  pthread_mutex_lock(&mapping);
  return 1;
}

static void end(int64_t gone, int64_t come) {
  int saved = errno;
  pthread_mutex_unlock(&mapping);
  if (gone) insitu_heap_count(-gone, 0);
  if (come) insitu_heap_count(come, 1);
  is_mapping = 0;
  errno = saved;
}

static uintptr_t end_of(uintptr_t from, size_t bytes) {
  return from + ((bytes + page - 1) & ~(page - 1));
}

static void *count_mmap(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (!begin()) return next_mmap(wanted, bytes, protection, flags, file, offset);
  int64_t gone = 0, come = 0;
  void *found = next_mmap(wanted, bytes, protection, flags, file, offset);
  uintptr_t from = (uintptr_t)found, to = end_of(from, bytes);
  if (found != MAP_FAILED) {
    if (flags & MAP_FIXED) gone = uncover(from, to); /* what was there has made room */
    if (protection & PROT_WRITE && cover(from, to)) come = (int64_t)(to - from);
  }
  end(gone, come);
  return found;
}

static int count_munmap(void *block, size_t bytes) {
  if (!begin()) return next_munmap(block, bytes);
  int failed = next_munmap(block, bytes);
  end(failed ? 0 : uncover((uintptr_t)block, end_of((uintptr_t)block, bytes)), 0);
  return failed;
}

static void *count_mremap(void *block, size_t before, size_t bytes, int flags, void *wanted) {
  if (!begin()) return next_mremap(block, before, bytes, flags, wanted);
  int64_t gone = 0, come = 0;
  void *found = next_mremap(block, before, bytes, flags, wanted);
  uintptr_t from = (uintptr_t)found, to = end_of(from, bytes);
  if (found != MAP_FAILED) {
    gone = uncover((uintptr_t)block, end_of((uintptr_t)block, before));
    if (flags & MREMAP_FIXED) gone += uncover(from, to);
    if (gone && cover(from, to)) come = (int64_t)(to - from);
  }
  end(gone, come);
  return found;
}

/* ---- slots ---------------------------------------------------------------------------------------------------- */

static int patch_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *unused) {
  (void)unused;
  uintptr_t function = !strcmp(symbol, "mmap") || !strcmp(symbol, "mmap64") ? (uintptr_t)count_mmap
                       : !strcmp(symbol, "munmap")                          ? (uintptr_t)count_munmap
                       : !strcmp(symbol, "mremap")                          ? (uintptr_t)count_mremap
                                                                            : 0;
  if (function && *(uintptr_t *)slot && *(uintptr_t *)slot != function) insitu_image_patch(image, slot, function);
  return 0;
}

static int is_ours_or_the_allocators(const struct dl_phdr_info *object) {
  const char *name = strrchr(object->dlpi_name, '/');
  static const char *const parts[] = {"libc.so", "ld-linux", "linux-vdso", "libasan", "libtsan", "libubsan"};
  name = name ? name + 1 : object->dlpi_name;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strncmp(name, parts[i], strlen(parts[i])) == 0) return 1;
  Dl_info ours;
  const void *base = (const void *)object->dlpi_addr;
  return (dladdr((const void *)&page, &ours) && ours.dli_fbase == base) || insitu_heap_allocator() == base;
}

static int patch_object(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  struct insitu_image image;
  if (!is_ours_or_the_allocators(object) && insitu_image_read(object, &image))
    insitu_image_slots(&image, patch_slot, NULL);
  return 0;
}

static int count_loads(struct dl_phdr_info *object, size_t bytes, void *loads) {
  (void)bytes;
  *(unsigned long long *)loads = object->dlpi_adds;
  return 1;
}

void insitu_maps_patch(void) {
  static unsigned long long seen;
  unsigned long long loads = 0;
  if (!next_mmap) return;
  dl_iterate_phdr(count_loads, &loads);
  if (__atomic_exchange_n(&seen, loads, __ATOMIC_RELAXED) != loads) dl_iterate_phdr(patch_object, NULL);
}

void insitu_maps_start(void) {
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  next_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
  next_mremap = (void *(*)(void *, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
  if (next_munmap && next_mremap) next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  insitu_maps_patch();
}
