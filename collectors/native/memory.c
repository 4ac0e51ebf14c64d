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

struct memory {
  int64_t resident, peak, shared;
};

static struct memory before, after;
static int64_t heap_of_init;

static int64_t bytes_of(const char *status, const char *field) {
  const char *at = strstr(status, field);
  return at ? (int64_t)strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

static struct memory look(void) {
  char status[4096];
  if (!insitu_read_file("/proc/self/status", status, sizeof status)) return (struct memory){0, 0, 0};
  return (struct memory){bytes_of(status, "VmRSS:"), bytes_of(status, "VmHWM:"), bytes_of(status, "RssShmem:")};
}

/* By which the heap has grown in MPI calls until now. */
static int64_t heap_of_mpi(void) {
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_relaxed);
  int64_t grown = 0;
  for (uint32_t i = 0; i < used; i++)
    if (insitu_table->rows[i].kind == INSITU_MPI) grown += (int64_t)insitu_table->rows[i].heap_growth;
  return grown;
}

static void add_up_pages(struct insitu_header *header) {
  char rollup[2048];
  if (!insitu_read_file("/proc/self/smaps_rollup", rollup, sizeof rollup)) return;
  header->memory_pss = (uint64_t)bytes_of(rollup, "\nPss:");
  header->memory_private = (uint64_t)(bytes_of(rollup, "Private_Clean:") + bytes_of(rollup, "Private_Dirty:"));
  header->memory_shared = (uint64_t)(bytes_of(rollup, "Shared_Clean:") + bytes_of(rollup, "Shared_Dirty:"));
  header->memory_swap = (uint64_t)bytes_of(rollup, "Swap:");
}

void insitu_memory_at_end(void) {
  struct memory now = look();
  insitu_table->header->memory_rss = (uint64_t)now.resident;
  insitu_table->header->memory_rss_peak = (uint64_t)now.peak;
  if (!insitu_table->header->memory_mpi) insitu_memory_before_finalize(); /* mpi4py's comes when we have ended */
  if (now.resident < SMALL) add_up_pages(insitu_table->header);
}

void insitu_memory_before_init(void) {
  if (insitu_table && !before.resident) before = look();
}

void insitu_memory_after_init(void) {
  if (!insitu_table || !before.resident || after.resident) return;
  after = look();
  heap_of_init = heap_of_mpi();
}

void insitu_memory_before_finalize(void) {
  if (!insitu_table || !after.resident) return;
  struct memory now = look();
  if (!now.resident) return;
  int64_t taken = after.resident - before.resident + heap_of_mpi() - heap_of_init + now.shared - after.shared;
  insitu_table->header->memory_mpi = taken > 0 ? (uint64_t)taken : 0;
}
