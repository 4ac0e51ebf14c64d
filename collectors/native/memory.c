/* Memory of the process and of MPI.
 *
 * The memory of MPI is separated from what the program allocates meanwhile: it is the growth of resident memory during
 * MPI_Init, and from then to MPI_Finalize the growth of the heap inside MPI calls and of the pages shared with other
 * ranks. Reading /proc/self/status costs 14 us whatever the size of the process. Once the main thread has ended, the
 * kernel reports memory in the files of the other threads only. */
#include "memory.h"

#include "table.h"

#include <stdlib.h>
#include <string.h>

#define SMALL (256 << 20) /* bytes of resident memory whose pages the kernel adds up in 7 ms at most */

static struct insitu_memory before_init, after_init;
static int64_t mpi_heap_after_init;

static int64_t parse_bytes(const char *status, const char *field) {
  const char *at = strstr(status, field);
  return at ? (int64_t)strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

struct insitu_memory insitu_memory_read(void) {
  char status[4096];
  if (insitu_is_stopped() || !insitu_read_file("/proc/self/status", status, sizeof status))
    return (struct insitu_memory){0, 0, 0, 0};
  if (!strstr(status, "VmRSS:")) insitu_read_file("/proc/thread-self/status", status, sizeof status);
  return (struct insitu_memory){
      .resident = parse_bytes(status, "VmRSS:"),
      .peak = parse_bytes(status, "VmHWM:"),
      .between_processes = parse_bytes(status, "RssShmem:"),
      .swapped = parse_bytes(status, "VmSwap:"),
  };
}

/* The growth of the heap inside MPI calls until now. */
static int64_t mpi_heap(void) {
  /* Relaxed: rows that are being added have no memory yet. */
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  int64_t growth = 0;
  for (uint32_t i = 0; i < used; i++)
    if (insitu_table->rows[i].kind == INSITU_MPI) growth += (int64_t)insitu_table->rows[i].heap_growth;
  return growth;
}

struct insitu_pages insitu_memory_pages(struct insitu_memory now) {
  char rollup[2048];
  if (now.resident >= SMALL) return (struct insitu_pages){0, 0, 0, 0};
  if (!insitu_read_file("/proc/self/smaps_rollup", rollup, sizeof rollup) &&
      !insitu_read_file("/proc/thread-self/smaps_rollup", rollup, sizeof rollup))
    return (struct insitu_pages){0, 0, 0, 0};
  return (struct insitu_pages){
      .pss = (uint64_t)parse_bytes(rollup, "\nPss:"),
      .private = (uint64_t)(parse_bytes(rollup, "Private_Clean:") + parse_bytes(rollup, "Private_Dirty:")),
      .shared = (uint64_t)(parse_bytes(rollup, "Shared_Clean:") + parse_bytes(rollup, "Shared_Dirty:")),
      .swapped = (uint64_t)parse_bytes(rollup, "Swap:"),
  };
}

void insitu_memory_at_end(void) {
  struct insitu_header *header = insitu_table->header;
  struct insitu_memory now = insitu_memory_read();
  header->memory_rss = (uint64_t)now.resident;
  header->memory_rss_peak = (uint64_t)now.peak;
  if (!header->memory_mpi) insitu_memory_before_finalize(); /* mpi4py calls MPI_Finalize after the end of the table */

  struct insitu_pages pages = insitu_memory_pages(now);
  header->memory_pss = pages.pss;
  header->memory_private = pages.private;
  header->memory_shared = pages.shared;
  header->memory_swap = pages.swapped;
}

void insitu_memory_before_init(void) {
  if (insitu_table && !before_init.resident) before_init = insitu_memory_read();
}

void insitu_memory_after_init(void) {
  if (!insitu_table || !before_init.resident || after_init.resident) return;
  after_init = insitu_memory_read();
  mpi_heap_after_init = mpi_heap();
}

void insitu_memory_before_finalize(void) {
  if (!after_init.resident || !insitu_is_owner()) return;
  struct insitu_memory now = insitu_memory_read();
  if (!now.resident) return;

  int64_t during_init = after_init.resident - before_init.resident;
  int64_t heap_since = mpi_heap() - mpi_heap_after_init;
  int64_t shared_since = now.between_processes - after_init.between_processes;
  int64_t taken = during_init + heap_since + shared_since;
  insitu_table->header->memory_mpi = taken > 0 ? (uint64_t)taken : 0;
}
