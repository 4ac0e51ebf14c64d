/* Creation and growth of a rank's table. */
#define _GNU_SOURCE
#include "table.h"

#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct insitu_table *insitu_table;
struct insitu_row *insitu_rows;
__thread struct insitu_thread *insitu_self;
__thread uint32_t insitu_thread_creator;
struct insitu_gate insitu_gate;
_Atomic uint32_t insitu_index[INSITU_INDEX];
struct insitu_fold insitu_folds[INSITU_FOLDS];
int insitu_clock_is_tsc;
void (*insitu_before_thread_ends)(void);

static struct insitu_table the_table;
static pthread_key_t thread_key;
static int has_thread_key; /* the program may have taken all keys: then the ends of threads go unnoticed */
/* The thread holds `growth`: the handler of a fault gets no row meanwhile, since it would deadlock. */
static __thread int is_growing;
static __thread int has_no_area; /* the thread was refused an area, or has released it: it does not try again */
static pthread_mutex_t growth = PTHREAD_MUTEX_INITIALIZER; /* slow path only: a new row, a new thread */

size_t insitu_read_file(const char *path, char *text, size_t capacity) {
  struct insitu_interrupts before = insitu_block_interrupts();
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, text, capacity - 1);
  if (file >= 0) close(file);
  insitu_restore_interrupts(&before);
  if (file < 0) return 0;
  text[length > 0 ? length : 0] = 0;
  return length > 0 ? (size_t)length : 0;
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

/* Return the start time of this process, which with its id identifies it. */
static uint64_t read_start_time(void) {
  char text[1024];
  if (!insitu_read_file("/proc/self/stat", text, sizeof text)) return 0;
  char *at = strrchr(text, ')'); /* the name of the command may contain any character */
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
#define X(column, unit, kinds, stored_in)                                                    \
  used += (size_t)snprintf(text + used, capacity - used, #column " " unit " " kinds " %zu;", \
                           offsetof(struct insitu_row, stored_in));
  INSITU_SHARED_COLUMNS(X)
#undef X
}

