/* Kernels, copies and memsets on GPUs of NVIDIA, through CUPTI's records of activity.
 *
 * When a program initialises CUDA, the driver asks the environment for a library of a tool, loads it and calls
 * InitializeInjection. annotations.c answers with the path of this library, so nothing happens in programs that use no
 * GPU. CUPTI is looked for then; it is part of every installation of CUDA and of PyTorch.
 *
 * CUPTI calls `on_call` at each call of the driver that launches something, and gives back buffers of records later, in
 * a thread of its own (cuda_records.c). Its interface has one user per process: if the program uses CUPTI itself, which
 * a profiler in it does, measuring ends.
 *
 * The declarations are those of CUPTI's documentation, so that no header is needed. */
#define _GNU_SOURCE
#include "cuda.h"

#include "cuda_records.h"
#include "table.h"
#include "unwind.h"
#include "wrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define BUFFER_BYTES (2u << 20)
#define BUFFERS 16u       /* that are kept */
#define FLUSH_MS 1000u    /* how old a record may get */
#define OLDEST 12         /* major version of CUPTI; cuda_records.c knows the records from then on */
#define LAST_CALL 4096u   /* no version has a call with such a number */
#define DRIVER_CALLS 1    /* CUPTI_CB_DOMAIN_DRIVER_API */
#define IS_BEFORE_CALL 0u /* CUPTI_API_ENTER */
#define FORCED 1u         /* CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: buffers that are not full, too */

/* The beginning of CUpti_CallbackData. */
struct call_data {
  uint32_t site;
  const char *function;
  const void *parameters;
  void *result;
  const char *symbol;
  void *context;
  uint32_t context_number;
  uint64_t *data;
  uint32_t number;
};
typedef void (*Callback)(void *user, int domain, uint32_t call, const struct call_data *data);
typedef void (*Wanted)(unsigned char **buffer, size_t *bytes, size_t *records);
typedef void (*Completed)(void *context, uint32_t stream, unsigned char *buffer, size_t bytes, size_t valid);

static struct {
  int (*cuptiSubscribe)(void **subscriber, Callback call, void *user);
  int (*cuptiUnsubscribe)(void *subscriber);
  int (*cuptiEnableCallback)(uint32_t is_on, void *subscriber, int domain, uint32_t call);
  int (*cuptiGetCallbackName)(int domain, uint32_t call, const char **name);
  int (*cuptiGetResultString)(int result, const char **text);
  int (*cuptiActivityRegisterCallbacks)(Wanted wanted, Completed completed);
  int (*cuptiActivityEnable)(int kind);
  int (*cuptiActivityDisable)(int kind);
  int (*cuptiActivityGetNextRecord)(unsigned char *buffer, size_t valid, unsigned char **record);
  int (*cuptiActivityGetNumDroppedRecords)(void *context, uint32_t stream, size_t *dropped);
  int (*cuptiActivityFlushAll)(uint32_t flag);
  int (*cuptiActivityFlushPeriod)(uint32_t ms);
} cupti;

static const char *const function_names[] = {"cuptiSubscribe",
                                             "cuptiUnsubscribe",
                                             "cuptiEnableCallback",
                                             "cuptiGetCallbackName",
                                             "cuptiGetResultString",
                                             "cuptiActivityRegisterCallbacks",
                                             "cuptiActivityEnable",
                                             "cuptiActivityDisable",
                                             "cuptiActivityGetNextRecord",
                                             "cuptiActivityGetNumDroppedRecords",
                                             "cuptiActivityFlushAll",
                                             "cuptiActivityFlushPeriod"};
_Static_assert(sizeof function_names / sizeof *function_names == sizeof cupti / sizeof(void *), "a name per function");

static const int kinds[] = {INSITU_CUDA_KERNEL,    INSITU_CUDA_COPY,   INSITU_CUDA_MEMSET,
                            INSITU_CUDA_PEER_COPY, INSITU_CUDA_MEMORY, INSITU_CUDA_GRAPH};

static int is_disabled;
static void *subscriber;
/* Whether records are read. Acquire and release order what the start prepared. */
static _Atomic int is_measuring;
/* Held while records are read, and while is_measuring changes. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static __thread int is_own_call; /* of CUPTI */

void insitu_cuda_disable(void) {
  is_disabled = 1;
}

int insitu_cuda_is_wanted(void) {
  return !is_disabled && insitu_is_on;
}

static void refuse(const char *reason) {
  char *refused = insitu_table->header->device_refused;
  if (!*refused) strncpy(refused, reason, sizeof insitu_table->header->device_refused - 1);
}

void insitu_cuda_has_other(void) {
  if (insitu_cuda_is_wanted()) refuse("CUDA_INJECTION64_PATH names another tool");
}

/* ---- launches ------------------------------------------------------------------------------------------------- */

