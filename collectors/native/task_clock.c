/* The kernel's task clock (`perf_event_open`, PERF_COUNT_SW_TASK_CLOCK).
 *
 * It has a precise timer, while timers of CPU time are looked at when the kernel ticks. Samples in the kernel are
 * excluded: users may take the others (perf_event_paranoid up to 2), and a signal that is sent while a thread runs
 * code of its own interrupts no system call.
 *
 * The event lives as long as its page is mapped, so its descriptor is closed at once: programs close descriptors that
 * they do not know, and compare lists of them. */
#define _GNU_SOURCE
#include "task_clock.h"

#include "interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static int open_event(int64_t interval_ns) {
  struct perf_event_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = PERF_ATTR_SIZE_VER1; /* known to every kernel */
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.sample_period = (uint64_t)interval_ns;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The kernel's calls: the program may define functions with the names of the C library's. */
static int set_signal(int file, int number) {
  const struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
  return !syscall(SYS_fcntl, file, F_SETOWN_EX, &owner) && !syscall(SYS_fcntl, file, F_SETSIG, number) &&
         !syscall(SYS_fcntl, file, F_SETFL, O_ASYNC | O_NONBLOCK) &&
         !syscall(SYS_ioctl, file, PERF_EVENT_IOC_ENABLE, 0);
}

int insitu_task_clock_start(struct insitu_task_clock *clock, int number, int64_t interval_ns) {
  if (!insitu_descriptor_begins()) return 0;
  int file = open_event(interval_ns), is_running = 0;
  if (file >= 0) {
    /* One page, which describes the event. Further ones would hold samples, which nobody needs. */
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    clock->number = file + 1;
    is_running = page != MAP_FAILED && set_signal(file, number);
    if (is_running) atomic_store(&clock->page, page);
    else if (page != MAP_FAILED) munmap(page, PAGE);
    syscall(SYS_close, file);
  }
  insitu_descriptor_ends();
  return is_running;
}

int insitu_task_clock_stop(struct insitu_task_clock *clock) {
  void *page = atomic_exchange(&clock->page, NULL);
  return page && !munmap(page, PAGE);
}

int insitu_task_clock_sent(const struct insitu_task_clock *clock, const siginfo_t *info) {
  return clock->number && info->si_code == POLL_IN && info->si_fd == clock->number - 1;
}
