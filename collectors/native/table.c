/* Creation, growth and end of a rank's table. */
#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct insitu_table *insitu_table;
struct insitu_row *insitu_rows;
__thread struct insitu_thread *insitu_self;
int insitu_is_on;
int insitu_clock_is_tsc;
void (*insitu_before_thread_ends)(void);

static struct insitu_table the_table;
static pthread_key_t thread_key;
static __thread int is_growing;  /* a signal handler that comes meanwhile gets no row: it would wait for itself */
static __thread int has_no_area; /* it was refused one, or has given it back: it is not asked for again */
static pthread_mutex_t growth = PTHREAD_MUTEX_INITIALIZER; /* only on the slow path: a new row, a new thread */

size_t insitu_read_file(const char *path, char *text, size_t capacity) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t got = read(file, text, capacity - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  return got > 0 ? (size_t)got : 0;
}

void insitu_clock_choose(void) {
#if defined(__x86_64__)
  char source[64];
  insitu_read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
  insitu_clock_is_tsc = strncmp(source, "tsc", 3) == 0;
#elif defined(__aarch64__)
  insitu_clock_is_tsc = 1; /* the generic timer is invariant by architecture */
#endif
}

static uint64_t pid_started(void) {
  char text[1024];
  if (!insitu_read_file("/proc/self/stat", text, sizeof text)) return 0;
  char *at = strrchr(text, ')'); /* the command's name may hold anything */
  unsigned long long started = 0;
  if (at) sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &started);
  return started;
}

static void describe_columns(char *text, size_t capacity) {
  size_t used = 0;
#define X(column, unit, kinds)                                                               \
  used += (size_t)snprintf(text + used, capacity - used, #column " " unit " " kinds " %zu;", \
                           offsetof(struct insitu_row, column));
  INSITU_COLUMNS(X)
#undef X
}

/* Reserve the pages [from, from + bytes): on a full disk this fails here, and not with SIGBUS in the application.
 * The file is opened anew each time, because the application may have closed or reused any descriptor. */
static int reserve(uint64_t from, uint64_t bytes) {
  int saved = errno;
  int file = open(the_table.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) {
    int failed = errno;
    errno = saved;
    return failed;
  }
  int failed = posix_fallocate(file, (off_t)from, (off_t)bytes);
  close(file);
  errno = saved;
  return failed;
}

#define CHUNK 65536u
static uint64_t rows_backed, names_backed, threads_backed, collectives_backed;

/* Called with `growth` held. */
static int back(uint64_t *backed, uint64_t at, uint64_t needed) {
  while (*backed < needed) {
    if (reserve(at + *backed, CHUNK)) return 0;
    *backed += CHUNK;
  }
  return 1;
}

