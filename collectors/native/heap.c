/* The malloc family, counted on its way to the allocator: what a call path allocates, keeps, and the most that was
 * live.
 *
 * Preloaded, these names come before the allocator's own; calls go on to the next definition, which is the program's
 * jemalloc or tcmalloc where it has one. Loaded without LD_PRELOAD nobody calls them, and the heap is not measured.
 * Blocks get no header: their size is what malloc_usable_size says, when they come and when they go. */
#define _GNU_SOURCE
#include "heap.h"

#include "table.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define BATCH (64 << 10) /* bytes that a thread may keep to itself: the peak is exact to threads x 64 KiB */

static _Atomic int64_t live; /* bytes of the process, up to what threads have pending */
static _Atomic int64_t most; /* since insitu_heap_live was asked */
static __thread int64_t pending;
static int is_off;

/* ---- the allocator behind us ---------------------------------------------------------------------------------- */

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void first_free(void *);
static size_t no_size(void *block) {
  (void)block;
  return 0;
}

/* Until the first call has looked for the allocator, these look for it; afterwards nothing asks again. */
static void *(*next_malloc)(size_t) = first_malloc;
static void *(*next_calloc)(size_t, size_t) = first_calloc;
static void *(*next_realloc)(void *, size_t) = first_realloc;
static void (*next_free)(void *) = first_free;
static size_t (*next_size)(void *) = no_size;
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t), *(*next_memalign)(size_t, size_t);
static void *(*next_valloc)(size_t), *(*next_pvalloc)(size_t);

/* Looking for the allocator may itself allocate (dlsym of an older glibc): that comes from here and is never freed. */
static _Alignas(16) char arena[4096];
static size_t arena_used;
static int is_looking;

static int is_in_arena(const void *block) {
  return (uintptr_t)block - (uintptr_t)arena < sizeof arena;
}

static void *arena_block(size_t bytes) {
  size_t at = arena_used;
  if (bytes > sizeof arena - at) return NULL;
  arena_used = (at + bytes + 15) & ~(size_t)15;
  return arena + at;
}

static void look(void) {
  if (is_looking) return;
  is_looking = 1;
  int saved = errno;
  void *(*found)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
  next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
  next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  next_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  next_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  next_memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
  next_valloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "valloc");
  next_pvalloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "pvalloc");
  next_malloc = found;
  errno = saved;
}

static void *first_malloc(size_t bytes) {
  if (is_looking) return arena_block(bytes);
  look();
  return next_malloc(bytes);
}

static void *first_calloc(size_t count, size_t bytes) {
  if (is_looking) return arena_block(count * bytes); /* never used before: it is zero */
  look();
  return next_calloc(count, bytes);
}

static void *first_realloc(void *block, size_t bytes) {
  if (is_looking) return NULL;
  look();
  return next_realloc(block, bytes);
}

static void first_free(void *block) {
  look();
  next_free(block);
}

/* ---- counting ------------------------------------------------------------------------------------------------- */

static void flush(void) {
  atomic_fetch_add_explicit(&live, pending, memory_order_relaxed);
  pending = 0;
}

/* Threads in which nothing but the heap is recorded, such as libraries start: each has a row while it lives, and no
 * time. */
#define OTHERS 256
static struct {
  uint32_t row;
  int is_taken;
} others[OTHERS];
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t leaving;
static __thread struct insitu_row *own;
static __thread int has_claimed;

static struct insitu_row *claim(void) {
  if (has_claimed) return own;
  has_claimed = 1; /* what is allocated below counts for the process only */
  size_t at = 0;
  pthread_mutex_lock(&claiming);
  while (at < OTHERS && others[at].is_taken) at++;
  if (at < OTHERS && !others[at].row) others[at].row = insitu_row_add(0, 0, INSITU_THREAD, "(thread)", 8, "", 0, 0);
  if (at < OTHERS && others[at].row) {
    others[at].is_taken = 1;
    own = &insitu_table->rows[others[at].row];
  }
  pthread_mutex_unlock(&claiming);
  if (own) pthread_setspecific(leaving, &others[at].is_taken);
  return own;
}

static void release(void *is_taken) {
  own = NULL;
  flush();
  pthread_mutex_lock(&claiming);
  *(int *)is_taken = 0;
  pthread_mutex_unlock(&claiming);
}

/* The calling thread ends: add what it has not yet reported to the total of the process. */
static void end_thread(void) {
  has_claimed = 1;
  flush();
}

static void after_fork_in_child(void) {
  is_off = 1;
}

