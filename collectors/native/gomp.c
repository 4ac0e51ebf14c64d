/* Parallel regions of GCC's OpenMP runtime, libgomp.
 *
 * libgomp has no interface for tools. The compiler turns a parallel region into a function and a call of GOMP_parallel,
 * which runs this function in every thread of the team. The slots of these calls are rewritten, as for MPI: each thread
 * runs the function through `run_share`. Barriers and waiting for tasks are calls as well. While a thread waits there,
 * libgomp gives it tasks; the functions of tasks get entries of ours, so that this time counts as work. */
#define _GNU_SOURCE
#include "gomp.h"

#include "table.h"
#include "teams.h"
#include "wrap.h"

#include <stdatomic.h>
#include <stdint.h>

typedef intptr_t A;
typedef void (*Share)(void *);

/* ---- the threads of a region ---------------------------------------------------------------------------------- */

struct share {
  void *first; /* GOMP_parallel_reductions reads the first word of the data */
  Share run;
  void *data;
  struct insitu_team *team;
};

static void run_share(void *value) {
  const struct share *share = value;
  insitu_team_join(share->team);
  share->run(share->data);
  insitu_team_wait();
}

/* Call `real` with a function of ours; `frame` is that of the wrapper. */
#define PARALLEL(call)                                                              \
  do {                                                                              \
    struct share share = {.run = run, .data = data};                                \
    share.team = insitu_team_begin((uintptr_t)run, "", __builtin_frame_address(0)); \
    if (share.team) data = &share, run = run_share;                                 \
    call;                                                                           \
    insitu_team_end(share.team);                                                    \
  } while (0)

static void (*real_parallel)(Share, void *, unsigned, unsigned);
static unsigned (*real_parallel_reductions)(Share, void *, unsigned, unsigned);
static void (*real_parallel_sections)(Share, void *, unsigned, unsigned, unsigned);

static void parallel(Share run, void *data, unsigned threads, unsigned flags) {
  PARALLEL(real_parallel(run, data, threads, flags));
}

static unsigned parallel_reductions(Share run, void *data, unsigned threads, unsigned flags) {
  unsigned used = 0;
  struct share share = {.first = *(void **)data, .run = run, .data = data};
  share.team = insitu_team_begin((uintptr_t)run, "", __builtin_frame_address(0));
  if (share.team) used = real_parallel_reductions(run_share, &share, threads, flags);
  else used = real_parallel_reductions(run, data, threads, flags);
  insitu_team_end(share.team);
  return used;
}

static void parallel_sections(Share run, void *data, unsigned threads, unsigned count, unsigned flags) {
  PARALLEL(real_parallel_sections(run, data, threads, count, flags));
}

/* Loops: start, end, increment, chunk size, flags. Those with a schedule that is chosen at run time have no chunk size,
 * and the last word means nothing. */
#define LOOPS(X)          \
  X(static)               \
  X(dynamic)              \
  X(guided)               \
  X(runtime)              \
  X(nonmonotonic_dynamic) \
  X(nonmonotonic_guided)  \
  X(nonmonotonic_runtime) \
  X(maybe_nonmonotonic_runtime)
