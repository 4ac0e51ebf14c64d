/* The layout of a rank's table: a memory-mapped file that outlives the rank. This file is the reference for it.
 *
 * Each thread area and each row has one writer, which uses plain aligned 64-bit stores. Readers in other processes
 * see totals that are at most one event old. The file describes its own columns. collectors/table.py declares the rest
 * again, and tests/collectors/test_table.py compares every offset, size and constant. */
#ifndef INSITU_TABLE_H
#define INSITU_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "clock.h"
#include "interrupts.h"
#include "table_events.h"
#include "table_header.h"

#define INSITU_MAGIC "INSITUT1"
#define INSITU_VERSION 1
#define INSITU_ROWS 65536
#define INSITU_THREADS 256
#define INSITU_DEPTH 1023 /* frames recorded per thread; the time of deeper ones stays with the last */
#define INSITU_NAMES_BYTES (8u << 20)
#define INSITU_NAMES_START 8 /* offset of the first name record; offset 0 means that a row has no name yet */
#define INSITU_META_BYTES (64u << 10)
#define INSITU_PHASES 64
#define INSITU_OPENED 128        /* call paths that open files */
#define INSITU_OPENED_FILES 32   /* of each of them, whose identities are kept */
#define INSITU_COLLECTIVES 4096u /* recorded collective events */
#define INSITU_MESSAGES 8192u    /* recorded point-to-point messages */
#define INSITU_INTERVALS 1024u   /* recorded intervals between collective calls */
#define INSITU_LISTED 16384u     /* words of the lists of needed ranks */
/* The first messages between two ranks, all of which are sampled; and successive messages that are sampled together,
 * since the partners of an exchange may be some messages apart. */
#define INSITU_MESSAGES_ALWAYS 256u
#define INSITU_MESSAGES_WINDOW 4u
/* The numbers of partners are stored plus 1, so that 0 means that the row has none. If it is 1, the highest bit is set
 * and the others are the rank. The last value means unknown. */
#define INSITU_PARTNER_ONLY (1u << 31)
#define INSITU_PARTNERS_UNKNOWN UINT32_MAX

/* The columns of a row: name, unit, kinds of rows that have it. Times are in ticks. */
#define INSITU_COLUMNS(X)                  \
  X(visits, "1", "all")                    \
  X(time, "s", "all")                      \
  X(time_exclusive, "s", "all")            \
  X(bytes_sent, "B", "mpi")                \
  X(bytes_received, "B", "mpi")            \
  X(allocations, "1", "heap")              \
  X(bytes_allocated, "B", "heap")          \
  X(heap_growth, "B", "heap") /* signed */ \
  X(heap_peak, "B", "heap")                \
  X(messages_sent, "1", "mpi")             \
  X(messages_received, "1", "mpi")         \
  X(comm_ranks, "1", "mpi")

/* Columns of rows of file calls, which share the memory of columns that only MPI calls have. */
#define INSITU_FILE_COLUMNS(X)                \
  X(bytes_written, "B", "file", bytes_sent)   \
  X(bytes_read, "B", "file", bytes_received)  \
  X(files_opened, "1", "file", messages_sent) \
  X(bytes_mapped, "B", "file", comm_ranks)

/* Those of rows of parallel regions, over the threads of all teams. Their capacity is the number of threads times the
 * longest work of one of them. Regions of which only the time is known are counted. */
#define INSITU_OPENMP_COLUMNS(X)                     \
  X(time_busy, "s", "openmp", bytes_sent)            \
  X(time_barrier, "s", "openmp", bytes_received)     \
  X(threads, "1", "openmp", messages_sent)           \
  X(time_capacity, "s", "openmp", messages_received) \
  X(regions_unknown, "1", "openmp", comm_ranks)

/* Those of rows of what a device does: its time in nanoseconds, summed over streams, and the bytes that it copied. */
#define INSITU_DEVICE_COLUMNS(X)          \
  X(device_ns, "1", "device", bytes_sent) \
  X(device_bytes, "B", "device", bytes_received)

/* Those of rows of library functions: how many calls of library functions are inside them, which have no rows. */
#define INSITU_LIBRARY_COLUMNS(X) X(library_calls, "1", "library", bytes_sent)

