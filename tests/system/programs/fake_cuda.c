/* Stand-ins for the driver of CUDA and for CUPTI, for machines without a GPU: what they report is known. Compiled with
 * -DDRIVER to libcuda.so.1, otherwise to libcupti.so.13.
 *
 * The records are as CUPTI's headers declare them. FAKE_CUPTI=denied refuses, =dropping loses three records, and
 * =unrelated reports calls under other numbers than their records. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COPY = 1, MEMSET = 2, KERNEL = 10, MEMORY = 49, GRAPH = 51 };
typedef void (*Report)(int kind, const char *name, uint64_t start, uint64_t end, uint64_t bytes, uint32_t detail);

#ifdef DRIVER

static Report report;

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
  int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
  if (initialize) initialize();
  return 0;
}

void fake_set_report(Report function) {
  report = function;
}

/* What a GPU does. `detail` is the kind of a copy, or of an operation on memory. */
void fake_work(int kind, const char *name, uint64_t start, uint64_t end, uint64_t bytes, uint32_t detail) {
  if (report) report(kind, name, start, end, bytes, detail);
}

#else

#define CALLS 3 /* calls of the driver */

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

static const char *const calls[CALLS] = {"cuCtxCreate", "cuLaunchKernel", "cuMemcpyDtoH_v2"};
static Callback callback;
static Wanted wanted;
static Completed completed;
static int is_enabled[CALLS + 1], kinds[64], subscribers;
static unsigned char *buffer;
static size_t room, used;

static int is_set(const char *word) {
  const char *value = getenv("FAKE_CUPTI");
  return value && !strcmp(value, word);
}

static size_t bytes_of(int kind) {
  return kind == KERNEL ? 208 : kind == MEMORY ? 128 : kind == GRAPH ? 56 : 96;
}

static void put4(unsigned char *record, size_t at, uint32_t value) {
  memcpy(record + at, &value, sizeof value);
}

static void put8(unsigned char *record, size_t at, uint64_t value) {
  memcpy(record + at, &value, sizeof value);
}

int cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  if (buffer) completed(NULL, 0, buffer, room, used);
  buffer = NULL;
  return 0;
}

static void report(int kind, const char *name, uint64_t start, uint64_t end, uint64_t bytes, uint32_t detail) {
  static uint32_t number;
  uint32_t call = kind == KERNEL || kind == GRAPH ? 2 : 3;
  struct call_data data = {.function = calls[call - 1], .number = ++number};
  if (is_set("unrelated")) data.number += 1000000;
  if (kind != MEMORY && callback && is_enabled[call]) {
    callback(NULL, 1, call, &data);
    data.site = 1;
    callback(NULL, 1, call, &data);
  }
  if (!kinds[kind]) return;

  size_t size = bytes_of(kind), ignored;
  if (buffer && used + size > room) cuptiActivityFlushAll(0);
  if (!buffer) wanted(&buffer, &room, &ignored), used = 0;
  if (!buffer) return;
  unsigned char *record = buffer + used;
  memset(record, 0, size);
  put4(record, 0, (uint32_t)kind);
  if (kind == KERNEL) {
    put8(record, 16, start), put8(record, 24, end), put4(record, 92, number), put8(record, 104, (uintptr_t)name);
  } else if (kind == GRAPH) {
    put4(record, 4, number), put8(record, 8, start), put8(record, 16, end);
  } else if (kind == MEMORY) {
    put4(record, 4, detail), put4(record, 8, 3), put8(record, 24, bytes);
  } else {
    record[4] = (unsigned char)detail;
    put8(record, 8, bytes), put8(record, 16, start), put8(record, 24, end), put4(record, 44, number);
  }
  used += size;
}

int cuptiSubscribe(void **subscriber, Callback call, void *user) {
  (void)user;
  if (is_set("denied")) return 35;
  if (subscribers) return 39;
  subscribers = 1;
  callback = call;
  *subscriber = &subscribers;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void (*set_report)(Report) = (void (*)(Report))dlsym(driver, "fake_set_report");
  set_report(report);
  return 0;
}

int cuptiUnsubscribe(void *subscriber) {
  (void)subscriber;
  subscribers = 0;
  callback = NULL;
  return 0;
}

int cuptiEnableCallback(uint32_t is_on, void *subscriber, int domain, uint32_t call) {
  (void)subscriber, (void)domain;
  is_enabled[call] = (int)is_on;
  return 0;
}

int cuptiGetCallbackName(int domain, uint32_t call, const char **name) {
  (void)domain;
  if (call < 1 || call > CALLS) return 1;
  *name = calls[call - 1];
  return 0;
}

int cuptiGetResultString(int result, const char **text) {
  *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
  return 0;
}

int cuptiActivityRegisterCallbacks(Wanted request, Completed done) {
  wanted = request;
  completed = done;
  return 0;
}

int cuptiActivityEnable(int kind) {
  kinds[kind] = 1;
  return 0;
}

int cuptiActivityDisable(int kind) {
  kinds[kind] = 0;
  return 0;
}

int cuptiActivityGetNextRecord(unsigned char *records, size_t valid, unsigned char **record) {
  unsigned char *next = records;
  if (*record) {
    uint32_t kind;
    memcpy(&kind, *record, sizeof kind);
    next = *record + bytes_of((int)kind);
  }
  if (next >= records + valid) return 12;
  *record = next;
  return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
  (void)context, (void)stream;
  *dropped = is_set("dropping") ? 3 : 0;
  return 0;
}

int cuptiActivityFlushPeriod(uint32_t ms) {
  (void)ms;
  return 0;
}

#endif