/* Whether a file of this length exceeds the limit of the process. Trying would end the application with SIGXFSZ. */
static int exceeds_file_limit(uint64_t bytes) {
  struct rlimit limit;
  return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Reserve the pages [from, from + bytes): a full disk is an error here instead of a SIGBUS in the application.
 *
 * A program in a sandbox may not open files any more, so the mapping is populated where the kernel can do that. Else
 * the file is opened each time, since the application may have closed or reused any descriptor. Returns 0 or an errno.
 */
static int reserve(uint64_t from, uint64_t bytes) {
  if (the_table.header) {
    int before = errno, failed = madvise((char *)the_table.header + from, bytes, MADV_POPULATE_WRITE) ? errno : 0;
    errno = before;
    if (!failed || failed == EFAULT || failed == ENOMEM) return failed;
  }
  if (exceeds_file_limit(from + bytes)) return EFBIG;
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  int file = open(the_table.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  int failed = file < 0 ? errno : posix_fallocate(file, (off_t)from, (off_t)bytes);
  if (file >= 0) close(file);
  insitu_restore_interrupts(&before);
  errno = saved;
  return failed;
}

#define CHUNK 65536u
static uint64_t rows_reserved, names_reserved, threads_reserved, collectives_reserved, partners_reserved,
    messages_reserved, intervals_reserved; /* bytes */

/* Reserve `needed` bytes of the section at `at`, in chunks, with `growth` held. Returns 0 if the disk is full. */
static int reserve_section(uint64_t *reserved, uint64_t at, uint64_t needed) {
  while (*reserved < needed) {
    if (reserve(at + *reserved, CHUNK)) return 0;
    *reserved += CHUNK;
  }
  return 1;
}

static uint64_t align(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/* Runs when a thread ends. */
static void release_thread(void *value) {
  struct insitu_thread *self = value;
  if (!insitu_table || insitu_is_stopped()) return;
  uint64_t now = insitu_ticks();
  while (self->depth) insitu_pop(self, now);
  insitu_self = NULL;
  has_no_area = 1;
  if (insitu_before_thread_ends) insitu_before_thread_ends();
  /* Release: the next owner of the area finds its frames closed. */
  atomic_store_explicit(&self->is_live, 0, memory_order_release);
}

/* The table belongs to the parent: a child that wrote into it would corrupt the totals of the parent. */
static void after_fork_in_child(void) {
  insitu_is_on = 0;
  insitu_self = NULL;
  insitu_table = NULL;
}

int insitu_is_owner(void) {
  return insitu_table && (insitu_is_stopped() || insitu_table->header->pid == (uint64_t)getpid());
}

/* Linux wipes the page in a child before the child runs. Older kernels (before 4.14) refuse: there only children of
 * fork() are recognised. */
static void wipe_gate_in_children(void) {
  int saved = errno;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (page <= sizeof insitu_gate.before)
    madvise((void *)((uintptr_t)&insitu_gate.is_on & ~(page - 1)), page, MADV_WIPEONFORK);
  errno = saved;
}

/* The row of the threads that the function of row `creator` creates. A row has one writer, so each area has its own. No
 * function has such a key. */
static uint32_t root_row(const struct insitu_thread *self, uint32_t creator) {
  uint64_t key = 1 + (uint64_t)(self - the_table.threads);
  uint32_t row = insitu_find_child(creator, key);
  return row ? row : insitu_row_add(creator, key, INSITU_THREAD, "(thread)", 8, "", 0, 0);
}

struct insitu_thread *insitu_thread_enter(void) {
  struct insitu_header *header = the_table.header;
  struct insitu_thread *self = NULL;
  if (has_no_area || is_growing || insitu_is_on_small_stack()) return NULL;
  struct insitu_interrupts before = insitu_block_interrupts();
  is_growing = 1;
  pthread_mutex_lock(&growth);
  /* Relaxed: only changed with `growth` held. Acquire: pairs with the release of the previous owner of the area. */
  uint32_t used = atomic_load_explicit(&header->threads_used, memory_order_relaxed);
  for (uint32_t i = 1; i < used; i++)
    if (!atomic_load_explicit(&the_table.threads[i].is_live, memory_order_acquire)) self = &the_table.threads[i];

  if (!self && used < INSITU_THREADS &&
      reserve_section(&threads_reserved, header->threads_at, (uint64_t)(used + 1) * sizeof(struct insitu_thread))) {
    self = &the_table.threads[used];
    /* Release: readers find the area reserved. */
    atomic_store_explicit(&header->threads_used, used + 1, memory_order_release);
  }
  /* Relaxed: other threads look at it with `growth` held only. */
  if (self) atomic_store_explicit(&self->is_live, 1, memory_order_relaxed);
  if (!self) header->threads_refused++;
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  insitu_restore_interrupts(&before);
  has_no_area = !self;
  if (!self) return NULL;
  self->root = root_row(self, insitu_thread_creator);
  if (!self->root) {
    has_no_area = 1;
    /* Release: as at the end of a thread. */
    atomic_store_explicit(&self->is_live, 0, memory_order_release);
    return NULL;
  }
  self->overflow = 0;
  self->in_mpi = 0;
  insitu_table->rows[self->root].visits++;
  insitu_push(self, self->root, 0, insitu_ticks());
  insitu_self = self;
  if (has_thread_key) pthread_setspecific(thread_key, self);
  return self;
}

/* Called with `growth` held. Rows and folds take at most five eighths of the entries. */
static void add_to_index(uint32_t parent, uint64_t key, uint32_t entry) {
  uint32_t at = insitu_index_at(parent, key);
  /* Relaxed: only changed with `growth` held. */
  while (atomic_load_explicit(&insitu_index[at], memory_order_relaxed)) at = (at + 1) & (INSITU_INDEX - 1);
  /* Release: whoever finds the entry finds the row or fold complete. */
  atomic_store_explicit(&insitu_index[at], entry, memory_order_release);
}

uint32_t insitu_row_fold(uint32_t parent, uint64_t key) {
  static uint32_t used;
  uint32_t row = parent;
  /* Calls of the thread that created this one are no calls of it, and their rows have another writer. */
  while (row && the_table.rows[row].key != key)
    row = the_table.rows[row].kind == INSITU_THREAD ? 0 : the_table.rows[row].parent;
  if (!row || is_growing) return row;

  struct insitu_interrupts before = insitu_block_interrupts();
  is_growing = 1;
  pthread_mutex_lock(&growth);
  if (used < INSITU_FOLDS && !insitu_find_child(parent, key)) {
    insitu_folds[used] = (struct insitu_fold){key, parent, row};
    add_to_index(parent, key, used++ | INSITU_IS_FOLD);
  }
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  insitu_restore_interrupts(&before);
  return row;
}

uint32_t insitu_row_add(uint32_t parent, uint64_t key, enum insitu_kind kind, const char *name, size_t name_bytes,
                        const char *file, size_t file_bytes, uint32_t line) {
  struct insitu_header *header = the_table.header;
  if (name_bytes > INSITU_NAME_BYTES) name_bytes = INSITU_NAME_BYTES;
  if (file_bytes > 1000) file += file_bytes - 1000, file_bytes = 1000;
  uint64_t record = align(sizeof(struct insitu_name) + name_bytes + file_bytes, 8);

  if (is_growing) return 0;
  struct insitu_interrupts before = insitu_block_interrupts();
  is_growing = 1;
  pthread_mutex_lock(&growth);
  /* Relaxed: both are only changed with `growth` held. */
  uint32_t row = atomic_load_explicit(&header->rows_used, memory_order_relaxed);
  uint64_t at = atomic_load_explicit(&header->names_used, memory_order_relaxed);
  if (row >= INSITU_ROWS || at + record > INSITU_NAMES_BYTES ||
      !reserve_section(&rows_reserved, header->rows_at, (uint64_t)(row + 1) * sizeof(struct insitu_row)) ||
      !reserve_section(&names_reserved, header->names_at, at + record)) {
    header->rows_refused++;
    pthread_mutex_unlock(&growth);
    is_growing = 0;
    insitu_restore_interrupts(&before);
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
  /* Phases are never looked up by key, and threads not by a function that is called. */
  if (kind != INSITU_PHASE && row) add_to_index(parent, key, row);
  if (kind != INSITU_THREAD && kind != INSITU_PHASE && row) the_table.rows[parent].first_child = row;

  /* Relaxed: readers see both through rows_used. */
  atomic_store_explicit(&header->names_used, at + record, memory_order_relaxed);
  atomic_store_explicit(&fresh->name, (uint32_t)at, memory_order_relaxed);
  /* Release: readers take the rows below rows_used as complete. */
  atomic_store_explicit(&header->rows_used, row + 1, memory_order_release);
  insitu_pair_clocks();
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  insitu_restore_interrupts(&before);
  return row;
}

int insitu_phases_reserve(void) {
  static int is_reserved;
  return is_reserved = is_reserved || !reserve(the_table.header->phases_at, INSITU_PHASES * sizeof *the_table.phases);
}

int insitu_opened_reserve(void) {
  static int is_reserved;
  return is_reserved = is_reserved || !reserve(the_table.header->opened_at, INSITU_OPENED * sizeof *the_table.opened);
}

int insitu_listed_reserve(void) {
  static int is_reserved;
  return is_reserved = is_reserved || !reserve(the_table.header->listed_at, INSITU_LISTED * sizeof(uint32_t));
}

static int reserve_locked(uint64_t *reserved, uint64_t at, uint64_t needed) {
  if (*reserved >= needed) return 1;
  if (is_growing) return 0;
  struct insitu_interrupts before = insitu_block_interrupts();
  is_growing = 1;
  pthread_mutex_lock(&growth);
  int is_reserved = reserve_section(reserved, at, needed);
  pthread_mutex_unlock(&growth);
  is_growing = 0;
  insitu_restore_interrupts(&before);
  return is_reserved;
}

int insitu_collectives_reserve(uint32_t count) {
  return reserve_locked(&collectives_reserved, the_table.header->collectives_at, count * sizeof *the_table.collectives);
}

int insitu_messages_reserve(uint32_t count) {
  return reserve_locked(&messages_reserved, the_table.header->messages_at, count * sizeof *the_table.messages);
}

int insitu_intervals_reserve(uint32_t count) {
  return reserve_locked(&intervals_reserved, the_table.header->intervals_at, count * sizeof *the_table.intervals);
}

int insitu_partners_reserve(uint32_t row) {
  return reserve_locked(&partners_reserved, the_table.header->partners_at, (row + 1ul) * sizeof *the_table.partners);
}

void insitu_pair_clocks(void) {
  the_table.header->latest_tick = insitu_ticks();
  the_table.header->latest_ns = insitu_monotonic_ns();
}

void insitu_pair_unslewed(uint64_t *tick, uint64_t *ns) {
  uint64_t least = UINT64_MAX; /* between two readings; a context switch makes it long */
  for (int i = 0; i < 5; i++) {
    uint64_t before = insitu_ticks(), now = insitu_unslewed_ns(), elapsed = insitu_ticks() - before;
    if (elapsed >= least) continue;
    least = elapsed;
    *tick = before + elapsed / 2;
    *ns = now;
  }
}

/* Offsets of the sections in the file, and its length. */
enum {
  AT_META,
  AT_PHASES,
  AT_ROWS,
  AT_NAMES,
  AT_THREADS,
  AT_COLLECTIVES,
  AT_PARTNERS,
  AT_OPENED,
  AT_MESSAGES,
  AT_INTERVALS,
  AT_LISTED,
  AT_END,
  OFFSETS
};

static void lay_out(uint64_t at[OFFSETS]) {
  at[AT_META] = INSITU_HEADER_BYTES;
  at[AT_PHASES] = at[AT_META] + INSITU_META_BYTES;
  at[AT_ROWS] = at[AT_PHASES] + align(INSITU_PHASES * sizeof(struct insitu_phase), 4096);
  at[AT_NAMES] = at[AT_ROWS] + (uint64_t)INSITU_ROWS * sizeof(struct insitu_row);
  at[AT_THREADS] = at[AT_NAMES] + INSITU_NAMES_BYTES;
  at[AT_COLLECTIVES] = at[AT_THREADS] + align((uint64_t)INSITU_THREADS * sizeof(struct insitu_thread), CHUNK);
  at[AT_PARTNERS] = at[AT_COLLECTIVES] + align((uint64_t)INSITU_COLLECTIVES * sizeof(struct insitu_collective), CHUNK);
  at[AT_OPENED] = at[AT_PARTNERS] + align((uint64_t)INSITU_ROWS * sizeof(uint32_t), CHUNK);
  at[AT_MESSAGES] = at[AT_OPENED] + align(INSITU_OPENED * sizeof(struct insitu_opened), CHUNK);
  at[AT_INTERVALS] = at[AT_MESSAGES] + align((uint64_t)INSITU_MESSAGES * sizeof(struct insitu_message), CHUNK);
  at[AT_LISTED] = at[AT_INTERVALS] + align((uint64_t)INSITU_INTERVALS * sizeof(struct insitu_interval), CHUNK);
  at[AT_END] = at[AT_LISTED] + align(INSITU_LISTED * sizeof(uint32_t), CHUNK);
}

static void fill_header(struct insitu_header *header, int rank, int size, const uint64_t at[OFFSETS]) {
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
  header->partners_at = at[AT_PARTNERS];
  header->opened_at = at[AT_OPENED];
  header->messages_at = at[AT_MESSAGES];
  header->intervals_at = at[AT_INTERVALS];
  header->listed_at = at[AT_LISTED];
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
  header->pid_started = read_start_time();
  header->created_ns = insitu_wall_ns();
  header->is_tsc = (uint32_t)insitu_clock_is_tsc;
  describe_columns(header->columns, sizeof header->columns);
}

/* Create the file at the_table.path and map it, with space for its first rows. Returns NULL with errno on failure. */
static char *map_new_file(const uint64_t at[OFFSETS], size_t meta_bytes) {
  if (exceeds_file_limit(at[AT_END])) {
    errno = EFBIG;
    return NULL;
  }
  int file = open(the_table.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return NULL;
  char *base = MAP_FAILED;
  int failed = ftruncate(file, (off_t)at[AT_END]) ? errno : 0;
  if (!failed) failed = posix_fallocate(file, 0, (off_t)(at[AT_META] + align(meta_bytes + 1, 4096)));
  if (!failed &&
      (base = mmap(NULL, at[AT_END], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)) == MAP_FAILED)
    failed = errno;
  close(file);
  if (!failed &&
      !(reserve_section(&rows_reserved, at[AT_ROWS], 1) && reserve_section(&names_reserved, at[AT_NAMES], 1) &&
        reserve_section(&threads_reserved, at[AT_THREADS], sizeof(struct insitu_thread))))
    failed = ENOSPC;
  if (!failed) return base;
  if (base != MAP_FAILED) munmap(base, at[AT_END]);
  unlink(the_table.path);
  errno = failed;
  return NULL;
}

static void set_pointers(char *base, const uint64_t at[OFFSETS]) {
  the_table.header = (struct insitu_header *)base;
  insitu_rows = the_table.rows = (struct insitu_row *)(base + at[AT_ROWS]);
  the_table.phases = (struct insitu_phase *)(base + at[AT_PHASES]);
  the_table.names = base + at[AT_NAMES];
  the_table.threads = (struct insitu_thread *)(base + at[AT_THREADS]);
  the_table.collectives = (struct insitu_collective *)(base + at[AT_COLLECTIVES]);
  the_table.partners = (uint32_t *)(base + at[AT_PARTNERS]);
  the_table.opened = (struct insitu_opened *)(base + at[AT_OPENED]);
  the_table.messages = (struct insitu_message *)(base + at[AT_MESSAGES]);
  the_table.intervals = (struct insitu_interval *)(base + at[AT_INTERVALS]);
  the_table.listed = (uint32_t *)(base + at[AT_LISTED]);
  has_thread_key = !pthread_key_create(&thread_key, release_thread);
  wipe_gate_in_children();
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

  uint64_t at[OFFSETS];
  lay_out(at);
  char *base = map_new_file(at, meta_bytes);
  if (!base) return errno;
  set_pointers(base, at);

  fill_header(the_table.header, rank, size, at);
  memcpy(base + at[AT_META], meta, meta_bytes);
  the_table.header->meta_used = meta_bytes;
  the_table.header->names_used = INSITU_NAMES_START;
  the_table.header->start_tick = insitu_ticks();
  the_table.header->start_ns = insitu_monotonic_ns();
  insitu_pair_unslewed(&the_table.header->first_tick, &the_table.header->first_unslewed_ns);

  insitu_row_add(0, 0, INSITU_PROGRAM, program, strlen(program), "", 0, 0);
  the_table.threads[0].is_live = 1;
  the_table.header->threads_used = 1;
  the_table.rows[0].visits = 1;
  insitu_push(&the_table.threads[0], 0, 0, the_table.header->start_tick);
  /* Readers only look for the final name, so they never see an incomplete table. */
  if (rename(the_table.path, path)) {
    int failed = errno;
    unlink(the_table.path);
    after_fork_in_child();
    return failed;
  }
  strcpy(the_table.path, path);
  return 0;
}