#define INSITU_SHARED_COLUMNS(X) \
  INSITU_FILE_COLUMNS(X)         \
  INSITU_OPENMP_COLUMNS(X)       \
  INSITU_DEVICE_COLUMNS(X)       \
  INSITU_LIBRARY_COLUMNS(X)

enum insitu_kind {
  INSITU_PROGRAM = 0,
  INSITU_PYTHON = 1,
  INSITU_LIBRARY = 2,
  INSITU_MPI = 3,
  INSITU_THREAD = 4,
  INSITU_REGION = 5,   /* marked by the program */
  INSITU_BUILTIN = 6,  /* a function written in C, called from Python */
  INSITU_COMPILED = 7, /* its name is its address in base 16, its file is the object file */
  INSITU_PHASE = 8,    /* all activity of the process between two marks of the program */
  INSITU_STACK = 9,    /* a compiled function that was read from stacks: its visits are samples, its times are unused */
  INSITU_FILE = 10,    /* a call that opens, reads, writes or maps a file */
  INSITU_OPENMP = 11,  /* a parallel region, named like a compiled function or like a call in one */
  INSITU_DEVICE = 12,  /* a kernel, a copy or a memset of a GPU: it has visits, and no time of the host */
};
/* REPLACED: by exec. The process may still run, as another program. */
enum insitu_state { INSITU_RUNNING = 0, INSITU_ENDED = 1, INSITU_ABORTED = 2, INSITU_REPLACED = 3 };
enum insitu_mpi_state { INSITU_MPI_NONE = 0, INSITU_MPI_INITIALISED = 1, INSITU_MPI_FINALISED = 2 };

/* Flags of a row. The first five are also flags of a code object (code.h). */
enum {
  ROW_IS_LIBRARY = 1,
  ROW_IS_GENERATOR = 2,
  ROW_IS_MODULE = 4,
  ROW_IS_IGNORED = 8,    /* filtered, throttled or part of insitu: counts as part of its caller */
  ROW_IS_THROTTLED = 16, /* no longer recorded because that cost too much */
  ROW_IS_LOOP = 32,      /* entering it begins an iteration of the main loop */
  ROW_IS_PROGRAM = 64,   /* row 0, which has no caller */
  ROW_ON_OTHER = 128,    /* MPI calls on communicators that are none of the next two, see mpi_collectives.h */
  ROW_ON_SPLIT = 256,    /* on a communicator of all ranks that was split off: INSITU_SPLIT */
  ROW_ON_NODE = 512,     /* on one of all ranks that share a node: INSITU_OF_NODE */
  ROW_LEVEL = 1024,      /* the remaining bits hold the row's level below the program */
};

struct insitu_row {
  uint64_t key; /* identifies the function for the writer: code object, address; meaningless to readers */
  uint32_t parent;
  uint32_t first_child;  /* the latest */
  uint32_t open_frames;  /* of the one thread that enters this row: only the outermost adds inclusive time */
  _Atomic uint32_t name; /* offset in the name pool; readers see it through rows_used (release) */
  uint32_t kind;
  uint32_t flags;
#define X(column, unit, kinds) uint64_t column;
  INSITU_COLUMNS(X)
#undef X
};
_Static_assert(sizeof(struct insitu_row) == 128, "a row is two cache lines");

struct insitu_frame {
  uint64_t start;  /* ticks */
  uint64_t inside; /* ticks spent in callees that have returned */
  uint32_t row;
  uint32_t flags;
  /* Of Python code: open calls of library functions inside a library function, which have no frame. Of an unwound
   * region: how many functions were on the stack when it began. */
  uint32_t skipped;
  uint32_t stack; /* stack position of a compiled function, 0 for other frames */
};
enum {
  INSITU_FOLDED = 1,  /* recursion: an outer frame has the same row, and this one adds no inclusive time */
  INSITU_UNNAMED = 2, /* a compiled function for which there was no row */
  INSITU_UNWOUND = 4, /* a region: the functions inside it are read from the stack */
  INSITU_MARKED = 8,  /* a region of regions.c */
  INSITU_LEFT = 16,   /* a Python function that has ended before the regions that it began */
  /* A compiled function on the alternate stack, called by a signal handler. The upper bits: see compiled.c. */
  INSITU_ON_ALTERNATE = 32,
};

