/* Heap memory per call path: wrappers of the malloc family, which count and call the allocator.
 *
 * In a preloaded library these names precede those of the allocator. Calls go on to the next definition, which is that
 * of jemalloc or tcmalloc if the program uses one. If the library is loaded without LD_PRELOAD nobody calls them, and
 * the heap is not measured. Blocks get no header: malloc_usable_size gives their size when they are allocated and when
 * they are freed. */
#define _GNU_SOURCE
#include "heap.h"

#include "table.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)
#define BATCH (64 << 10) /* bytes that a thread may leave pending: the peak is exact to 64 KiB per thread */
/* Bytes from which the stack is read for the function that allocates or frees a block. Writing to a block of a page
 * takes longer than reading a stack that was seen before, and laws of memory concern large blocks. */
#define LARGE 4096

/* Both are accessed relaxed: they are sums and maxima of single values, and no other data depends on them. */
static _Atomic int64_t live; /* bytes of the process, without those that are pending in its threads */
static _Atomic int64_t peak; /* since the last insitu_heap_live */
static __thread int64_t pending;
static int is_off;

/* ---- the allocator -------------------------------------------------------------------------------------------- */

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void first_free(void *);
static size_t no_size(void *block) {
  (void)block;
  return 0;
}

/* Initially these point to functions that find the allocator; from then on to the allocator itself. */
static void *(*next_malloc)(size_t) = first_malloc;
static void *(*next_calloc)(size_t, size_t) = first_calloc;
static void *(*next_realloc)(void *, size_t) = first_realloc;
static void (*next_free)(void *) = first_free;
static size_t (*next_size)(void *) = no_size;
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t), *(*next_memalign)(size_t, size_t);
static void *(*next_valloc)(size_t), *(*next_pvalloc)(size_t);

/* Finding the allocator may itself allocate (dlsym of older glibc). Such blocks come from here and are never freed. */
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

static void find_allocator(void) {
  if (is_looking) return;
  is_looking = 1;
  int saved = errno;
  void *(*next)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
  next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
  next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
  next_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  next_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  next_memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
  next_valloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "valloc");
  next_pvalloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "pvalloc");
  next_malloc = next; /* last: until now malloc was served from the arena */
  errno = saved;
}

static void *first_malloc(size_t bytes) {
  if (is_looking) return arena_block(bytes);
  find_allocator();
  return next_malloc(bytes);
}

static void *first_calloc(size_t count, size_t bytes) {
  if (is_looking) return arena_block(count * bytes); /* fresh static memory is zero */
  find_allocator();
  return next_calloc(count, bytes);
}

static void *first_realloc(void *block, size_t bytes) {
  if (is_looking) return NULL;
  find_allocator();
  return next_realloc(block, bytes);
}

static void first_free(void *block) {
  find_allocator();
  next_free(block);
}

/* ---- counting ------------------------------------------------------------------------------------------------- */

static void flush(void) {
  atomic_fetch_add_explicit(&live, pending, memory_order_relaxed);
  pending = 0;
}

/* Threads without an area in the table, such as those started by libraries: each uses a row of its own while it lives,
 * which has heap metrics and no time. */
#define OTHERS 256
static struct {
  uint32_t row;
  int is_taken;
} others[OTHERS];
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;
/* Calls a function at the end of this thread (glibc 2.18). A key of thread-specific data only where it is missing: a
 * thread that a second C library (dlmopen) has started, and for which the dynamic linker allocates here, shares its
 * memory with the keys of that one. */
static int (*at_thread_end)(void (*)(void *), void *, void *);
static pthread_key_t leaving;
static __thread struct insitu_row *own;
static __thread int has_claimed;

static void release(void *is_taken);

static struct insitu_row *claim(void) {
  if (has_claimed) return own;
  has_claimed = 1; /* what insitu_row_add allocates counts for the process only */
  size_t at = 0;
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&claiming);
  while (at < OTHERS && others[at].is_taken) at++;
  if (at < OTHERS && !others[at].row) others[at].row = insitu_row_add(0, 0, INSITU_THREAD, "(thread)", 8, "", 0, 0);
  if (at < OTHERS && others[at].row) {
    others[at].is_taken = 1;
    own = &insitu_table->rows[others[at].row];
  }
  pthread_mutex_unlock(&claiming);
  insitu_restore_interrupts(&before);
  if (own && at_thread_end) at_thread_end(release, &others[at].is_taken, others); /* allocates: the row is claimed */
  else if (own) pthread_setspecific(leaving, &others[at].is_taken);
  return own;
}

static void release(void *is_taken) {
  own = NULL;
  flush();
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&claiming);
  *(int *)is_taken = 0;
  pthread_mutex_unlock(&claiming);
  insitu_restore_interrupts(&before);
}

/* A thread ends: add its pending bytes to the total of the process. From here on it has no row. */
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

/* Block sizes are queried from here on, not earlier: an allocator that is still initialising (as those of sanitizers do
 * for long) may crash. malloc_usable_size must come from the allocator that creates and frees the blocks. A library
 * that defines one of malloc and free only, such as that of OpenFOAM, which fills new blocks, passes calls on to it. */