static uint64_t align(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

static void thread_leave(void *value) {
  struct insitu_thread *self = value;
  if (!insitu_table) return;
  uint64_t now = insitu_ticks();
  while (self->depth) insitu_pop(self, now);
  insitu_self = NULL;
  has_no_area = 1;
  if (insitu_before_thread_ends) insitu_before_thread_ends();
  atomic_store_explicit(&self->is_live, 0, memory_order_release);
}

static void after_fork_in_child(void) {
  /* The table belongs to the parent; a child that wrote into it would spoil the parent's totals. */
  insitu_is_on = 0;
  insitu_self = NULL;
  insitu_table = NULL;
}

struct insitu_thread *insitu_thread_enter(void) {
  struct insitu_header *header = the_table.header;
  struct insitu_thread *self = NULL;
  if (has_no_area || is_growing) return NULL;
  is_growing = 1;
  pthread_mutex_lock(&growth);
  uint32_t used = atomic_load_explicit(&header->threads_used, memory_order_relaxed);
  for (uint32_t i = 1; i < used; i++)
    if (!atomic_load_explicit(&the_table.threads[i].is_live, memory_order_acquire)) self = &the_table.threads[i];
  if (!self && used < INSITU_THREADS &&
      back(&threads_backed, header->threads_at, (uint64_t)(used + 1) * sizeof(struct insitu_thread))) {
    self = &the_table.threads[used];
    atomic_store_explicit(&header->threads_used, used + 1, memory_order_release);
  }
  if (self) atomic_store_explicit(&self->is_live, 1, memory_order_relaxed);
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  has_no_area = !self;
  if (!self) return NULL;
  if (!self->root) self->root = insitu_row_add(0, 0, INSITU_THREAD, "(thread)", 8, "", 0, 0);
  if (!self->root) {
    has_no_area = 1;
    atomic_store_explicit(&self->is_live, 0, memory_order_release);
    return NULL;
  }
  self->overflow = 0;
  self->in_mpi = 0;
  insitu_table->rows[self->root].visits++;
  insitu_push(self, self->root, 0, insitu_ticks());
  insitu_self = self;
  pthread_setspecific(thread_key, self);
  return self;
}

uint32_t insitu_row_add(uint32_t parent, uint64_t key, enum insitu_kind kind, const char *name, size_t name_bytes,
                        const char *file, size_t file_bytes, uint32_t line) {
  struct insitu_header *header = the_table.header;
  if (name_bytes > 1000) name_bytes = 1000;
  if (file_bytes > 1000) file += file_bytes - 1000, file_bytes = 1000;
  uint64_t record = align(sizeof(struct insitu_name) + name_bytes + file_bytes, 8);

  if (is_growing) return 0;
  is_growing = 1;
  pthread_mutex_lock(&growth);
  uint32_t row = atomic_load_explicit(&header->rows_used, memory_order_relaxed);
  uint64_t at = atomic_load_explicit(&header->names_used, memory_order_relaxed);
  if (row >= INSITU_ROWS || at + record > INSITU_NAMES_BYTES ||
      !back(&rows_backed, header->rows_at, (uint64_t)(row + 1) * sizeof(struct insitu_row)) ||
      !back(&names_backed, header->names_at, at + record)) {
    header->rows_refused++;
    pthread_mutex_unlock(&growth);
    is_growing = 0;
    return 0;
  }
  struct insitu_name *entry = (struct insitu_name *)(the_table.names + at);
  entry->line = line;
  entry->name_bytes = (uint16_t)name_bytes;
  entry->file_bytes = (uint16_t)file_bytes;
  memcpy(entry->text, name, name_bytes);
  memcpy(entry->text + name_bytes, file, file_bytes);
  struct insitu_row *fresh = &the_table.rows[row];
  fresh->key = key;
  fresh->parent = parent;
  fresh->kind = kind;
  fresh->next_sibling = the_table.rows[parent].first_child;
  if (kind != INSITU_THREAD && kind != INSITU_PHASE && row) the_table.rows[parent].first_child = row;
  atomic_store_explicit(&header->names_used, at + record, memory_order_relaxed);
  atomic_store_explicit(&fresh->name, (uint32_t)at, memory_order_relaxed);
  /* A reader takes the rows below rows_used as ready: name and parent must be there first. */
  atomic_store_explicit(&header->rows_used, row + 1, memory_order_release);
  insitu_pair_clocks();
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  return row;
}

int insitu_phases_reserve(void) {
  static int is_backed;
  return is_backed = is_backed || !reserve(the_table.header->phases_at, INSITU_PHASES * sizeof(struct insitu_phase));
}

int insitu_collectives_reserve(uint32_t count) {
  uint64_t needed = (uint64_t)count * sizeof(struct insitu_collective);
  if (collectives_backed >= needed) return 1;
  if (is_growing) return 0;
  is_growing = 1;
  pthread_mutex_lock(&growth);
  int is_backed = back(&collectives_backed, the_table.header->collectives_at, needed);
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  return is_backed;
}

void insitu_pair_clocks(void) {
  the_table.header->latest_tick = insitu_ticks();
  the_table.header->latest_ns = insitu_monotonic_ns();
}

/* The places of meta data, named phases, rows, names, threads and meetings in the file, and its length. */
enum { AT_META, AT_PHASES, AT_ROWS, AT_NAMES, AT_THREADS, AT_COLLECTIVES, AT_END, PLACES };

static void lay_out(uint64_t at[PLACES]) {
  at[AT_META] = INSITU_HEADER_BYTES;
  at[AT_PHASES] = at[AT_META] + INSITU_META_BYTES;
  at[AT_ROWS] = at[AT_PHASES] + align(INSITU_PHASES * sizeof(struct insitu_phase), 4096);
  at[AT_NAMES] = at[AT_ROWS] + (uint64_t)INSITU_ROWS * sizeof(struct insitu_row);
  at[AT_THREADS] = at[AT_NAMES] + INSITU_NAMES_BYTES;
  at[AT_COLLECTIVES] = at[AT_THREADS] + align((uint64_t)INSITU_THREADS * sizeof(struct insitu_thread), CHUNK);
  at[AT_END] = at[AT_COLLECTIVES] + align((uint64_t)INSITU_COLLECTIVES * sizeof(struct insitu_collective), CHUNK);
}

static void fill_header(struct insitu_header *header, int rank, int size, const uint64_t at[PLACES]) {
  memcpy(header->magic, INSITU_MAGIC, 8);
  header->version = INSITU_VERSION;
  header->header_bytes = INSITU_HEADER_BYTES;
  header->meta_at = at[AT_META];
  header->rows_at = at[AT_ROWS];
  header->names_at = at[AT_NAMES];
  header->threads_at = at[AT_THREADS];
  header->phases_at = at[AT_PHASES];
  header->phase_bytes = sizeof(struct insitu_phase);
  header->collectives_at = at[AT_COLLECTIVES];
  header->row_bytes = sizeof(struct insitu_row);
  header->row_capacity = INSITU_ROWS;
  header->thread_bytes = sizeof(struct insitu_thread);
  header->thread_capacity = INSITU_THREADS;
  header->frame_bytes = sizeof(struct insitu_frame);
  header->frame_capacity = INSITU_DEPTH;
  header->rank = rank;
  header->size = size;
  header->mpi_rank = header->mpi_size = -1;
  header->pid = (uint64_t)getpid();
  header->pid_started = pid_started();
  header->created_ns = insitu_wall_ns();
  header->is_tsc = (uint32_t)insitu_clock_is_tsc;
  describe_columns(header->columns, sizeof header->columns);
}

/* Make the file at the_table.path and map it, with room for its first rows; NULL and errno if that fails. */
static char *map_new_file(const uint64_t at[PLACES], size_t meta_bytes) {
  int file = open(the_table.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return NULL;
  char *base = MAP_FAILED;
  int failed = ftruncate(file, (off_t)at[AT_END]) ? errno : 0;
  if (!failed) failed = posix_fallocate(file, 0, (off_t)(at[AT_META] + align(meta_bytes + 1, 4096)));
  if (!failed &&
      (base = mmap(NULL, at[AT_END], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)) == MAP_FAILED)
    failed = errno;
  close(file);
  if (!failed && !(back(&rows_backed, at[AT_ROWS], 1) && back(&names_backed, at[AT_NAMES], 1) &&
                   back(&threads_backed, at[AT_THREADS], sizeof(struct insitu_thread))))
    failed = ENOSPC;
  if (!failed) return base;
  if (base != MAP_FAILED) munmap(base, at[AT_END]);
  unlink(the_table.path);
  errno = failed;
  return NULL;
}

static void take_places(char *base, const uint64_t at[PLACES]) {
  the_table.header = (struct insitu_header *)base;
  insitu_rows = the_table.rows = (struct insitu_row *)(base + at[AT_ROWS]);
  the_table.phases = (struct insitu_phase *)(base + at[AT_PHASES]);
  the_table.names = base + at[AT_NAMES];
  the_table.threads = (struct insitu_thread *)(base + at[AT_THREADS]);
  the_table.collectives = (struct insitu_collective *)(base + at[AT_COLLECTIVES]);
  pthread_key_create(&thread_key, thread_leave);
  pthread_atfork(NULL, NULL, after_fork_in_child);
  insitu_table = &the_table;
  insitu_self = &the_table.threads[0];
}

int insitu_table_create(const char *path, int rank, int size, const char *program, const char *meta,
                        size_t meta_bytes) {
  static const char unfinished[] = ".new";
  if (insitu_table) return EEXIST;
  if (strlen(path) + sizeof unfinished > sizeof the_table.path) return ENAMETOOLONG;
  if (meta_bytes > INSITU_META_BYTES) return E2BIG;
  strcat(strcpy(the_table.path, path), unfinished);
  insitu_clock_choose();
  uint64_t at[PLACES];
  lay_out(at);
  char *base = map_new_file(at, meta_bytes);
  if (!base) return errno;
  take_places(base, at);
  fill_header(the_table.header, rank, size, at);
  memcpy(base + at[AT_META], meta, meta_bytes);
  the_table.header->meta_used = meta_bytes;
  the_table.header->names_used = INSITU_NAMES_START;
  the_table.header->start_tick = insitu_ticks();
  the_table.header->start_ns = insitu_monotonic_ns();
  insitu_row_add(0, 0, INSITU_PROGRAM, program, strlen(program), "", 0, 0);
  the_table.threads[0].is_live = 1;
  the_table.header->threads_used = 1;
  the_table.rows[0].visits = 1;
  insitu_push(&the_table.threads[0], 0, 0, the_table.header->start_tick);
  /* Readers look for the finished name only: they never see half a table. */
  if (rename(the_table.path, path)) {
    int failed = errno;
    unlink(the_table.path);
    after_fork_in_child();
    return failed;
  }
  strcpy(the_table.path, path);
  return 0;
}

int insitu_table_attach(const char *path) {
  if (insitu_table) return EEXIST;
  if (strlen(path) >= sizeof the_table.path) return ENAMETOOLONG;
  uint64_t at[PLACES];
  lay_out(at);
  int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return errno;
  struct stat status;
  int failed = fstat(file, &status) ? errno : (uint64_t)status.st_size == at[AT_END] ? 0 : EINVAL;
  char *base = MAP_FAILED;
  if (!failed) base = mmap(NULL, at[AT_END], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (!failed && base == MAP_FAILED) failed = errno;
  close(file);
  if (failed) return failed;
  const struct insitu_header *header = (const struct insitu_header *)base;
  if (memcmp(header->magic, INSITU_MAGIC, 8) || header->version != INSITU_VERSION ||
      header->pid != (uint64_t)getpid() || header->row_bytes != sizeof(struct insitu_row)) {
    munmap(base, at[AT_END]);
    return EINVAL;
  }
  strcpy(the_table.path, path);
  insitu_clock_is_tsc = (int)header->is_tsc;
  take_places(base, at);
  return 0;
}