struct insitu_thread {
  _Atomic uint32_t is_live;
  uint32_t root;
  uint32_t depth;
  uint32_t in_mpi;
  uint64_t overflow; /* open calls beyond INSITU_DEPTH */
  uint64_t reserved;
  struct insitu_frame frames[INSITU_DEPTH];
};
_Static_assert(sizeof(struct insitu_thread) == 32 + 32 * INSITU_DEPTH, "frames follow the head of a thread");

struct insitu_name {
  uint32_t line;
  uint16_t name_bytes;
  uint16_t file_bytes;
  char text[]; /* name, then file, not terminated; records are padded to 8 bytes */
};

/* What a named phase has besides its row. Gauges are those at its end. */
struct insitu_phase {
  uint32_t row;
  uint32_t reserved;
  uint64_t memory_rss;
  uint64_t memory_rss_peak; /* of the process since its start */
  uint64_t memory_pss;      /* this and the next three are 0 where reading them would take long */
  uint64_t memory_private;
  uint64_t memory_shared;
  uint64_t memory_swap;
  uint64_t instructions;
  uint64_t cycles;
  uint64_t cpu_ns;   /* processor time of the process */
  uint64_t mpi_time; /* ticks in MPI calls that have returned, without what they called */
};

/* The files that a call path opened: the smallest identities, ascending. */
struct insitu_opened {
  uint32_t row;
  uint16_t count;
  uint16_t is_full; /* whether it opened more */
  uint64_t files[INSITU_OPENED_FILES];
};

struct insitu_table {
  struct insitu_header *header;
  struct insitu_row *rows;
  struct insitu_thread *threads;
  struct insitu_phase *phases;
  struct insitu_collective *collectives;
  uint32_t *partners;
  struct insitu_opened *opened;
  struct insitu_message *messages;
  struct insitu_interval *intervals;
  uint32_t *listed;
  char *names;
  char path[1024];
};

/* The one table of this process; NULL while there is none. */
extern struct insitu_table *insitu_table;
/* Its rows, to save one load on the hot path. */
extern struct insitu_row *insitu_rows;
/* The thread area of the calling thread; NULL until its first event. */
extern __thread struct insitu_thread *insitu_self;
/* The row below which that of the calling thread stands, which is set before its first event; 0 is the program. */
extern __thread uint32_t insitu_thread_creator;
/* Nothing is recorded while `is_on` is zero: before the start, after the end, in forked children. The page that holds
 * it is wiped in every child, also in those of clone(), which run no handlers of pthread_atfork. The variable has room
 * for a page of any size on both sides, because loaders do not align more than to the page size. */
struct insitu_gate {
  char before[65536];
  int is_on;
  char after[65536];
};
extern struct insitu_gate insitu_gate;
#define insitu_is_on insitu_gate.is_on
/* Called in a thread that ends, before its area is released. heap.c sets it. */
extern void (*insitu_before_thread_ends)(void);

/* See intervals.c: the segment of each row in which it was last left or open, and the running segment. */
extern uint32_t insitu_interval_stamps[INSITU_ROWS];
extern uint32_t insitu_interval_segment;
/* A row is left for the first time in this segment: note its total. */
void insitu_interval_touch(const struct insitu_thread *self, uint32_t row);

/* Create the table file. Returns 0 or an errno; the application must run on without a table. */
int insitu_table_create(const char *path, int rank, int size, const char *program, const char *meta, size_t meta_bytes);
/* Whether measuring has ended before the process, which no longer permits it (restrictions.c): then no system call is
 * made and no clock is read. */
static inline int insitu_is_stopped(void) {
  return insitu_table && insitu_table->header->stopped[0];
}
/* Whether the table belongs to this process. In a child of clone(), which shares no memory with its parent but has the
 * same mapping of the file, it does not. */
int insitu_is_owner(void);
/* Return the area of this thread, created at its first event; NULL if there is no room. */
struct insitu_thread *insitu_thread_enter(void);
/* Append a row below `parent`, first among its siblings. Returns 0 if there is no room. */
uint32_t insitu_row_add(uint32_t parent, uint64_t key, enum insitu_kind kind, const char *name, size_t name_bytes,
                        const char *file, size_t file_bytes, uint32_t line);
