/* Creation of a rank's table. */
#define _GNU_SOURCE
#include "table.h"

#include "growth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

size_t insitu_read_file(const char *path, char *text, size_t capacity) {
  struct insitu_interrupts before = insitu_block_interrupts();
  int file = insitu_open_hidden(path, O_RDONLY);
  ssize_t length = file < 0 ? 0 : syscall(SYS_read, file, text, capacity - 1);
  if (file >= 0) insitu_close_hidden(file);
  insitu_restore_interrupts(&before);
  if (file < 0) return 0;
  text[length > 0 ? length : 0] = 0;
  return length > 0 ? (size_t)length : 0;
}

int insitu_file_error(const char *path) {
  struct insitu_interrupts before = insitu_block_interrupts();
  int saved = errno, file = insitu_open_hidden(path, O_RDONLY), error = file < 0 ? errno : 0;
  if (file >= 0) insitu_close_hidden(file);
  errno = saved;
  insitu_restore_interrupts(&before);
  return error;
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

static uint64_t align(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/* The table belongs to the parent: a child that wrote into it would corrupt the totals of the parent. */
static void leave_table(void) {
  insitu_is_on = 0;
  insitu_self = NULL;
  insitu_table = NULL;
}

static void after_fork_in_child(void) {
  insitu_fork_ends_in_child();
  leave_table();
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

/* Read ticks and another clock at one moment. */
static void pair_clocks(uint64_t (*read)(void), uint64_t *tick, uint64_t *ns) {
  uint64_t least = UINT64_MAX; /* between two readings; a context switch or a signal makes it long */
  for (int i = 0; i < 5; i++) {
    uint64_t before = insitu_ticks(), now = read(), elapsed = insitu_ticks() - before;
    if (elapsed >= least) continue;
    least = elapsed;
    *tick = before + elapsed / 2;
    *ns = now;
  }
}

/* Of threads that store a pair at the same time, any may be the last: none is more than a moment old. */
__attribute__((no_sanitize("thread"))) static void store_pair(uint64_t tick, uint64_t ns) {
  /* One instruction, so that no signal and no other thread of this processor comes between. */
  typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
  _Static_assert(offsetof(struct insitu_header, latest_ns) == offsetof(struct insitu_header, latest_tick) + 8,
                 "a pair");
  *(volatile pair *)&the_table.header->latest_tick = (pair){tick, ns};
}

void insitu_pair_clocks(void) {
  uint64_t tick = 0, ns = 0;
  pair_clocks(insitu_monotonic_ns, &tick, &ns);
  store_pair(tick, ns);
}

void insitu_pair_unslewed(uint64_t *tick, uint64_t *ns) {
  pair_clocks(insitu_unslewed_ns, tick, ns);
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
  at[AT_COLLECTIVES] = at[AT_THREADS] + align((uint64_t)INSITU_THREADS * sizeof(struct insitu_thread), INSITU_CHUNK);
  at[AT_PARTNERS] =
      at[AT_COLLECTIVES] + align((uint64_t)INSITU_COLLECTIVES * sizeof(struct insitu_collective), INSITU_CHUNK);
  at[AT_OPENED] = at[AT_PARTNERS] + align((uint64_t)INSITU_ROWS * sizeof(uint32_t), INSITU_CHUNK);
  at[AT_MESSAGES] = at[AT_OPENED] + align(INSITU_OPENED * sizeof(struct insitu_opened), INSITU_CHUNK);
  at[AT_INTERVALS] = at[AT_MESSAGES] + align((uint64_t)INSITU_MESSAGES * sizeof(struct insitu_message), INSITU_CHUNK);
  at[AT_LISTED] = at[AT_INTERVALS] + align((uint64_t)INSITU_INTERVALS * sizeof(struct insitu_interval), INSITU_CHUNK);
  at[AT_END] = at[AT_LISTED] + align(INSITU_LISTED * sizeof(uint32_t), INSITU_CHUNK);
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

/* Create the file at the_table.path and map it, with space for its header. Returns NULL with errno on failure. */
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
  if (!failed) return base;
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
  insitu_table = &the_table;
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
  if (!insitu_growth_reserve()) {
    insitu_table = NULL;
    unlink(the_table.path);
    munmap(base, at[AT_END]);
    return ENOSPC;
  }
  insitu_growth_start();
  wipe_gate_in_children();
  pthread_atfork(insitu_fork_begins, insitu_fork_ends, after_fork_in_child);
  insitu_self = &the_table.threads[0];

  memcpy(base + at[AT_META], meta, meta_bytes);
  the_table.header->meta_used = meta_bytes;
  the_table.header->names_used = INSITU_NAMES_START;
  pair_clocks(insitu_monotonic_ns, &the_table.header->start_tick, &the_table.header->start_ns);
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
    leave_table();
    return failed;
  }
  strcpy(the_table.path, path);
  return 0;
}
