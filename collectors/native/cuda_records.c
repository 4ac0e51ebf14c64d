/* From CUPTI's records to rows of the table.
 *
 * A record has the number that CUPTI gave to the call that launched it. At that call the row of the host was noted
 * under this number, so the record counts in a row below it. These rows have one writer: whoever reads records.
 *
 * The offsets of fields are those of the headers of CUPTI 12.9 and 13.5, which are equal: versions append fields. So no
 * header is needed. */
#define _GNU_SOURCE
#include "cuda_records.h"

#include "busy.h"
#include "table.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define LAUNCHES (1u << 20) /* a power of two: so many launches may be under way */
#define DEVICES 32u
#define CACHE 4096u /* a power of two */
#define IS_DEVICE (1ull << 60)

/* Number << 32 | row. Relaxed: a record is read long after its launch, and CUPTI orders both. */
static _Atomic uint64_t *launches;
static struct insitu_busy devices[DEVICES];
static uint32_t cached_rows[CACHE];
static uint64_t bytes_in_use;

int insitu_cuda_records_start(void) {
  void *fresh = mmap(NULL, LAUNCHES * sizeof *launches, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return 0;
  launches = fresh;
  return 1;
}

void insitu_cuda_launched(uint32_t number, uint32_t row) {
  atomic_store_explicit(&launches[number & (LAUNCHES - 1)], (uint64_t)number << 32 | row, memory_order_relaxed);
}

/* ---- fields --------------------------------------------------------------------------------------------------- */

static uint32_t u4(const unsigned char *record, size_t at) {
  uint32_t value;
  memcpy(&value, record + at, sizeof value);
  return value;
}

static uint64_t u8(const unsigned char *record, size_t at) {
  uint64_t value;
  memcpy(&value, record + at, sizeof value);
  return value;
}

/* Where the fields of a record are; 0 for those that it lacks. */
struct fields {
  size_t start, end, device, number, bytes;
};

static const struct fields *fields_of(uint32_t kind) {
  static const struct fields kernel = {16, 24, 40, 92, 0}, copy = {16, 24, 32, 44, 8}, peer_copy = {16, 24, 32, 60, 8},
                             graph = {8, 16, 24, 4, 0};
  switch (kind) {
    case INSITU_CUDA_KERNEL: return &kernel;
    case INSITU_CUDA_COPY:
    case INSITU_CUDA_MEMSET: return &copy;
    case INSITU_CUDA_PEER_COPY: return &peer_copy;
    case INSITU_CUDA_GRAPH: return &graph;
    default: return NULL;
  }
}

static const char *name_of(uint32_t kind, const unsigned char *record) {
  /* By CUpti_ActivityMemcpyKind; an array is memory of the device. */
  static const char *const copies[] = {"CUDA copy",
                                       "CUDA copy host to device",
                                       "CUDA copy device to host",
                                       "CUDA copy host to device",
                                       "CUDA copy device to host",
                                       "CUDA copy within a device",
                                       "CUDA copy within a device",
                                       "CUDA copy within a device",
                                       "CUDA copy within a device",
                                       "CUDA copy host to host",
                                       "CUDA copy device to device"};
  const char *name = NULL;
  switch (kind) {
    case INSITU_CUDA_KERNEL: name = (const char *)(uintptr_t)u8(record, 104); break;
    case INSITU_CUDA_COPY: return copies[record[4] < sizeof copies / sizeof *copies ? record[4] : 0];
    case INSITU_CUDA_PEER_COPY: return copies[10];
    case INSITU_CUDA_MEMSET: return "CUDA memset";
    case INSITU_CUDA_GRAPH: return "CUDA graph";
  }
  return name ? name : "CUDA kernel";
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

static int is_named(uint32_t row, uint32_t parent, const char *name) {
  const struct insitu_row *known = &insitu_rows[row];
  if (!row || known->parent != parent || known->kind != INSITU_DEVICE) return 0;
  return insitu_row_has_name(row, name);
}

/* Return the row of this name below `parent`, 0 if there is no room. */
static uint32_t find_row(uint32_t parent, const char *name) {
  uint32_t *cached = &cached_rows[((uintptr_t)name * 31 + parent) * 0x9E3779B97F4A7C15u >> 52 & (CACHE - 1)];
  if (is_named(*cached, parent, name)) return *cached;
  size_t bytes = strnlen(name, INSITU_NAME_BYTES);
  uint64_t key = insitu_hash_name(name, bytes) >> 4 | IS_DEVICE;
  uint32_t row = insitu_find_child(parent, key);
  if (!row) {
    row = insitu_row_add(parent, key, INSITU_DEVICE, name, bytes, "", 0, 0);
    if (row) insitu_rows[row].flags |= insitu_rows[parent].flags / ROW_LEVEL * ROW_LEVEL + ROW_LEVEL;
  }
  return *cached = row;
}

/* The row of the host that launched this. */
static uint32_t launcher_of(uint32_t number) {
  uint64_t launch = atomic_load_explicit(&launches[number & (LAUNCHES - 1)], memory_order_relaxed);
  if (launch >> 32 == number) return (uint32_t)launch;
  insitu_table->header->device_unattributed++;
  return 0;
}

static void add_busy(uint32_t device, uint64_t start, uint64_t end) {
  struct insitu_busy *all = &devices[device & (DEVICES - 1)];
  struct insitu_header *header = insitu_table->header;
  if (!all->gaps) {
    void *fresh = mmap(NULL, INSITU_GAPS * sizeof *all->gaps, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return;
    all->gaps = fresh;
  }
  uint64_t busy = all->busy, span = all->until - all->first;
  insitu_busy_add(all, start, end);
  header->device_busy_ns += all->busy - busy;
  header->device_span_ns += all->until - all->first - span;
}

/* An allocation or a release of memory of a device. */
static void add_memory(const unsigned char *record) {
  enum { ALLOCATION = 1, RELEASE = 2 };
  enum { OF_DEVICE = 3, MANAGED = 5 }; /* and 4, arrays; page-locked memory of the host is another kind */
  uint32_t operation = u4(record, 4), memory = u4(record, 8);
  uint64_t bytes = u8(record, 24), *peak = &insitu_table->header->device_memory_peak;
  if (memory < OF_DEVICE || memory > MANAGED) return;
  if (operation == ALLOCATION) bytes_in_use += bytes;
  else if (operation == RELEASE) bytes_in_use -= bytes < bytes_in_use ? bytes : bytes_in_use;
  if (bytes_in_use > *peak) *peak = bytes_in_use;
}

void insitu_cuda_record(const unsigned char *record) {
  uint32_t kind = u4(record, 0);
  if (kind == INSITU_CUDA_MEMORY) add_memory(record);
  const struct fields *fields = fields_of(kind);
  if (!fields) return;
  uint64_t start = u8(record, fields->start), end = u8(record, fields->end);
  uint32_t row = find_row(launcher_of(u4(record, fields->number)), name_of(kind, record));
  if (row) {
    struct insitu_row *device = &insitu_rows[row];
    device->visits++;
    if (end > start) device->bytes_sent += end - start;                     /* device_ns */
    if (fields->bytes) device->bytes_received += u8(record, fields->bytes); /* device_bytes */
  }
  if (start && end > start) add_busy(u4(record, fields->device), start, end);
}