/* An object was unloaded: rows of compiled functions that are no longer loaded are not found by their keys any more. */
void insitu_rows_forget(int (*is_loaded)(uint64_t key));
/* Return such a row of a function that is loaded again, 0 if there is none. */
uint32_t insitu_row_again(uint32_t parent, uint64_t key, const char *name, size_t name_bytes, const char *file,
                          size_t file_bytes);
/* Return the row that a call of `key` below `parent` shares because the function is already open further up, 0 if it is
 * not. From then on insitu_find_child returns it. */
uint32_t insitu_row_fold(uint32_t parent, uint64_t key);
/* Reserve disk space for the named phases. Returns 0 if there is none. */
int insitu_phases_reserve(void);
/* The same for the sets of opened files. */
int insitu_opened_reserve(void);
/* Reserve disk space for `count` collective events, messages or intervals. Returns 0 if there is none. */
int insitu_collectives_reserve(uint32_t count);
int insitu_messages_reserve(uint32_t count);
int insitu_intervals_reserve(uint32_t count);
/* The same for the lists of needed ranks. */
int insitu_listed_reserve(void);
/* Reserve disk space for the number of partners of a row. Returns 0 if there is none. */
int insitu_partners_reserve(uint32_t row);
/* Read the beginning of a small file as terminated text, "" if it cannot be read. Returns its length. */
size_t insitu_read_file(const char *path, char *text, size_t capacity);
/* Why a file cannot be opened; 0 if it can. */
int insitu_file_error(const char *path);
/* Read both clocks into latest_tick and latest_ns, from which a reader computes the length of a tick. */
void insitu_pair_clocks(void);
/* Read ticks and the unslewed clock at one moment. */
void insitu_pair_unslewed(uint64_t *tick, uint64_t *ns);

static inline struct insitu_thread *insitu_thread_self(void) {
  if (__builtin_expect(!insitu_is_on, 0)) return NULL;
  struct insitu_thread *self = insitu_self;
  return __builtin_expect(self != NULL, 1) ? self : insitu_thread_enter();
}

static inline struct insitu_frame *insitu_top(struct insitu_thread *self) {
  return &self->frames[self->depth - 1];
}

/* Whether functions of this thread are read from the stack: only regions are open, which are rows between them. */
static inline int insitu_is_unwound(struct insitu_thread *self) {
  return self->depth == 1 || insitu_top(self)->flags & INSITU_UNWOUND;
}

/* The rows by parent and key. An entry is 0, a row, or with INSITU_IS_FOLD the index of a fold: in mutual recursion a
 * function below `parent` shares the row of its open call further up. Entries are never removed. */
#define INSITU_INDEX (2u * INSITU_ROWS) /* a power of two */
#define INSITU_INDEX_SHIFT 47           /* 64 less the bits of INSITU_INDEX */
#define INSITU_IS_FOLD 0x80000000u
#define INSITU_FOLDS 16384u
struct insitu_fold {
  uint64_t key;
  uint32_t parent, row;
};
extern _Atomic uint32_t insitu_index[INSITU_INDEX];
extern struct insitu_fold insitu_folds[INSITU_FOLDS];

static inline uint32_t insitu_index_at(uint32_t parent, uint64_t key) {
  return (uint32_t)((key + parent * 0xD6E8FEB86659FD93u) * 0x9E3779B97F4A7C15u >> INSITU_INDEX_SHIFT);
}

/* Return the row of `key` below `parent`, 0 if there is none. If its parent is another row, the call is folded. */
static inline uint32_t insitu_find_child(uint32_t parent, uint64_t key) {
  const struct insitu_row *rows = insitu_rows;
  for (uint32_t at = insitu_index_at(parent, key);; at = (at + 1) & (INSITU_INDEX - 1)) {
    /* Acquire: the row or fold is complete. */
    uint32_t entry = atomic_load_explicit(&insitu_index[at], memory_order_acquire);
    if (!entry) return 0;
    if (__builtin_expect(entry & INSITU_IS_FOLD, 0)) {
      const struct insitu_fold *fold = &insitu_folds[entry ^ INSITU_IS_FOLD];
      if (fold->key == key && fold->parent == parent) return fold->row;
    } else if (rows[entry].key == key && rows[entry].parent == parent) {
      return entry;
    }
  }
}

