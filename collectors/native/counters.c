/* Hardware counters of the process, if the kernel permits them: instructions and cycles in user space.
 *
 * The application may close or reuse any descriptor. Ours have high numbers, and before each reading their event's id
 * tells whether they are still ours. */
#define _GNU_SOURCE
#include "counters.h"

#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS 2
#define ENOUGH_DESCRIPTORS 256 /* a program that may have fewer needs them itself */

static const uint64_t events[EVENTS] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES};
static int files[EVENTS] = {-1, -1};
static uint64_t ids[EVENTS];

static int open_event(uint64_t event) {
  struct perf_event_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = PERF_ATTR_SIZE_VER1; /* known to every kernel */
  attributes.config = event;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void insitu_counters_start(void) {
  int saved = errno;
  struct rlimit limit;
  if (files[0] < 0 && !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur >= ENOUGH_DESCRIPTORS) {
    for (int i = 0; i < EVENTS; i++) {
      int file = open_event(events[i]);
      if (file < 0) continue;
      files[i] = fcntl(file, F_DUPFD_CLOEXEC, (int)(limit.rlim_cur > 65536 ? 65536 : limit.rlim_cur) - 16);
      close(file);
      if (files[i] >= 0 && ioctl(files[i], PERF_EVENT_IOC_ID, &ids[i])) ids[i] = 0;
    }
  }
  errno = saved;
}

/* Events share the counters of the processor. One that was counted only part of the time is extrapolated. */
static uint64_t read_event(int i) {
  struct {
    uint64_t count, enabled, running;
  } reading;
  uint64_t id = 0;
  if (files[i] < 0 || ioctl(files[i], PERF_EVENT_IOC_ID, &id) || !id || id != ids[i]) return 0;
  if (read(files[i], &reading, sizeof reading) != (ssize_t)sizeof reading || !reading.running) return 0;
  if (reading.running == reading.enabled) return reading.count;
  return (uint64_t)((unsigned __int128)reading.count * reading.enabled / reading.running);
}

void insitu_counters_read(uint64_t counts[2]) {
  int saved = errno;
  for (int i = 0; i < EVENTS; i++) counts[i] = read_event(i);
  errno = saved;
}

void insitu_counters_end(void) {
  uint64_t counts[EVENTS];
  insitu_counters_read(counts);
  insitu_table->header->instructions = counts[0];
  insitu_table->header->cycles = counts[1];
}
