/* The header of a rank's table, its first page. collectors/table_header.py declares it again. Fields are only appended.
 */
#ifndef INSITU_TABLE_HEADER_H
#define INSITU_TABLE_HEADER_H

#include <stdatomic.h>
#include <stdint.h>

#define INSITU_HEADER_BYTES 4096
#define INSITU_AXES 4        /* of a Cartesian communicator; coordinates in one with more axes are not recorded */
#define INSITU_ITERATIONS 64 /* sampled iterations of the main loop */

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
  int32_t mpi_rank; /* from MPI, -1 while unknown */
  int32_t mpi_size;
  uint64_t pid;
  uint64_t pid_started; /* clock ticks since boot, field 22 of /proc/PID/stat */
  uint64_t created_ns;  /* since 1970 */
  uint64_t start_tick;
  uint64_t start_ns; /* monotonic, read together with start_tick */
  uint64_t latest_tick;
  uint64_t latest_ns; /* monotonic, read together with latest_tick */
  uint64_t ended_ns;  /* since 1970 */
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
  int32_t cart_coordinates[INSITU_AXES];
  double event_ns;     /* estimated cost of one recorded call of a Python function, 0 if unknown */
  double budget;       /* largest share of the time that the hook may take, 0 for no limit */
  uint64_t hook_ticks; /* estimated time that the hook has taken */
  uint32_t throttled;  /* functions that are no longer recorded */
  uint32_t loop_row;   /* the row of the main loop: entering it begins an iteration */
  uint64_t iterations; /* timed iterations of the main loop */
  uint64_t iteration_ticks[INSITU_ITERATIONS];   /* a sample of them */
  uint32_t iteration_numbers[INSITU_ITERATIONS]; /* their positions among all iterations */
  uint64_t marks;                                /* calls of insitu.phase */
  char latest_mark[24];                          /* the argument of the latest one */
  uint64_t memory_pss;                           /* at the end, 0 where reading it would take long */
  uint64_t memory_private;
  uint64_t memory_shared;
  uint64_t memory_swap;
  uint64_t memory_mpi;      /* bytes taken by MPI, known from MPI_Finalize on */
  uint64_t instructions;    /* in user space, at the end; 0 where they cannot be counted */
  uint64_t cycles;          /* likewise */
  uint64_t subinterpreters; /* created by the program, counted by site/start_in_rank.py; they are not measured */
  uint64_t phases_at;
  uint32_t phase_bytes;
  _Atomic uint32_t phases_used;
  uint64_t named_marks;    /* marks that began a named phase */
  uint32_t current_phase;  /* the running named phase, counted from 1; 0 while there is none */
  uint32_t previous_phase; /* the one that ended last */
  uint64_t collectives_at;
  uint32_t collectives_used;
  uint32_t collectives_sequence; /* odd while events are being moved */
  uint64_t threads_refused;      /* threads for which there was no area */
  uint64_t stacks_unread;        /* MPI calls whose callers are unknown, because a function has no unwind rule */
  char unread_object[40];        /* the first object with such a function, "" for the program itself */
  /* The first process of this rank: a shell, if the launcher started one that started this process; else this one. */
  uint64_t root_pid;
  uint64_t root_started;     /* like pid_started */
  uint64_t calls_misplaced;  /* calls of greenlets that do not report their turns, which ended below calls of others */
  uint64_t codes_refused;    /* calls of functions for which there was no room among the code objects */
  uint64_t cpu_ns;           /* processor time of the process at its end */
  uint32_t busy_threads;     /* of those that lived at the end, 0 if unknown; see processor.c */
  uint32_t sample_hz;        /* samples per second of CPU time, 0 if functions are not sampled */
  uint64_t samples;          /* outside of MPI calls */
  uint64_t samples_unread;   /* those whose stack could not be read */
  char sampling_refused[48]; /* why functions are not sampled although it was requested */
  uint64_t partners_at;      /* for each row a u4: see INSITU_PARTNER_ONLY; 0: not known */
  uint64_t partners_refused; /* calls whose partner was not recorded, because there was no room */
  uint64_t opened_at;
  _Atomic uint32_t opened_used;
  uint32_t opened_refused; /* whether a set of files is incomplete although it is not full */
  uint64_t messages_at;
  uint32_t messages_used;
  uint32_t messages_sequence;   /* odd while messages are being moved */
  uint32_t messages_level;      /* all messages of a lower sampling level were dropped */
  uint32_t message_pairs_level; /* of pairs of ranks: keys with fewer leading zero bits were dropped */
  /* Messages whose number among those of their ranks is unknown: after MPI_Cancel; after calls that were not recorded;
   * on communicators without an order; of several threads; received while a receive from a wildcard was open. */
  uint64_t refused_after_cancel;
  uint64_t refused_after_gap;
  uint64_t refused_without_order;
  uint64_t refused_of_threads;
  uint64_t refused_after_wildcard;
  uint64_t intervals_at;
  uint32_t intervals_used;
  uint32_t intervals_sequence;  /* odd while intervals are being moved */
  uint64_t intervals_threshold; /* ticks; longer intervals are all kept */
  /* Two moments by ticks and by the unslewed clock: at the start, and at the end of the rank. */
  uint64_t first_tick;
  uint64_t first_unslewed_ns;
  uint64_t last_tick;
  uint64_t last_unslewed_ns; /* 0 while running */
  char stopped[64];          /* why nothing is measured any more although the process runs; see restrictions.c */
  uint64_t mpi_unseen; /* 1: MPI was initialised by a call that was not recorded; 2: by another library (dlmopen) */
  uint64_t exits_unmatched; /* ends of compiled functions that were not open */
  char device_refused[96];  /* why devices are not measured, or not any more, although the program uses them */
  uint64_t device_busy_ns;  /* summed over devices: the time in which they did something for this process */
  uint64_t device_span_ns;  /* likewise: from the first thing that they did to the last */
  uint64_t device_memory_peak;
  uint64_t device_unattributed; /* records whose launch is unknown; they are in rows below the program */
  uint64_t device_dropped;      /* records that are lost */
  uint64_t samples_taken;       /* inside of MPI calls, too */
  uint64_t samples_timing;      /* those that hit the code that times compiled functions */
  /* Lists of ranks that a rank needs in neighbourhood collectives, its sources: each a u4 that counts them, and as many
   * u4. */
  uint64_t listed_at;
  uint64_t listed_used;      /* words */
  uint64_t uncompared_ticks; /* of collective calls whose waiting cannot be known, and of calls that complete them */
  /* Why: calls on intercommunicators, on communicators that not all ranks number alike, and of neighbourhoods for whose
   * lists there was no room. */
  uint64_t uncompared_inter;
  uint64_t uncompared_unnumbered;
  uint64_t uncompared_unlisted;
  uint64_t collectives_started; /* non-blocking ones, and starts of persistent ones */
  uint64_t queued_ns;           /* the main thread waited for a processor, without start-up; 0 if unknown */
  uint64_t blocked_ns;          /* it was blocked outside MPI calls, likewise */
  uint64_t evaluator_replaced;  /* whether another frame evaluator stood in the place of ours at the end */
  uint32_t unread;              /* what is missing because the process could not read about itself at its end */
  int32_t unread_error;         /* the error number */
  uint64_t samples_precise;     /* of those taken: when the task clock ticked, see task_clock.h */
};
/* The bits of `unread`. */
enum {
  INSITU_UNREAD_MEMORY = 1,
  INSITU_UNREAD_MPI_MEMORY = 2,
  INSITU_UNREAD_QUEUED = 4,
  INSITU_UNREAD_BUSY_THREADS = 8,
  INSITU_UNREAD_BLOCKED = 16,
};
_Static_assert(sizeof(struct insitu_header) <= INSITU_HEADER_BYTES, "the header is one page");

#endif
