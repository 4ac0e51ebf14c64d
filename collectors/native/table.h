/* THE layout of a rank's table: a memory-mapped file that outlives the rank.
 *
 * One writer per thread area and per row, plain aligned 64-bit stores; readers in other processes see totals that
 * are at most one event old. The file describes its own columns, so that a reader needs no copy of this page. */
#ifndef INSITU_TABLE_H
#define INSITU_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"

#define INSITU_MAGIC "INSITUT1"
#define INSITU_VERSION 1
#define INSITU_ROWS 65536
#define INSITU_THREADS 256
#define INSITU_DEPTH 1023 /* frames of one thread that are recorded; deeper ones are counted into the last */
#define INSITU_NAMES_BYTES (8u << 20)
#define INSITU_META_BYTES (64u << 10)
#define INSITU_AXES 4   /* of a Cartesian communicator; of one with more no places are kept */
#define INSITU_TURNS 64 /* iterations of the main loop that are kept */
#define INSITU_PHASES 64
#define INSITU_MEETINGS 4096u /* collective calls that are kept */

/* The columns of a row: name, unit, kinds of rows that have it. Times are ticks. */
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

enum insitu_kind {
  INSITU_PROGRAM = 0,
  INSITU_PYTHON = 1,
  INSITU_LIBRARY = 2,
  INSITU_MPI = 3,
  INSITU_THREAD = 4,
  INSITU_REGION = 5,   /* the program's own mark */
  INSITU_BUILTIN = 6,  /* a function in C, called from Python */
  INSITU_COMPILED = 7, /* its name is its address, its file the object */
  INSITU_PHASE = 8,    /* all that the process does between two marks of the program */
};
enum insitu_state { INSITU_RUNNING = 0, INSITU_ENDED = 1, INSITU_ABORTED = 2 };
enum insitu_mpi_state { INSITU_MPI_NONE = 0, INSITU_MPI_INITIALISED = 1, INSITU_MPI_FINALISED = 2 };

struct insitu_row {
  uint64_t key; /* what the writer compares: code object, name constant; meaningless to readers */
  uint32_t parent;
  uint32_t first_child;
  uint32_t next_sibling;
  _Atomic uint32_t name; /* offset in the name pool; 0 until the row is ready (release) */
  uint32_t kind;
  uint32_t flags;
#define X(column, unit, kinds) uint64_t column;
  INSITU_COLUMNS(X)
#undef X
};
_Static_assert(sizeof(struct insitu_row) == 128, "a row is two cache lines");

struct insitu_frame {
  uint64_t start;  /* ticks */
  uint64_t inside; /* ticks spent in frames above this one */
  uint32_t row;
  uint32_t flags;
  uint32_t skipped; /* library calls inside a library call, which are not recorded */
  uint32_t stack;   /* where a compiled function stands on its stack, 0 for other frames */
};
enum { INSITU_FOLDED = 1 };  /* re-entered directly: adds no inclusive time */
enum { INSITU_UNNAMED = 2 }; /* a compiled function for which there was no row */

struct insitu_thread {
  _Atomic uint32_t is_live;
  uint32_t root;
  uint32_t depth;
  uint32_t in_mpi;
  uint64_t overflow; /* frames beyond INSITU_DEPTH that are open now */
  uint64_t spare;
  struct insitu_frame frames[INSITU_DEPTH];
};
_Static_assert(sizeof(struct insitu_thread) == 32 + 32 * INSITU_DEPTH, "frames follow the head of a thread");

/* A blocking collective call, from which readers of all ranks' tables tell who waited for whom. */
struct insitu_meeting {
  uint64_t key; /* the same in all ranks of the communicator */
  uint64_t begin, end;
  uint32_t row;
  int32_t needs; /* whose part this rank needs: a rank, -1 for all, -2 for nobody, -3 for those below it */
  uint32_t rank, size;
};