static void on_call(void *user, int domain, uint32_t call, const struct call_data *data) {
  (void)user, (void)domain, (void)call;
  if (data->site != IS_BEFORE_CALL) return;
  struct insitu_thread *self = insitu_thread_self();
  if (!self || !self->depth) return;
  int saved = errno;
  uint32_t row = insitu_top(self)->row;
  if (insitu_is_unwinding && insitu_is_unwound(self)) row = insitu_unwind_caller(self, __builtin_frame_address(0));
  insitu_cuda_launched(data->number, row);
  errno = saved;
}

/* Calls that launch something, by how their names begin. */
static int is_launch(const char *name) {
  static const char *const prefixes[] = {"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset"};
  for (unsigned i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return 1;
  return 0;
}

static int enable_calls(void) {
  int failed = 0;
  for (uint32_t call = 1; call < LAST_CALL && !failed; call++) {
    const char *name = NULL;
    if (cupti.cuptiGetCallbackName(DRIVER_CALLS, call, &name) || !name) break;
    if (is_launch(name)) failed = cupti.cuptiEnableCallback(1, subscriber, DRIVER_CALLS, call);
  }
  return failed;
}

/* ---- buffers -------------------------------------------------------------------------------------------------- */

static _Atomic(unsigned char *) spare[BUFFERS];

static void on_buffer_wanted(unsigned char **buffer, size_t *bytes, size_t *records) {
  *records = 0; /* as many as fit */
  *bytes = BUFFER_BYTES;
  for (unsigned i = 0; i < BUFFERS; i++)
    if ((*buffer = atomic_exchange_explicit(&spare[i], NULL, memory_order_acquire))) return;
  void *fresh = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *buffer = fresh == MAP_FAILED ? NULL : fresh;
  if (!*buffer) *bytes = 0; /* CUPTI counts what it drops */
}

static void keep_buffer(unsigned char *buffer) {
  for (unsigned i = 0; i < BUFFERS; i++) {
    unsigned char *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&spare[i], &none, buffer, memory_order_release, memory_order_relaxed))
      return;
  }
  munmap(buffer, BUFFER_BYTES);
}

static void on_buffer_completed(void *context, uint32_t stream, unsigned char *buffer, size_t bytes, size_t valid) {
  (void)bytes;
  unsigned char *record = NULL;
  size_t dropped = 0;
  if (!buffer) return;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&reading);
  /* Relaxed: it only changes with the lock held. */
  if (insitu_is_on && atomic_load_explicit(&is_measuring, memory_order_relaxed)) {
    while (!cupti.cuptiActivityGetNextRecord(buffer, valid, &record)) insitu_cuda_record(record);
    if (!cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped))
      insitu_table->header->device_dropped += dropped;
  }
  pthread_mutex_unlock(&reading);
  insitu_restore_interrupts(&before);
  keep_buffer(buffer);
  errno = saved;
}

/* ---- the library ---------------------------------------------------------------------------------------------- */

/* Open libcupti `below` a folder, whose path has so many bytes. */
static void *open_in(const char *folder, size_t bytes, const char *below, int version) {
  char path[1280];
  int length = snprintf(path, sizeof path, "%.*s%s/libcupti.so.%d", (int)bytes, folder, below, version);
  return length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* The library that the program has loaded, the one beside the other libraries of CUDA that it has loaded, that of the
 * user's or the machine's installation, or one that the linker finds. */
static void *open_library(int version) {
  static const char *const own[] = {"libcupti.so"}, *const others[] = {"libcudart.so", "libnvrtc.so", "libcublas.so"};
  static const char *const below_others[] = {"", "/../../cuda_cupti/lib", "/../extras/CUPTI/lib64"};
  static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
  char path[INSITU_IMAGE_PATH];
  void *library = NULL;
  if (insitu_image_find(own, 1, path)) return dlopen(path, RTLD_NOW | RTLD_NOLOAD);

  const char *slash = insitu_image_find(others, 3, path) ? strrchr(path, '/') : NULL;
  for (unsigned i = 0; i < 3 && slash && !library; i++)
    library = open_in(path, (size_t)(slash - path), below_others[i], version);
  for (unsigned i = 0; i < 3 && !library; i++) {
    const char *home = getenv(homes[i]);
    if (home) library = open_in(home, strlen(home), "/extras/CUPTI/lib64", version);
  }
  if (!library) library = open_in("/usr/local/cuda", 15, "/extras/CUPTI/lib64", version);
  char name[32];
  snprintf(name, sizeof name, "libcupti.so.%d", version);
  return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* Find CUPTI's functions. A version works with all later drivers. */
static int find_functions(void) {
  int version = 0;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *library = NULL;
  int (*get_version)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
  if (!get_version || get_version(&version)) return 0;
  for (int major = version / 1000; major >= OLDEST && !library; major--) library = open_library(major);
  if (!library) return 0;

  void *functions[sizeof cupti / sizeof(void *)];
  for (unsigned i = 0; i < sizeof cupti / sizeof(void *); i++)
    if (!(functions[i] = dlsym(library, function_names[i]))) return 0;
  memcpy(&cupti, functions, sizeof cupti);
  return 1;
}

/* ---- beginning and end ---------------------------------------------------------------------------------------- */

/* Called with `is_own_call` set. Returns what CUPTI returns. */
static int start(void) {
  int failed = cupti.cuptiSubscribe(&subscriber, on_call, NULL);
  if (failed) return failed;
  failed = cupti.cuptiActivityRegisterCallbacks(on_buffer_wanted, on_buffer_completed);
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds && !failed; i++) failed = cupti.cuptiActivityEnable(kinds[i]);
  if (!failed) failed = enable_calls();
  if (failed) {
    cupti.cuptiUnsubscribe(subscriber);
    return failed;
  }
  cupti.cuptiActivityFlushPeriod(FLUSH_MS);
  return 0;
}

static void set_measuring(int is_on) {
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&reading);
  /* Release: whoever sees it off finds the last record counted. */
  atomic_store_explicit(&is_measuring, is_on, memory_order_release);
  pthread_mutex_unlock(&reading);
  insitu_restore_interrupts(&before);
}