#define X(schedule)                                                                               \
  static void (*real_loop_##schedule)(Share, void *, unsigned, A, A, A, A, A);                    \
  static void loop_##schedule(Share run, void *data, unsigned threads, A a, A b, A c, A d, A e) { \
    PARALLEL(real_loop_##schedule(run, data, threads, a, b, c, d, e));                            \
  }
LOOPS(X)
#undef X

/* ---- waiting -------------------------------------------------------------------------------------------------- */

#define WAITS(X)         \
  X(barrier)             \
  X(barrier_cancel)      \
  X(loop_end)            \
  X(loop_end_cancel)     \
  X(sections_end)        \
  X(sections_end_cancel) \
  X(taskwait)            \
  X(taskgroup_end)
/* The cancellable ones return whether the region was cancelled; what others leave in the register means nothing. */
#define X(call)                         \
  static A (*real_##call)(void);        \
  static A call(void) {                 \
    int is_change = insitu_team_wait(); \
    A result = real_##call();           \
    if (is_change) insitu_team_work();  \
    return result;                      \
  }
WAITS(X)
#undef X

/* ---- tasks ---------------------------------------------------------------------------------------------------- */

#define TASKS 64u /* functions of tasks; in regions that create others, work and waiting are not told apart */
static _Atomic(Share) tasks[TASKS];

static void run_task(Share run, void *data) {
  int is_change = insitu_team_work();
  run(data);
  if (is_change) insitu_team_wait();
}

/* Relaxed: libgomp's queue orders the entry before the task. */
#define ENTRY(i)                                                              \
  static void task_##i(void *data) {                                          \
    run_task(atomic_load_explicit(&tasks[0##i], memory_order_relaxed), data); \
  }
#define EIGHT(X, i) X(i##0) X(i##1) X(i##2) X(i##3) X(i##4) X(i##5) X(i##6) X(i##7)
#define ALL(X) EIGHT(X, 0) EIGHT(X, 1) EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7)
ALL(ENTRY) /* the numbers are octal */
#define NAME(i) task_##i,
static const Share entries[TASKS] = {ALL(NAME)};

/* Return the entry for the function of a task; the function itself if there is none left. */
static Share entry_for(Share run) {
  if (!insitu_is_on) return run;
  for (unsigned i = 0; i < TASKS; i++) {
    /* Relaxed: an entry never changes once it is set. */
    Share known = atomic_load_explicit(&tasks[i], memory_order_relaxed);
    if (!known &&
        atomic_compare_exchange_strong_explicit(&tasks[i], &known, run, memory_order_relaxed, memory_order_relaxed))
      known = run;
    if (known == run) return entries[i];
  }
  insitu_team_forget();
  return run;
}

typedef void (*Copy)(void *, void *);
static void (*real_task)(Share, void *, Copy, A, A, A, A, A, A, A);
static void (*real_taskloop)(Share, void *, Copy, A, A, A, A, A, A, A, A);
static void (*real_taskloop_ull)(Share, void *, Copy, A, A, A, A, A, A, A, A);

static void task(Share run, void *data, Copy copy, A bytes, A align, A condition, A flags, A depend, A priority,
                 A detach) {
  real_task(entry_for(run), data, copy, bytes, align, condition, flags, depend, priority, detach);
}

static void taskloop(Share run, void *data, Copy copy, A bytes, A align, A flags, A count, A priority, A start, A end,
                     A step) {
  real_taskloop(entry_for(run), data, copy, bytes, align, flags, count, priority, start, end, step);
}

static void taskloop_ull(Share run, void *data, Copy copy, A bytes, A align, A flags, A count, A priority, A start,
                         A end, A step) {
  real_taskloop_ull(entry_for(run), data, copy, bytes, align, flags, count, priority, start, end, step);
}

/* ---- slots ---------------------------------------------------------------------------------------------------- */

static const struct insitu_wrapper wrappers[] = {
    {"GOMP_parallel", &real_parallel, (void *)parallel},
    {"GOMP_parallel_reductions", &real_parallel_reductions, (void *)parallel_reductions},
    {"GOMP_parallel_sections", &real_parallel_sections, (void *)parallel_sections},
#define X(schedule) {"GOMP_parallel_loop_" #schedule, &real_loop_##schedule, (void *)loop_##schedule},
    LOOPS(X)
#undef X
#define X(call) {"GOMP_" #call, &real_##call, (void *)call},
        WAITS(X)
#undef X
            {"GOMP_task", &real_task, (void *)task},
    {"GOMP_taskloop", &real_taskloop, (void *)taskloop},
    {"GOMP_taskloop_ull", &real_taskloop_ull, (void *)taskloop_ull},
};

void insitu_gomp_patch(void) {
  static const char *const prefixes[] = {"libgomp"};
  static struct insitu_wrapped wrapped = {.patches = INSITU_WRAP_PATCHES,
                                          .prefixes = prefixes,
                                          .prefixes_count = 1,
                                          .names = "GOMP_",
                                          .wrappers = wrappers,
                                          .count = sizeof wrappers / sizeof *wrappers};
  insitu_wrap(&wrapped);
}