__attribute__((constructor)) static void prepare(void) {
  insitu_before_thread_ends = end_thread;
  find_allocator();
  size_t (*size)(void *) = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  const void *allocator = object_of((const void *)size);
  if (allocator &&
      (allocator == object_of((const void *)next_malloc) || allocator == object_of((const void *)next_free)))
    next_size = size;
  at_thread_end = (int (*)(void (*)(void *), void *, void *))dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
  if (!at_thread_end && pthread_key_create(&leaving, release)) is_off = 1;
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

int64_t insitu_heap_live(int64_t *peak_since) {
  int64_t now = atomic_load_explicit(&live, memory_order_relaxed) + pending;
  *peak_since = atomic_exchange_explicit(&peak, now, memory_order_relaxed);
  return now;
}

void insitu_heap_stop(void) {
  is_off = 1;
}

/* The row of the function that called the wrapper with this frame, in a program that was not built for it. */
static __attribute__((noinline)) struct insitu_row *find_caller(const void *frame) {
  static __thread int is_finding;
  uint32_t row = insitu_top(insitu_self)->row;
  if (!is_finding && insitu_is_unwound(insitu_self)) { /* the first search of a thread may allocate */
    int saved = errno;
    is_finding = 1;
    struct insitu_region_call call = {0}; /* a stack that cannot be read, as in the dynamic linker, is no finding */
    row = insitu_unwind_region(insitu_self, frame, &call);
    is_finding = 0;
    errno = saved;
  }
  return &insitu_table->rows[row];
}

/* Count bytes that are allocated (positive) or freed (negative) in the running call path. Before the start of the
 * measurement, and in threads without a row, only the total of the process is updated. `frame` is that of the wrapper,
 * NULL if there is none. */
static inline __attribute__((always_inline)) void count(int64_t bytes, int is_allocation, const void *frame) {
  if (__builtin_expect(is_off, 0)) return;
  pending += bytes;
  struct insitu_row *row = NULL;
  if (__builtin_expect(insitu_is_on, 1)) {
    if (__builtin_expect(insitu_self == NULL, 0)) row = claim();
    else if (__builtin_expect(insitu_is_unwinding && frame && (bytes >= LARGE || bytes <= -LARGE), 0))
      row = find_caller(frame);
    else row = &insitu_table->rows[insitu_top(insitu_self)->row];
  }
  if (__builtin_expect(!row, 0)) {
    flush(); /* the end of such a thread goes unnoticed */
    return;
  }
  row->heap_growth += (uint64_t)bytes;
  if (is_allocation) {
    row->allocations++;
    row->bytes_allocated += (uint64_t)bytes;
    /* Relaxed: the bytes of other threads are only known up to what is pending there. */
    int64_t now = atomic_load_explicit(&live, memory_order_relaxed) + pending;
    if (now > (int64_t)row->heap_peak) row->heap_peak = (uint64_t)now;
    if (now > atomic_load_explicit(&peak, memory_order_relaxed))
      atomic_store_explicit(&peak, now, memory_order_relaxed);
  }
  if (__builtin_expect((uint64_t)(pending + BATCH) > 2 * BATCH, 0)) flush();
}

void insitu_heap_count(int64_t bytes, int is_allocation) {
  count(bytes, is_allocation, NULL);
}

int insitu_heap_is_off(void) {
  return is_off;
}

const void *insitu_heap_allocator(void) {
  if (next_malloc == first_malloc) find_allocator();
  return object_of((const void *)next_malloc);
}

static inline __attribute__((always_inline)) void *count_block(void *block, const void *frame) {
  if (__builtin_expect(block != NULL && !is_off, 1)) count((int64_t)next_size(block), 1, frame);
  return block;
}

/* ---- the functions that programs call ------------------------------------------------------------------------- */

EXPORT void *malloc(size_t bytes) {
  return count_block(next_malloc(bytes), FRAME);
}

EXPORT void *calloc(size_t number, size_t bytes) {
  return count_block(next_calloc(number, bytes), FRAME);
}

EXPORT void free(void *block) {
  if (!block || __builtin_expect(is_in_arena(block), 0)) return;
  if (__builtin_expect(!is_off, 1)) count(-(int64_t)next_size(block), 0, FRAME);
  next_free(block);
}

/* Counts as freeing the old block and allocating the new one. */
EXPORT void *realloc(void *block, size_t bytes) {
  if (__builtin_expect(is_in_arena(block), 0)) {
    void *moved = malloc(bytes);
    size_t there = (size_t)(arena + sizeof arena - (char *)block);
    if (moved) memcpy(moved, block, bytes < there ? bytes : there);
    return moved;
  }
  int64_t before = block && !is_off ? (int64_t)next_size(block) : 0;
  void *moved = next_realloc(block, bytes);
  if (moved || !bytes) count(-before, 0, FRAME); /* else it failed, and the block still exists */
  return count_block(moved, FRAME);
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
  if (__builtin_expect(!next_posix_memalign, 0)) find_allocator();
  int failed = next_posix_memalign(block, alignment, bytes);
  if (!failed) count_block(*block, FRAME);
  return failed;
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  if (__builtin_expect(!next_aligned_alloc, 0)) find_allocator();
  return count_block(next_aligned_alloc(alignment, bytes), FRAME);
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  if (__builtin_expect(!next_memalign, 0)) find_allocator();
  return count_block(next_memalign(alignment, bytes), FRAME);
}

EXPORT void *valloc(size_t bytes) {
  if (__builtin_expect(!next_valloc, 0)) find_allocator();
  return count_block(next_valloc(bytes), FRAME);
}

EXPORT void *pvalloc(size_t bytes) {
  if (__builtin_expect(!next_pvalloc, 0)) find_allocator();
  return count_block(next_pvalloc(bytes), FRAME);
}