/* How many bytes of a name are stored. */
#define INSITU_NAME_BYTES 1000u

/* Whether a row has this name. */
static inline int insitu_row_has_name(uint32_t row, const char *name) {
  /* Relaxed: the entry was complete before the row was. */
  uint32_t at = atomic_load_explicit(&insitu_rows[row].name, memory_order_relaxed);
  const struct insitu_name *entry = (const struct insitu_name *)(insitu_table->names + at);
  size_t bytes = entry->name_bytes;
  return !strncmp(entry->text, name, bytes) && (bytes == INSITU_NAME_BYTES || !name[bytes]);
}

/* FNV-1a, for keys of rows that are known by their names. */
static inline uint64_t insitu_hash_name(const char *name, size_t bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)name[i]) * 0x100000001B3u;
  return hash;
}

/* Put a frame on top. A signal handler that calls functions meanwhile writes the same memory, and gives it back; its
 * own start, which is later, then stands there. So the start is written first, and everything again if it is another.
 */
static inline void insitu_put_frame(struct insitu_thread *self, const struct insitu_frame fresh) {
  struct insitu_frame *frame = &self->frames[self->depth];
  frame->start = fresh.start;
  atomic_signal_fence(memory_order_seq_cst);
  *frame = fresh;
  /* A reader takes the frames below depth as open, so the frame is written before the depth. A compiler fence is
   * enough: readers compare two readings and discard frames that differ. */
  atomic_signal_fence(memory_order_seq_cst);
  self->depth++;
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(frame->start != fresh.start, 0)) *frame = fresh;
}

/* Open a row. `fresh` is the frame, without INSITU_FOLDED for a row that is open already. */
static inline void insitu_push_frame(struct insitu_thread *self, struct insitu_frame fresh) {
  if (__builtin_expect(self->depth == INSITU_DEPTH, 0)) {
    self->overflow++;
    insitu_table->header->frames_refused++;
    return;
  }
  if (insitu_rows[fresh.row].open_frames++) fresh.flags |= INSITU_FOLDED;
  insitu_put_frame(self, fresh);
}

static inline void insitu_push(struct insitu_thread *self, uint32_t row, uint32_t flags, uint64_t now) {
  insitu_push_frame(self, (struct insitu_frame){.start = now, .row = row, .flags = flags});
}

/* The total of a row is about to change. */
static inline void insitu_touch(const struct insitu_thread *self, uint32_t row) {
  /* Relaxed: other threads only have rows of their own, and may see a new segment late. */
  uint32_t segment = __atomic_load_n(&insitu_interval_segment, __ATOMIC_RELAXED);
  if (__builtin_expect(insitu_interval_stamps[row] != segment, 0)) insitu_interval_touch(self, row);
}

/* Close the frame on top. As soon as the depth is lower, a signal handler may write the memory of the frame. */
static inline void insitu_close_top(struct insitu_thread *self, uint64_t now) {
  struct insitu_frame *frame = &self->frames[self->depth - 1];
  struct insitu_row *row = &insitu_rows[frame->row];
  uint64_t start = frame->start, inside = frame->inside;
  uint32_t flags = frame->flags;
  insitu_touch(self, frame->row);
  atomic_signal_fence(memory_order_seq_cst);
  self->depth--;
  atomic_signal_fence(memory_order_seq_cst);
  /* What a handler took since `inside` was read, unless one came later and wrote the memory. */
  if (__builtin_expect(frame->start == start, 1)) inside = frame->inside;
  row->open_frames--;
  uint64_t elapsed = now - start;
  if (!(flags & INSITU_FOLDED)) row->time += elapsed;
  /* A handler that came after `now` was read may have taken longer than the function. */
  if (__builtin_expect(inside <= elapsed, 1)) row->time_exclusive += elapsed - inside;
  if (self->depth) frame[-1].inside += elapsed;
}

static inline void insitu_pop(struct insitu_thread *self, uint64_t now) {
  if (__builtin_expect(self->overflow != 0, 0)) self->overflow--;
  else insitu_close_top(self, now);
}

#endif