void insitu_cuda_end(void) {
  if (!atomic_load_explicit(&is_measuring, memory_order_acquire) || !insitu_is_owner()) return;
  int saved = errno;
  is_own_call = 1;
  cupti.cuptiActivityFlushAll(FORCED);
  is_own_call = 0;
  set_measuring(0);
  errno = saved;
}

/* The driver calls this function when the program initialises CUDA. What it returns does not matter. Threads that CUPTI
 * starts inherit the mask of signals, so they handle none of the program's. */
EXPORT int InitializeInjection(void) {
  if (!insitu_cuda_is_wanted() || !insitu_is_owner()) return 1;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  const char *reason = "no libcupti was found that is from CUDA 12 on and no newer than the driver";
  is_own_call = 1;
  if (find_functions()) {
    reason = "there is no memory";
    int failed = insitu_cuda_records_start() ? start() : -1;
    if (failed > 0 && cupti.cuptiGetResultString(failed, &reason)) reason = "CUPTI does not start";
    /* Handlers of exit run in reverse order: this one before those of CUPTI and of the driver. */
    if (!failed && !atexit(insitu_cuda_end)) {
      set_measuring(1);
      reason = NULL;
    }
  }
  if (reason) refuse(reason);
  is_own_call = 0;
  insitu_restore_interrupts(&before);
  errno = saved;
  return 1;
}

/* ---- programs that use CUPTI ---------------------------------------------------------------------------------- */

/* The program begins to use CUPTI, which serves one at a time: leave it to the program. */
static void give_up(void) {
  if (is_own_call || !insitu_is_on || !atomic_load_explicit(&is_measuring, memory_order_acquire)) return;
  int saved = errno;
  refuse("the program uses CUPTI itself, as profilers do; what it did until then is counted");
  insitu_cuda_end();
  is_own_call = 1;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) cupti.cuptiActivityDisable(kinds[i]);
  cupti.cuptiUnsubscribe(subscriber);
  is_own_call = 0;
  errno = saved;
}

typedef int (*Call)(void *, void *, void *, void *);
#define GIVES_UP(name)                                                    \
  static Call real_##name;                                                \
  static int wrap_##name(void *one, void *two, void *three, void *four) { \
    give_up();                                                            \
    return real_##name(one, two, three, four);                            \
  }
GIVES_UP(cuptiSubscribe)
GIVES_UP(cuptiSubscribe_v2)
GIVES_UP(cuptiActivityRegisterCallbacks)
GIVES_UP(cuptiActivityRegisterCallbacks_v2)
#define WRAPPER(name) {#name, &real_##name, (void *)wrap_##name}

void insitu_cuda_patch(void) {
  static const char *const prefixes[] = {"libcupti.so"};
  static const struct insitu_wrapper wrappers[] = {WRAPPER(cuptiSubscribe), WRAPPER(cuptiSubscribe_v2),
                                                   WRAPPER(cuptiActivityRegisterCallbacks),
                                                   WRAPPER(cuptiActivityRegisterCallbacks_v2)};
  static struct insitu_wrapped wrapped = {.patches = INSITU_WRAP_PATCHES,
                                          .prefixes = prefixes,
                                          .prefixes_count = 1,
                                          .names = "cupti",
                                          .wrappers = wrappers,
                                          .count = sizeof wrappers / sizeof *wrappers};
  if (!is_disabled) insitu_wrap(&wrapped);
}
