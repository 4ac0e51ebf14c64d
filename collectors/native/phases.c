/* Phases of the program: time, heap, memory and counters of the whole process between two marks.
 *
 * A phase with a name is a row below the program that no thread ever enters: what is counted elsewhere is read at both
 * marks. What the kernel says of memory takes 0.3 ms and more, and is asked for only where that is little of the time;
 * of large processes the agent asks, from outside. */
#define _GNU_SOURCE
#include "phases.h"

#include "counters.h"
#include "heap.h"
#include "loop.h"
#include "memory.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define LEVELS_SHARE 500 /* asking for levels takes at most this part of the time, and */
#define LEVELS_AT_ONCE_NS 5e6
#define WAKES 16 /* the agent is told of that many marks at once, then of two in a second */
#define WAKE_EVERY_NS 500000000u

struct reading {
  uint64_t at, allocations, bytes, counts[2];
  int64_t live, most;
};

static pthread_mutex_t marking = PTHREAD_MUTEX_INITIALIZER;
static struct reading begun; /* of the phase that runs */
static uint64_t levels_took_ns;

static struct reading read_totals(uint64_t now) {
  struct reading found = {.at = now};
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++) {
    const struct insitu_row *row = &insitu_table->rows[i];
    if (row->kind == INSITU_PHASE) continue;
    found.allocations += __atomic_load_n(&row->allocations, __ATOMIC_RELAXED); /* others may be counting */
    found.bytes += __atomic_load_n(&row->bytes_allocated, __ATOMIC_RELAXED);
  }
  found.live = insitu_heap_live(&found.most);
  insitu_counters_read(found.counts);
  return found;
}

/* What others do meanwhile on this processor is not our cost. */
static uint64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void take_levels(struct insitu_phase *phase) {
  uint64_t began_ns = cpu_ns(), elapsed_ns = insitu_monotonic_ns() - insitu_table->header->start_ns;
  if ((double)levels_took_ns > LEVELS_AT_ONCE_NS + (double)elapsed_ns / LEVELS_SHARE) return;
  struct insitu_memory memory = insitu_memory_look();
  struct insitu_pages pages = insitu_memory_pages(memory);
  phase->memory_rss = (uint64_t)memory.resident;
  phase->memory_rss_peak = (uint64_t)memory.peak;
  phase->memory_pss = pages.pss;
  phase->memory_private = pages.private;
  phase->memory_shared = pages.shared;
  phase->memory_swap = (uint64_t)memory.swapped;
  levels_took_ns += cpu_ns() - began_ns;
}

/* Called with `marking` held. */
static void close_phase(const struct reading *now) {
  struct insitu_header *header = insitu_table->header;
  if (!header->current_phase) return;
  struct insitu_phase *phase = &insitu_table->phases[header->current_phase - 1];
  struct insitu_row *row = &insitu_table->rows[phase->row];
  row->time += now->at - begun.at;
  row->allocations += now->allocations - begun.allocations;
  row->bytes_allocated += now->bytes - begun.bytes;
  row->heap_growth += (uint64_t)(now->live - begun.live);
  if (now->most > (int64_t)row->heap_peak) row->heap_peak = (uint64_t)now->most;
  phase->instructions += now->counts[0] - begun.counts[0];
  phase->cycles += now->counts[1] - begun.counts[1];
  take_levels(phase);
  header->previous_phase = header->current_phase;
  header->current_phase = 0;
}

/* The phase of this name, counted from 1; 0 if there is no room for it. */
static uint32_t find_phase(const char *name, size_t bytes) {
  struct insitu_header *header = insitu_table->header;
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
  atomic_store_explicit(&header->phases_used, used + 1, memory_order_release); /* a reader sees its row */
  return used + 1;
}

/* The agent looks at the process's memory from outside. That nobody listens is fine. */
static void wake_agent(void) {
  static uint64_t first_ns, wakes;
  uint64_t now_ns = insitu_monotonic_ns();
  if (!first_ns) first_ns = now_ns;
  char path[sizeof insitu_table->path + 8];
  const char *slash = strrchr(insitu_table->path, '/');
  if (wakes > WAKES + (now_ns - first_ns) / WAKE_EVERY_NS || !slash) return;
  wakes++;
  size_t folder = (size_t)(slash + 1 - insitu_table->path);
  memcpy(path, insitu_table->path, folder);
  strcpy(path + folder, "wake"); /* WAKE of places.py */
  /* Both ends: an agent that goes right now would leave the program a SIGPIPE. */
  int saved = errno, pipe = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (pipe >= 0) {
    ssize_t written = write(pipe, ".", 1);
    (void)written;
    close(pipe);
  }
  errno = saved;
}

static void begin_named(const char *name) {
  struct insitu_header *header = insitu_table->header;
  char shown[64];
  size_t bytes = strnlen(name, sizeof shown - 9);
  memcpy(shown, "(phase ", 7);
  memcpy(shown + 7, name, bytes);
  shown[7 + bytes] = ')';
  pthread_mutex_lock(&marking);
  struct reading now = read_totals(insitu_ticks());
  close_phase(&now);
  header->current_phase = find_phase(shown, bytes + 8);
  if (header->current_phase) insitu_table->rows[insitu_table->phases[header->current_phase - 1].row].visits++;
  header->named_marks++;
  begun = now;
  pthread_mutex_unlock(&marking);
  wake_agent();
}

void insitu_phase_mark(const char *name, int is_named) {
  struct insitu_header *header = insitu_table->header;
  strncpy(header->latest_mark, name, sizeof header->latest_mark - 1);
  header->marks++;
  if (is_named) begin_named(name);
  else insitu_phase_turn(insitu_ticks());
}

/* What compiled code calls; it knows the name only weakly, and runs without us. */
__attribute__((visibility("default"))) void insitu_phase(const char *name) {
  if (insitu_is_on && name) insitu_phase_mark(name, 1);
}

void insitu_phase_end(uint64_t now) {
  if (!insitu_table->header->current_phase || pthread_mutex_trylock(&marking)) return;
  levels_took_ns = 0; /* the last reading is always made */
  struct reading totals = read_totals(now);
  close_phase(&totals);
  pthread_mutex_unlock(&marking);
}
