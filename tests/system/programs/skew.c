/* Preloaded: the clocks of another node. Its monotonic clock is SKEW_OFFSET seconds ahead and runs faster by the share
 * SKEW_RATE, and the kernel does not use the time stamp counter. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double number(const char *name) {
  const char *text = getenv(name);
  return text ? atof(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = (int)syscall(SYS_clock_gettime, clock, time);
  if (failed || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_RAW)) return failed;
  long double now = (long double)time->tv_sec + 1e-9L * (long double)time->tv_nsec;
  now += number("SKEW_OFFSET") + now * number("SKEW_RATE");
  time->tv_sec = (time_t)now;
  time->tv_nsec = (long)((now - (long double)time->tv_sec) * 1e9L);
  return 0;
}

/* Python sleeps until a time of the clock above. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *rest) {
  struct timespec kernels = *until;
  if ((flags & TIMER_ABSTIME) && clock == CLOCK_MONOTONIC) {
    long double at = (long double)until->tv_sec + 1e-9L * (long double)until->tv_nsec;
    at = (at - number("SKEW_OFFSET")) / (1 + number("SKEW_RATE"));
    kernels.tv_sec = (time_t)at;
    kernels.tv_nsec = (long)((at - (long double)kernels.tv_sec) * 1e9L);
  }
  return syscall(SYS_clock_nanosleep, clock, flags, &kernels, rest) ? errno : 0;
}

int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if (strstr(path, "current_clocksource")) path = "/dev/null";
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