struct insitu_name {
  uint32_t line;
  uint16_t name_bytes;
  uint16_t file_bytes;
  char text[]; /* name, then file, not terminated; records are padded to 8 bytes */
};

/* A phase that the program has named, beyond what its row says. Levels are those at its end. */
struct insitu_phase {
  uint32_t row;
  uint32_t spare;
  uint64_t memory_rss;
  uint64_t memory_rss_peak; /* of the process, until then */
  uint64_t memory_pss;      /* like the following, 0 where that would have taken long */
  uint64_t memory_private;
  uint64_t memory_shared;
  uint64_t memory_swap;
  uint64_t instructions;
  uint64_t cycles;
};

struct insitu_header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t rows_at;
  uint64_t threads_at;
  uint64_t names_at;
  uint64_t meta_at;
  uint32_t row_bytes;
  uint32_t row_capacity;
  uint32_t thread_bytes;
  uint32_t thread_capacity;
  uint32_t frame_bytes;
  uint32_t frame_capacity;
  _Atomic uint32_t rows_used;
  _Atomic uint32_t threads_used;
  _Atomic uint64_t names_used;
  uint64_t meta_used;
  int32_t rank; /* from the launcher */
  int32_t size;
  int32_t mpi_rank; /* from MPI itself, -1 while unknown */
  int32_t mpi_size;
  uint64_t pid;
  uint64_t pid_started; /* clock ticks since boot, field 22 of /proc/PID/stat */
  uint64_t created_ns;  /* since 1970 */
  uint64_t start_tick;
  uint64_t start_ns; /* monotonic, read together with start_tick */
  uint64_t latest_tick;
  uint64_t latest_ns;
  uint64_t ended_ns; /* since 1970 */
  uint32_t state;
  int32_t exit_status;
  uint32_t mpi_state;
  uint32_t is_tsc;
  uint64_t memory_rss;      /* bytes at the end, 0 while running */
  uint64_t memory_rss_peak; /* VmHWM at the end */
  uint64_t rows_refused;    /* rows for which there was no room */
  uint64_t frames_refused;
  char hook[24];
  char columns[1024]; /* "name unit kinds offset;" per column */
  int32_t cart_axes;  /* of the largest Cartesian communicator, 0 while there is none */
  int32_t cart_ranks;
  int32_t cart_at[INSITU_AXES];        /* where this rank is in it */
  double event_ns;                     /* what timing one call of a Python function costs, 0 where it is not known */
  double budget;                       /* the share of time that the hook may take, 0 for any */
  uint64_t hook_ticks;                 /* what it has taken, estimated */
  uint32_t throttled;                  /* functions that are not recorded any more */
  uint32_t loop_row;                   /* whose entries begin the iterations of the main loop */
  uint64_t turns;                      /* iterations of it that were timed */
  uint64_t turn_ticks[INSITU_TURNS];   /* a sample of them */
  uint32_t turn_numbers[INSITU_TURNS]; /* which of all iterations they are */
  uint64_t phases;                     /* marks of the program */
  char phase[24];                      /* the latest */
  uint64_t memory_pss;                 /* at the end, 0 where that would have taken long */
  uint64_t memory_private;
  uint64_t memory_shared;
  uint64_t memory_swap;
  uint64_t memory_mpi;   /* bytes that MPI takes, known from MPI_Finalize on */
  uint64_t instructions; /* in user space, at the end; 0 where they cannot be counted */
  uint64_t cycles;
  uint64_t subinterpreters; /* that the program made, written by site/sitecustomize.py: they are not measured */
  uint64_t phases_at;
  uint32_t phase_bytes;
  _Atomic uint32_t phases_used;
  uint64_t phase_marks;  /* of named phases */
  uint32_t phase_now;    /* the named phase that runs, counted from 1; 0 while there is none */
  uint32_t phase_before; /* the one that ended last */
  uint64_t meetings_at;
  uint32_t meetings_used;
  uint32_t meetings_turn; /* odd while they are being moved */
};
_Static_assert(sizeof(struct insitu_header) <= 4096, "the header is one page");

