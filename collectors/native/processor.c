/* Processor time of the process, how many of its threads used it, and how long it waited for a processor.
 *
 * Other programs on the node, or more ranks than cores, make a rank wait for a processor, which times alone show as a
 * slow function or as waiting for others. The kernel counts it for each thread.
 *
 * Threads of a library that sleep use no core, so a thread counts if it ran for at least a third of the time of the
 * busiest one. Threads that have ended before are not seen. Nothing is allocated: the process may be ending in a signal
 * handler. */
#define _GNU_SOURCE
#include "processor.h"

#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 512  /* whose time is compared; a rank with more counts as one with so many */
#define BUSY_SHARE 3 /* a busy thread has at least this fraction of the busiest; workers of a BLAS spin at start */

struct entry { /* linux_dirent64 */
  uint64_t inode;
  int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[];
};

static uint64_t queued_at_init;

uint64_t insitu_processor_ns(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now)) return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time of a thread on processors in nanoseconds, 0 if the kernel does not say it. */
static uint64_t thread_ns(const char *thread) {
  char path[64], text[128];
  size_t bytes = strlen(thread);
  if (bytes > 20) return 0;
  char *end = stpcpy(path, "/proc/self/task/");
  end = stpcpy(end, thread);
  stpcpy(end, "/schedstat");
  return insitu_read_file(path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

static uint32_t count_busy_threads(void) {
  uint64_t times[THREADS], most = 0;
  uint32_t count = 0, busy = 0;
  _Alignas(8) char buffer[4096];
  struct insitu_interrupts before = insitu_block_interrupts();
  int folder = insitu_open_hidden("/proc/self/task", O_RDONLY | O_DIRECTORY);

  long bytes;
  while (folder >= 0 && count < THREADS && (bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < bytes && count < THREADS;) {
      const struct entry *entry = (const struct entry *)(buffer + at);
      at += entry->bytes;
      if (entry->name[0] == '.') continue;
      times[count] = thread_ns(entry->name);
      if (times[count] > most) most = times[count];
      count++;
    }
  }
  if (folder >= 0) insitu_close_hidden(folder);
  insitu_restore_interrupts(&before);

  for (uint32_t i = 0; i < count; i++)
    if (most && times[i] >= most / BUSY_SHARE) busy++;
  return busy;
}

/* Read how long the main thread was ready to run but on no processor so far. Returns 0 if the kernel does not say it.
 */
static int read_main_queued(uint64_t *queued) {
  char text[128], *end;
  int error = errno;
  size_t length = insitu_read_file("/proc/self/schedstat", text, sizeof text);
  if (length) {
    strtoull(text, &end, 10);
    *queued = strtoull(end, NULL, 10);
  }
  errno = error;
  return length > 0;
}

void insitu_processor_after_init(void) {
  if (!queued_at_init) read_main_queued(&queued_at_init);
}

void insitu_processor_before_finalize(void) {
  uint64_t queued;
  /* A program may have shut itself off from /proc since MPI_Init. */
  if (insitu_is_owner() && read_main_queued(&queued)) insitu_table->header->queued_ns = queued - queued_at_init;
}

void insitu_processor_at_end(void) {
  struct insitu_header *header = insitu_table->header;
  int error = errno;
  header->cpu_ns = insitu_processor_ns();
  if (!header->queued_ns) insitu_processor_before_finalize(); /* mpi4py calls MPI_Finalize after the end of the table */
  header->busy_threads = count_busy_threads();
  errno = error;
}
