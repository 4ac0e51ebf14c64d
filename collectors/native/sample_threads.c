/* Threads that the program creates: each is sampled, below the function that created it. */
#define _GNU_SOURCE
#include "eh_frame.h"
#include "image.h"
#include "sample.h"
#include "table.h"
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define EXPORT __attribute__((visibility("default")))
#define STARTS 256u /* threads that are being started at a time; others are not sampled */

typedef int (*Create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static Create next_create; /* of the C library */

__attribute__((constructor)) static void find_next(void) {
  next_create = (Create)dlsym(RTLD_NEXT, "pthread_create");
}

/* What a new thread is to do. */
struct start {
  _Atomic int is_taken; /* acquire and release order the rest */
  uint32_t creator;     /* the row of the function that creates it */
  void *(*routine)(void *);
  void *argument;
};
static struct start starts[STARTS];

static void *begin(void *value) {
  struct start *start = value;
  void *(*routine)(void *) = start->routine, *argument = start->argument;
  insitu_thread_creator = start->creator;
  atomic_store_explicit(&start->is_taken, 0, memory_order_release);
  int saved = errno;
  if (insitu_sample_is_on()) insitu_sample_thread();
  errno = saved;
  return routine(argument);
}

static struct start *claim(void) {
  for (unsigned i = 0; i < STARTS; i++) {
    int free = 0;
    if (atomic_compare_exchange_strong_explicit(&starts[i].is_taken, &free, 1, memory_order_acquire,
                                                memory_order_relaxed))
      return &starts[i];
  }
  return NULL;
}

/* Whether a runtime of OpenMP calls. Its threads work for all parallel regions, not only for the first one. */
static int is_openmp(uintptr_t caller) {
  static const char *const runtimes[] = {"libgomp", "libomp.", "libomp-", "libiomp5"};
  struct insitu_object object;
  return insitu_object_find(caller, &object) &&
         insitu_image_has_prefix(object.name, runtimes, sizeof runtimes / sizeof *runtimes);
}

/* The row of the function that creates a thread. Where threads create threads, their rows would grow with each
 * generation: a function that an outer thread has called, too, stands for both. */
static uint32_t find_creator(struct insitu_thread *self, const uintptr_t *frame, uintptr_t caller) {
  struct insitu_region_call call = {0};
  if (self->overflow || is_openmp(caller)) return 0;
  uint32_t row = insitu_top(self)->row;
  if (insitu_is_unwound(self)) row = insitu_unwind_region(self, frame, &call);

  const struct insitu_row *rows = insitu_rows;
  while (rows[row].kind == INSITU_THREAD) row = rows[row].parent;
  uint64_t key = rows[row].key;
  int is_outside = 0;
  for (uint32_t at = rows[row].parent; at; at = rows[at].parent) {
    is_outside = is_outside || rows[at].kind == INSITU_THREAD;
    if (is_outside && rows[at].key == key) row = at;
  }
  return row;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                          void *argument) {
  if (!next_create) find_next(); /* called by the constructor of another library */
  if (!next_create) return EAGAIN;
  struct start *start = NULL;
  /* Threads of the MPI library say nothing of the program. */
  int is_wanted = insitu_is_unwinding || insitu_sample_is_on();
  int is_ours = insitu_is_on && is_wanted && !(insitu_self && insitu_self->in_mpi);
  struct insitu_thread *self = is_ours ? insitu_thread_self() : NULL;
  if (self) start = claim();
  if (!start) return next_create(thread, attributes, routine, argument);
  int saved = errno;
  start->creator = 0;
  if (insitu_is_unwinding)
    start->creator = find_creator(self, __builtin_frame_address(0), (uintptr_t)__builtin_return_address(0));
  errno = saved;
  start->routine = routine;
  start->argument = argument;
  int failed = next_create(thread, attributes, begin, start);
  if (failed) atomic_store_explicit(&start->is_taken, 0, memory_order_release);
  return failed;
}