struct insitu_table {
  struct insitu_header *header;
  struct insitu_row *rows;
  struct insitu_thread *threads;
  struct insitu_phase *phases;
  struct insitu_meeting *meetings;
  char *names;
  char path[1024];
};

/* The one table of this process; NULL while there is none. */
extern struct insitu_table *insitu_table;
/* Its rows. */
extern struct insitu_row *insitu_rows;
/* The thread area of the calling thread; NULL until its first event. */
extern __thread struct insitu_thread *insitu_self;
/* Nothing is recorded while this is zero: before the start, after the end, in forked children. */
extern int insitu_is_on;

/* Make the table file. Returns 0 or an errno; the application must run on without a table. */
int insitu_table_create(const char *path, int rank, int size, const char *program, const char *meta, size_t meta_bytes);
/* Go on with the table that this process made before it became another program. Returns 0 or an errno. */
int insitu_table_attach(const char *path);
/* Close all open frames of this thread and mark the table as ended. */
void insitu_table_end(int state, int exit_status);
/* The area of this thread, made at its first event; NULL if there is no room. */
struct insitu_thread *insitu_thread_enter(void);
/* Append a row below `parent`, first among its siblings; 0 if there is no room. */
uint32_t insitu_row_add(uint32_t parent, uint64_t key, enum insitu_kind kind, const char *name, size_t name_bytes,
                        const char *file, size_t file_bytes, uint32_t line);
/* Reserve the page of the named phases; 0 if there is no room. */
int insitu_phases_back(void);
/* Reserve room for so many meetings. Returns 0 if there is none. */
int insitu_meetings_back(uint32_t count);
/* The beginning of a small file as text, "" if it cannot be read; its length. */
size_t insitu_read_file(const char *path, char *text, size_t capacity);
/* Pair the two clocks once more, so that a reader can tell how long a tick is. */
void insitu_stamp(void);

static inline struct insitu_thread *insitu_thread_self(void) {
  if (__builtin_expect(!insitu_is_on, 0)) return NULL;
  struct insitu_thread *self = insitu_self;
  return __builtin_expect(self != NULL, 1) ? self : insitu_thread_enter();
}

static inline struct insitu_frame *insitu_top(struct insitu_thread *self) {
  return &self->frames[self->depth - 1];
}

/* The child of `parent` with this key, 0 if it has none. A found child moves nothing: siblings are few. */
static inline uint32_t insitu_child(uint32_t parent, uint64_t key) {
  const struct insitu_row *rows = insitu_table->rows;
  for (uint32_t row = rows[parent].first_child; row; row = rows[row].next_sibling)
    if (rows[row].key == key) return row;
  return 0;
}

static inline void insitu_push(struct insitu_thread *self, uint32_t row, uint32_t flags, uint64_t now) {
  if (__builtin_expect(self->depth == INSITU_DEPTH, 0)) {
    self->overflow++;
    insitu_table->header->frames_refused++;
    return;
  }
  struct insitu_frame *frame = &self->frames[self->depth];
  frame->start = now;
  frame->inside = 0;
  frame->row = row;
  frame->flags = flags;
  frame->skipped = 0;
  frame->stack = 0;
  /* A reader takes the frames below depth as open: publish the frame before the depth. */
  atomic_signal_fence(memory_order_release);
  self->depth++;
}

static inline void insitu_pop(struct insitu_thread *self, uint64_t now) {
  if (__builtin_expect(self->overflow != 0, 0)) {
    self->overflow--;
    return;
  }
  struct insitu_frame *frame = &self->frames[self->depth - 1];
  struct insitu_row *row = &insitu_table->rows[frame->row];
  uint64_t elapsed = now - frame->start;
  self->depth--;
  if (!(frame->flags & INSITU_FOLDED)) row->time += elapsed;
  row->time_exclusive += elapsed - frame->inside;
  if (self->depth) frame[-1].inside += elapsed;
}

#endif
