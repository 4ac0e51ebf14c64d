/* Memory of the process and of MPI, as marks in the table.
 *
 * What MPI takes is told apart from what the program takes meanwhile: resident memory that came while MPI_Init ran, and
 * from then to MPI_Finalize the heap that grew inside MPI calls and the pages shared with other ranks.
 * /proc/self/status costs 14 us however large the process is. */
#include "memory.h"

#include "table.h"

#define SMALL (256 << 20) /* bytes: the kernel adds up the pages of that much in 7 ms at most */

#include <stdlib.h>
#include <string.h>

static struct insitu_memory before, after;
static int64_t heap_of_init;

static int64_t bytes_of(const char *status, const char *field) {
  const char *at = strstr(status, field);
  return at ? (int64_t)strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

struct insitu_memory insitu_memory_look(void) {
  char status[4096];
  if (!insitu_read_file("/proc/self/status", status, sizeof status)) return (struct insitu_memory){0, 0, 0, 0};
  return (struct insitu_memory){bytes_of(status, "VmRSS:"), bytes_of(status, "VmHWM:"), bytes_of(status, "RssShmem:"),
                                bytes_of(status, "VmSwap:")};
}

/* By which the heap has grown in MPI calls until now. */
static int64_t heap_of_mpi(void) {
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  int64_t grown = 0;
  for (uint32_t i = 0; i < used; i++)
    if (insitu_table->rows[i].kind == INSITU_MPI) grown += (int64_t)insitu_table->rows[i].heap_growth;
  return grown;
}

struct insitu_pages insitu_memory_pages(struct insitu_memory now) {
  char rollup[2048];
  if (now.resident >= SMALL || !insitu_read_file("/proc/self/smaps_rollup", rollup, sizeof rollup))
    return (struct insitu_pages){0, 0, 0, 0};
  return (struct insitu_pages){
      (uint64_t)bytes_of(rollup, "\nPss:"),
      (uint64_t)(bytes_of(rollup, "Private_Clean:") + bytes_of(rollup, "Private_Dirty:")),
      (uint64_t)(bytes_of(rollup, "Shared_Clean:") + bytes_of(rollup, "Shared_Dirty:")),
      (uint64_t)bytes_of(rollup, "Swap:"),
  };
}

void insitu_memory_at_end(void) {
  struct insitu_memory now = insitu_memory_look();
  insitu_table->header->memory_rss = (uint64_t)now.resident;
  insitu_table->header->memory_rss_peak = (uint64_t)now.peak;
  if (!insitu_table->header->memory_mpi) insitu_memory_before_finalize(); /* mpi4py's comes when we have ended */
  struct insitu_pages pages = insitu_memory_pages(now);
  insitu_table->header->memory_pss = pages.pss;
  insitu_table->header->memory_private = pages.private;
  insitu_table->header->memory_shared = pages.shared;
  insitu_table->header->memory_swap = pages.swapped;
}

void insitu_memory_before_init(void) {
  if (insitu_table && !before.resident) before = insitu_memory_look();
}

void insitu_memory_after_init(void) {
  if (!insitu_table || !before.resident || after.resident) return;
  after = insitu_memory_look();
  heap_of_init = heap_of_mpi();
}

void insitu_memory_before_finalize(void) {
  if (!insitu_table || !after.resident) return;
  struct insitu_memory now = insitu_memory_look();
  if (!now.resident) return;
  int64_t taken =
      after.resident - before.resident + heap_of_mpi() - heap_of_init + now.between_processes - after.between_processes;
  insitu_table->header->memory_mpi = taken > 0 ? (uint64_t)taken : 0;
}
