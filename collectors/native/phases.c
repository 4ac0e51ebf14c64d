/* Phases of the program: time, heap, memory and counters of the whole process between two marks.
 *
 * The row of a named phase is a child of the program that no thread ever enters: its values are differences of what
 * other rows and the kernel have at both marks. Reading memory from the kernel takes 0.3 ms and more, and is done only
 * while it takes a small share of the time. The agent reads the memory of large processes, from outside. */
#define _GNU_SOURCE
#include "phases.h"

#include "counters.h"
#include "heap.h"
#include "loop.h"
#include "memory.h"
#include "processor.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GAUGES_SHARE 500          /* reading gauges takes at most this fraction of the time, */
#define GAUGES_INITIAL_NS 5000000 /* beyond an initial allowance */
#define WAKES 16                  /* the agent is woken for this many marks at once, then twice a second */
#define WAKE_EVERY_NS 500000000u

struct reading {
  uint64_t at, allocations, bytes, counts[2], cpu_ns, mpi_time;
  int64_t live, peak;
};

static pthread_mutex_t marking = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
static struct reading phase_start;
static uint64_t gauges_took_ns;

static struct reading read_totals(uint64_t now) {
  struct reading reading = {.at = now};
  /* Acquire: rows below rows_used are complete. */
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++) {
    const struct insitu_row *row = &insitu_table->rows[i];
    if (row->kind == INSITU_PHASE) continue;
    /* Relaxed: other threads may be counting, and each value stands for itself. */
    reading.allocations += __atomic_load_n(&row->allocations, __ATOMIC_RELAXED);
    reading.bytes += __atomic_load_n(&row->bytes_allocated, __ATOMIC_RELAXED);
    if (row->kind == INSITU_MPI) reading.mpi_time += __atomic_load_n(&row->time_exclusive, __ATOMIC_RELAXED);
  }
  reading.live = insitu_heap_live(&reading.peak);
  insitu_counters_read(reading.counts);
  reading.cpu_ns = insitu_processor_ns();
  return reading;
}

static void read_gauges(struct insitu_phase *phase) {
  uint64_t began_ns = insitu_thread_cpu_ns(), elapsed_ns = insitu_monotonic_ns() - insitu_table->header->start_ns;
  if (gauges_took_ns > GAUGES_INITIAL_NS + elapsed_ns / GAUGES_SHARE) return;

  struct insitu_memory memory = insitu_memory_read();
  struct insitu_pages pages = insitu_memory_pages(memory);
  phase->memory_rss = (uint64_t)memory.resident;
  phase->memory_rss_peak = (uint64_t)memory.peak;
  phase->memory_pss = pages.pss;
  phase->memory_private = pages.private;
  phase->memory_shared = pages.shared;
  phase->memory_swap = (uint64_t)memory.swapped;
  gauges_took_ns += insitu_thread_cpu_ns() - began_ns;
}

/* Called with `marking` held. */
static void close_phase(const struct reading *now) {
  struct insitu_header *header = insitu_table->header;
  if (!header->current_phase) return;

  struct insitu_phase *phase = &insitu_table->phases[header->current_phase - 1];
  struct insitu_row *row = &insitu_table->rows[phase->row];
  row->time += now->at - phase_start.at;
  row->allocations += now->allocations - phase_start.allocations;
  row->bytes_allocated += now->bytes - phase_start.bytes;
  row->heap_growth += (uint64_t)(now->live - phase_start.live);
  if (now->peak > (int64_t)row->heap_peak) row->heap_peak = (uint64_t)now->peak;
  phase->instructions += now->counts[0] - phase_start.counts[0];
  phase->cycles += now->counts[1] - phase_start.counts[1];
  phase->cpu_ns += now->cpu_ns - phase_start.cpu_ns;
  phase->mpi_time += now->mpi_time - phase_start.mpi_time;
  read_gauges(phase);

  header->previous_phase = header->current_phase;
  header->current_phase = 0;
}