static const void *object_of(const void *function) {
  Dl_info info;
  return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* Sizes are asked from here on: an allocator that is still being set up (a sanitizer's is, for long) cannot tell, and
 * of others than the one that makes the blocks nobody knows what they would say. */
__attribute__((constructor)) static void prepare(void) {
  insitu_before_thread_ends = end_thread;
  look();
  size_t (*size)(void *) = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  const void *object = object_of((const void *)next_malloc);
  if (object && object == object_of((const void *)next_free) && object == object_of((const void *)size))
    next_size = size;
  if (pthread_key_create(&leaving, release)) is_off = 1;
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

int64_t insitu_heap_live(int64_t *most_since) {
  int64_t now = atomic_load_explicit(&live, memory_order_relaxed) + pending;
  *most_since = atomic_exchange_explicit(&most, now, memory_order_relaxed);
  return now;
}

void insitu_heap_stop(void) {
  is_off = 1;
}

/* Bytes that come (positive) or go, in the call path that runs. Before the start, and in threads for which there is no
 * row, only the process's total is kept. */
static inline void count(int64_t bytes, int is_allocation) {
  if (__builtin_expect(is_off, 0)) return;
  pending += bytes;
  struct insitu_row *row = NULL;
  if (__builtin_expect(insitu_is_on, 1))
    row = __builtin_expect(insitu_self != NULL, 1) ? &insitu_table->rows[insitu_top(insitu_self)->row] : claim();
  if (__builtin_expect(!row, 0)) {
    flush(); /* such a thread may end at any time */
    return;
  }
  row->heap_growth += (uint64_t)bytes;
  if (is_allocation) {
    row->allocations++;
    row->bytes_allocated += (uint64_t)bytes;
    /* Relaxed: other threads' bytes are an estimate anyway, by what they have pending. */
    int64_t now = atomic_load_explicit(&live, memory_order_relaxed) + pending;
    if (now > (int64_t)row->heap_peak) row->heap_peak = (uint64_t)now;
    if (now > atomic_load_explicit(&most, memory_order_relaxed))
      atomic_store_explicit(&most, now, memory_order_relaxed);
  }
  if (__builtin_expect((uint64_t)(pending + BATCH) > 2 * BATCH, 0)) flush();
}

void insitu_heap_count(int64_t bytes, int is_allocation) {
  count(bytes, is_allocation);
}

int insitu_heap_is_off(void) {
  return is_off;
}

const void *insitu_heap_allocator(void) {
  if (next_malloc == first_malloc) look();
  return object_of((const void *)next_malloc);
}

static inline void *came(void *block) {
  if (__builtin_expect(block != NULL && !is_off, 1)) count((int64_t)next_size(block), 1);
  return block;
}

/* ---- the names that programs call ----------------------------------------------------------------------------- */

EXPORT void *malloc(size_t bytes) {
  return came(next_malloc(bytes));
}

EXPORT void *calloc(size_t number, size_t bytes) {
  return came(next_calloc(number, bytes));
}

EXPORT void free(void *block) {
  if (!block || __builtin_expect(is_in_arena(block), 0)) return;
  if (__builtin_expect(!is_off, 1)) count(-(int64_t)next_size(block), 0);
  next_free(block);
}

/* A block that grows is one that goes and one that comes. */
EXPORT void *realloc(void *block, size_t bytes) {
  if (__builtin_expect(is_in_arena(block), 0)) {
    void *moved = malloc(bytes);
    size_t there = (size_t)(arena + sizeof arena - (char *)block);
    if (moved) memcpy(moved, block, bytes < there ? bytes : there);
    return moved;
  }
  int64_t before = block && !is_off ? (int64_t)next_size(block) : 0;
  void *moved = next_realloc(block, bytes);
  if (moved || !bytes) count(-before, 0); /* else it failed, and the block is still there */
  return came(moved);
}

EXPORT void *reallocarray(void *block, size_t number, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(number, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, all);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (__builtin_expect(!next_posix_memalign, 0)) look();
  int failed = next_posix_memalign(block, alignment, bytes);
  if (!failed) came(*block);
  return failed;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  if (__builtin_expect(!next_aligned_alloc, 0)) look();
  return came(next_aligned_alloc(alignment, bytes));
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  if (__builtin_expect(!next_memalign, 0)) look();
  return came(next_memalign(alignment, bytes));
}

EXPORT void *valloc(size_t bytes) {
  if (__builtin_expect(!next_valloc, 0)) look();
  return came(next_valloc(bytes));
}

EXPORT void *pvalloc(size_t bytes) {
  if (__builtin_expect(!next_pvalloc, 0)) look();
  return came(next_pvalloc(bytes));
}