/* Return the phase of this name, counted from 1, and create it if necessary; 0 if there is no room for it. */
static uint32_t find_phase(const char *name, size_t bytes) {
  struct insitu_header *header = insitu_table->header;
  /* Relaxed: only the holder of `marking` changes it. */
  uint32_t used = atomic_load_explicit(&header->phases_used, memory_order_relaxed);
  for (uint32_t i = 0; i < used; i++) {
    const struct insitu_row *row = &insitu_table->rows[insitu_table->phases[i].row];
    const struct insitu_name *entry = (const struct insitu_name *)(insitu_table->names + row->name);
    if (entry->name_bytes == bytes && !memcmp(entry->text, name, bytes)) return i + 1;
  }

  uint32_t row = 0;
  if (used < INSITU_PHASES && insitu_phases_reserve()) row = insitu_row_add(0, 0, INSITU_PHASE, name, bytes, "", 0, 0);
  if (!row) {
    header->rows_refused++;
    return 0;
  }
  insitu_table->phases[used].row = row;
  /* Release: a reader that sees the phase sees its row. */
  atomic_store_explicit(&header->phases_used, used + 1, memory_order_release);
  return used + 1;
}

/* Whether the agent was not yet woken too often. */
static int may_wake(void) {
  static uint64_t first_ns, wakes;
  uint64_t now_ns = insitu_monotonic_ns();
  if (!first_ns) first_ns = now_ns;
  if (wakes > WAKES + (now_ns - first_ns) / WAKE_EVERY_NS) return 0;
  wakes++;
  return 1;
}

void insitu_wake_agent(void) {
  char path[sizeof insitu_table->path + 8];
  const char *slash = strrchr(insitu_table->path, '/');
  if (!slash) return;

  size_t folder = (size_t)(slash + 1 - insitu_table->path);
  memcpy(path, insitu_table->path, folder);
  strcpy(path + folder, "wake"); /* WAKE of table_directory.py */
  /* Opened for both ends: if the agent ended right now, writing to its pipe would raise SIGPIPE in the program. */
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  int pipe = insitu_open_hidden(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW);
  if (pipe >= 0) {
    ssize_t written = syscall(SYS_write, pipe, ".", 1);
    (void)written;
    insitu_close_hidden(pipe);
  }
  insitu_restore_interrupts(&before);
  errno = saved;
}

static void begin_named(const char *name) {
  struct insitu_header *header = insitu_table->header;
  char row_name[64];
  size_t bytes = strnlen(name, sizeof row_name - 9);
  memcpy(row_name, "(phase ", 7);
  memcpy(row_name + 7, name, bytes);
  row_name[7 + bytes] = ')';

  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&marking);
  struct reading now = read_totals(insitu_ticks());
  close_phase(&now);
  header->current_phase = find_phase(row_name, bytes + 8);
  if (header->current_phase) insitu_table->rows[insitu_table->phases[header->current_phase - 1].row].visits++;
  header->named_marks++;
  phase_start = now;
  pthread_mutex_unlock(&marking);

  if (may_wake()) insitu_wake_agent();
  insitu_restore_interrupts(&before);
}

int insitu_phase_mark(const char *name, int is_named) {
  struct insitu_header *header = insitu_table->header;
  strncpy(header->latest_mark, name, sizeof header->latest_mark - 1);
  header->marks++;
  if (!is_named) return insitu_loop_mark(insitu_ticks());
  begin_named(name);
  return 0;
}

/* Compiled programs declare this function weakly, and run without it when they are not measured. */
__attribute__((visibility("default"))) void insitu_phase(const char *name) {
  if (insitu_is_on && name) insitu_phase_mark(name, 1);
}

/* Likewise. Returns whether the program has made all iterations that the user wants to measure. */
__attribute__((visibility("default"))) int insitu_iteration(void) {
  return insitu_is_on ? insitu_phase_mark("iteration", 0) : 0;
}

void insitu_phase_end(uint64_t now) {
  if (!insitu_table->header->current_phase) return;
  struct insitu_interrupts before = insitu_block_interrupts();
  if (!pthread_mutex_trylock(&marking)) {
    gauges_took_ns = 0; /* the last reading is always made */
    struct reading totals = read_totals(now);
    close_phase(&totals);
    pthread_mutex_unlock(&marking);
  }
  insitu_restore_interrupts(&before);
}
