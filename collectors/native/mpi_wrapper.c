/* One wrapper per MPI call. MPI's own mpi.h is not included: arguments pass as register-size integers, for MPICH, Open
 * MPI and the MPI 5 ABI alike. mpi_calls.def says what each call moves. */
#define _GNU_SOURCE
#include "mpi_wrapper.h"

#include "blocked.h"
#include "cart.h"
#include "finish.h"
#include "memory.h"
#include "mpi_collectives.h"
#include "mpi_messages.h"
#include "mpi_requests.h"
#include "partners.h"
#include "processor.h"
#include "sample.h"
#include "stack.h"
#include "table.h"
#include "unwind.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- one event ------------------------------------------------------------------------------------------------ */

static struct insitu_traffic nothing(void) {
  return (struct insitu_traffic){0, 0, 0, 0, 0};
}

/* Whether the wrapper of the open call is still on the stack: its return address has not been overwritten. The kernel
 * reads it, because the stack may be that of another context, and no longer mapped. */
static int is_on_stack(const struct insitu_mpi_thread *mine) {
  uintptr_t caller = 0;
  struct iovec here = {&caller, sizeof caller}, there = {(void *)(mine->stack + sizeof(void *)), sizeof caller};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 || caller == mine->caller;
}

/* Whether this call is made inside another MPI call (by a callback, by MPI-IO, by a signal handler, whose stack may be
 * above that of the thread): then it is not counted again. If longjmp left the outer call, its wrapper is no longer on
 * the stack: the frames of that call are closed, and 0 is returned. */
static __attribute__((noinline)) int is_inside(struct insitu_thread *self, struct insitu_mpi_thread *mine,
                                               uintptr_t stack) {
  int saved = errno, is_open = (stack < mine->stack || insitu_is_on_alternate_stack()) && is_on_stack(mine);
  errno = saved;
  if (is_open) return 1;
  uint64_t now = insitu_ticks();
  while (self->depth > mine->depth) insitu_pop(self, now);
  insitu_blocked_discard(mine, now);
  self->in_mpi = 0;
  return 0;
}

static __attribute__((noinline)) uint32_t find_row(struct insitu_mpi_thread *mine, unsigned at, uint32_t parent,
                                                   const char *name) {
  uint64_t key = (uint64_t)(uintptr_t)name;
  uint32_t row = insitu_find_child(parent, key);
  if (!row) {
    insitu_mpi_patch(); /* a library that was loaded meanwhile may call MPI too */
    insitu_sample_check();
    row = insitu_row_add(parent, key, INSITU_MPI, name, strlen(name), "", 0, 0);
  }
  struct insitu_recent_row *recent = &mine->recent_rows[at];
  recent->row = 0; /* a signal handler must not find the row of another call */
  atomic_signal_fence(memory_order_seq_cst);
  recent->key = key;
  recent->parent = parent;
  atomic_signal_fence(memory_order_seq_cst);
  recent->row = row;
  atomic_signal_fence(memory_order_seq_cst);
  if (recent->key != key || recent->parent != parent) recent->row = 0; /* a handler wrote between */
  return row;
}

/* Note the frame of the open MPI call. A signal handler that calls MPI before `in_mpi` is set notes its own, whose
 * stack is another one: so the stack is written first, and everything again if it has changed. */
static inline __attribute__((always_inline)) void note_open_call(struct insitu_thread *self,
                                                                 struct insitu_mpi_thread *mine, const void *frame) {
  for (;;) {
    mine->stack = (uintptr_t)frame;
    atomic_signal_fence(memory_order_seq_cst);
    mine->depth = self->depth;
    mine->caller = ((const uintptr_t *)frame)[1]; /* the return address follows the saved frame pointer */
    atomic_signal_fence(memory_order_seq_cst);
    self->in_mpi = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(mine->stack == (uintptr_t)frame, 1)) return;
  }
}

/* Begin an MPI call. Returns the thread, NULL if the call is not to be recorded. `frame` is that of the wrapper. */
static inline __attribute__((always_inline)) struct insitu_thread *enter(const char *name, const void *frame) {
  struct insitu_thread *self = insitu_thread_self();
  if (!self) return NULL;
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  if (__builtin_expect(!mine, 0) && !(mine = insitu_mpi_thread_enter())) return NULL;
  if (__builtin_expect(self->in_mpi, 0) && is_inside(self, mine, (uintptr_t)frame)) return NULL;
  uint32_t parent = insitu_top(self)->row;
  if (insitu_is_unwinding && insitu_is_unwound(self)) parent = insitu_unwind_caller(self, frame);
  /* Reading the clock waits for earlier instructions. Read here, it overlaps with finding the row. */
  uint64_t now = insitu_ticks();
  uint64_t key = (uint64_t)(uintptr_t)name;
  unsigned at = (unsigned)((key >> 2 ^ parent) & (INSITU_RECENT_ROWS - 1));
  uint32_t row = mine->recent_rows[at].row;
  if (__builtin_expect(mine->recent_rows[at].key != key || mine->recent_rows[at].parent != parent || !row, 0)) {
    row = find_row(mine, at, parent, name);
    now = insitu_ticks(); /* the search took long, and is not the time of the call */
  }
  if (__builtin_expect(!row || self->depth == INSITU_DEPTH, 0)) {
    insitu_messages_stop(INSITU_STOP_GAP);
    insitu_blocked_stop();
    return NULL;
  }
  insitu_blocked_before_call(mine, now);
  note_open_call(self, mine, frame);
  insitu_table->rows[row].visits++;
  insitu_push(self, row, 0, now);
  return self;
}

/* End an MPI call. Inline, so that values which a kind of call never moves cost nothing. */
static inline __attribute__((always_inline)) void leave(struct insitu_thread *self, const struct insitu_traffic *moved,
                                                        uint64_t now) {
  /* A call on another stack, of a coroutine, may have closed the frame of this one. */
  if (!insitu_is_on || __builtin_expect(self->depth <= insitu_mpi_mine->depth, 0)) {
    insitu_blocked_discard(insitu_mpi_mine, now);
    self->in_mpi = 0;
    return;
  }
  struct insitu_row *row = &insitu_table->rows[insitu_top(self)->row];
  row->bytes_sent += moved->sent;
  row->bytes_received += moved->received;
  row->messages_sent += moved->messages_sent;
  row->messages_received += moved->messages_received;
  row->comm_ranks += moved->ranks;
  if (__builtin_expect(insitu_mpi_mine->open_messages != 0, 0))
    insitu_messages_end(self, moved->messages_received, now);
  else insitu_mpi_mine->call_flags = 0;
  insitu_blocked_after_call(insitu_mpi_mine, insitu_top(self)->start, now);
  /* Only now: calls of a signal handler would wait for the lock of messages that this thread holds. */
  self->in_mpi = 0;
  insitu_pop(self, now);
}

/* Cleanup handler: runs when an exception or the end of the thread leaves an MPI call. */
static void abandon(struct insitu_thread **open) {
  struct insitu_thread *self = *open;
  struct insitu_traffic moved = nothing();
  if (!self || !self->in_mpi) return;
  uint64_t now = insitu_ticks();
  while (insitu_is_on && self->depth > insitu_mpi_mine->depth + 1) insitu_pop(self, now);
  leave(self, &moved, now);
}

/* ---- what a call moves ---------------------------------------------------------------------------------------- */

static uint64_t all_bytes(int64_t count, A type) {
  return count > 0 ? (uint64_t)count * insitu_mpi_type_bytes(type) : 0;
}

static int is_peer(A rank) {
  return (int)rank != (int)insitu_mpi.proc_null;
}

static int64_t count_at(A counts, int at, int is_large) {
  if (at < 0) return 0;
  return is_large ? ((const int64_t *)counts)[at] : ((const int *)counts)[at];
}

/* Out of line: a wrapper that contains this loop takes 8 ns longer (MPICH, one rank). */
static __attribute__((noinline)) int64_t sum_of_all(A counts, int n, int is_large) {
  int64_t sum = 0;
  if (is_large)
    for (int i = 0; i < n; i++) sum += ((const int64_t *)counts)[i];
  else
    for (int i = 0; i < n; i++) sum += ((const int *)counts)[i];
  return sum;
}

/* Return the sum of n counts without those of absent neighbours. */
static int64_t sum_of(A counts, int n, uint64_t absent, int is_large) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++)
    if (i >= 64 || !(absent >> i & 1)) sum += count_at(counts, i, is_large);
  return sum;
}

/* The same in bytes, with a type for each count. */
static uint64_t bytes_of(A counts, A types, int n, uint64_t absent, int is_large) {
  uint64_t sum = 0;
  for (int i = 0; i < n; i++)
    if (i >= 64 || !(absent >> i & 1)) sum += all_bytes(count_at(counts, i, is_large), insitu_mpi_handle_at(types, i));
  return sum;
}

/* Whether this rank is the root; in an intercommunicator it passes MPI_ROOT. */
static int is_root(A root, const struct insitu_comm *comm) {
  return (int)root == (comm->is_inter ? (int)insitu_mpi.root : comm->rank);
}

/* Whether this rank takes part without being the root; in an intercommunicator it is in the group without the root. */
static int is_leaf(A root, const struct insitu_comm *comm) {
  return comm->is_inter ? (int)root != (int)insitu_mpi.root && is_peer(root) : (int)root != comm->rank;
}

static uint64_t count_neighbours(int n, uint64_t absent) {
  return (uint64_t)(n - __builtin_popcountll(absent));
}

static inline void send(struct insitu_traffic *moved, uint64_t bytes) {
  moved->sent += bytes;
  moved->messages_sent++;
}

static inline void receive(struct insitu_traffic *moved, uint64_t bytes) {
  moved->received += bytes;
  moved->messages_received++;
}

/* Return what is known of a communicator with a topology; its neighbours are partners of the open call. */
static const struct insitu_comm *neighbours(A handle) {
  const struct insitu_comm *comm = insitu_mpi_neighbours(handle);
  uint32_t row = insitu_top(insitu_self)->row;
  if (!insitu_partner_is_recent(row, INSITU_ALL_NEIGHBOURS, comm->number)) insitu_partner_add_neighbours(row, comm);
  return comm;
}

/* A non-blocking receive was started. From any rank, the status of its completion has the source. Its communicator may
 * be freed by then, so ranks of other communicators than MPI_COMM_WORLD cannot be translated. */
static inline void expect(struct insitu_thread *self, A request, A source, A tag, A comm) {
  A handle = insitu_mpi_handle_at(request, 0);
  uint32_t row = insitu_top(self)->row;
  struct insitu_started started = {.envelope = insitu_envelope((int)source, (int)tag, comm, 1)};
  started.sampling = insitu_message_start(&started.envelope, insitu_top(self)->start, 0, &started.message);
  if (__builtin_expect((int)source >= 0 || !is_peer(source), 1)) {
    insitu_partner(row, source, comm);
    if (is_peer(source)) insitu_request_receive(handle, &started);
    return;
  }

  const struct insitu_comm *known = insitu_mpi_comm(comm);
  insitu_row_note_comm(row, known);
  if (insitu_partner_is_world(known)) {
    insitu_request_receive_any(handle, row, &started);
  } else {
    insitu_partner_unknown(row);
    insitu_request_receive(handle, &started);
  }
}

/* A non-blocking send was started. */
static inline void start_send(struct insitu_thread *self, A request, A peer, A tag, A comm, uint64_t bytes) {
  struct insitu_started started = {.envelope = insitu_envelope((int)peer, (int)tag, comm, 0)};
  started.sampling = insitu_message_start(&started.envelope, insitu_top(self)->start, bytes, &started.message);
  if (__builtin_expect(started.sampling != INSITU_UNSAMPLED, 0))
    insitu_request_send(insitu_mpi_handle_at(request, 0), &started);
  else if (insitu_mpi_is_multiple) insitu_request_other(insitu_mpi_handle_at(request, 0));
}

/* ---- non-blocking collectives ---------------------------------------------------------------------------------- */

/* A collective that is started, or will be. Passes in registers: a copy of fields that were just written stalls. */
struct collective {
  struct insitu_sequence *sequence;
  int32_t needs;
  uint32_t size; /* 0 if it is not compared */
};

/* Describe a collective of the communicator. Ranks need not synchronise in it. */
static inline struct collective collective(const struct insitu_comm *comm, int32_t needs, int is_synchronising) {
  struct insitu_sequence *sequence = insitu_sequence_of(comm);
  int is_compared = sequence->is_recorded && needs != INSITU_NEEDS_UNKNOWN;
  (void)is_synchronising;
  return (struct collective){sequence, needs, is_compared ? sequence->size : 0};
}

/* A collective was started. In a communicator of one rank nobody waits. */
static void start_collective(struct insitu_thread *self, struct collective its, A request) {
  struct insitu_sequence *sequence = its.sequence;
  A handle = insitu_mpi_handle_at(request, 0);
  if (sequence->size == 1) {
    if (insitu_mpi_is_multiple) insitu_request_other(handle);
    return;
  }

  struct insitu_started started = {.sampling = INSITU_SAMPLED};
  uint64_t id = insitu_mix(sequence->id, 1), now = insitu_top(self)->start;
  if (insitu_collective_start(id, now, &sequence->started) == INSITU_UNSAMPLED) {
    insitu_request_unclear(handle);
    return;
  }
  started.message = sequence->started;
  started.message.needs = its.needs;
  started.message.size = its.size;
  started.message.rank = sequence->rank;
  insitu_request_collective(handle, &started);
}

/* A persistent collective was created. Its starts are numbered by themselves: ranks may start several in any order. */
static void persist_collective(struct collective its, const struct insitu_traffic *moves, A request) {
  struct insitu_sequence *sequence = its.sequence;
  struct insitu_started started = {.message = INSITU_NONE_STARTED};
  started.envelope.id = insitu_mix(insitu_mix(sequence->id, 2), ++sequence->persistent);
  started.message.needs = its.needs;
  started.message.size = its.size;
  started.message.rank = sequence->rank;
  if (sequence->size == 1) started.message.flags = 0;
  insitu_request_persistent(insitu_mpi_handle_at(request, 0), moves, 0, &started);
}

/* ---- completion of requests ----------------------------------------------------------------------------------- */

/* MPI_STATUS_IGNORE is 0 or 1. */
static int is_ignored(A status) {
  return (uintptr_t)status <= 1;
}

/* Fill a status with that of no message. MPICH returns success, and writes no status, where an error handler of the
 * program has returned. */
static inline A empty_status(char *status) {
  memset(status, 0, 32); /* the status of every library */
  memcpy(status + insitu_mpi.error_at - 8, &(int){(int)insitu_mpi.proc_null}, sizeof(int));
  return (A)status;
}

/* Copies of the handles of several requests, which the call overwrites, and their statuses. */
struct many {
  const char *handles;
  A statuses;
  uint64_t created;
};

static struct many copy_requests(A count, A requests, A *statuses) {
  struct many many = {NULL, 0, insitu_requests_created()};
  int n = (int)count;
  if (n <= 0 || !insitu_requests_any()) return many;
  uint64_t handles_bytes = (uint64_t)n * insitu_mpi.handle_bytes, aligned = (handles_bytes + 15) / 16 * 16;
  char *scratch = insitu_mpi_scratch(aligned + (statuses ? (uint64_t)n * insitu_mpi.status_bytes : 0));
  if (!scratch) return many;
  memcpy(scratch, (const void *)requests, handles_bytes);
  many.handles = scratch;
  if (statuses && is_ignored(*statuses)) *statuses = (A)(scratch + aligned);
  if (statuses) many.statuses = *statuses;
  return many;
}

static inline void add_arrival(struct insitu_traffic *moved, struct insitu_arrival arrival) {
  moved->received += arrival.bytes;
  moved->messages_received += arrival.messages;
}

static void complete(const struct many *many, int at, A status, struct insitu_traffic *moved) {
  if (many->handles && at >= 0)
    add_arrival(moved, insitu_request_complete(insitu_mpi_handle_at((A)many->handles, at), many->created, status));
}

static void complete_all(const struct many *many, A count, struct insitu_traffic *moved) {
  if (!many->handles) return;
  for (int i = 0; i < (int)count; i++) complete(many, i, many->statuses + i * (A)insitu_mpi.status_bytes, moved);
}

static void complete_some(const struct many *many, A count, A indices, struct insitu_traffic *moved) {
  if (!many->handles) return;
  for (int i = 0; i < *(const int *)count; i++)
    complete(many, ((const int *)indices)[i], many->statuses + i * (A)insitu_mpi.status_bytes, moved);
}

/* A request of a call that failed. If statuses have error codes of their own, one without an error tells that its data
 * arrived. Otherwise a request whose handle is gone has completed, with an unknown number of bytes. Open and persistent
 * requests keep their handles. */
static void fail_at(const struct many *many, int at, A requests, A status, struct insitu_traffic *moved) {
  A handle = insitu_mpi_handle_at((A)many->handles, at);
  if (status && !insitu_mpi_status_error(status))
    add_arrival(moved, insitu_request_complete(handle, many->created, status));
  else if (insitu_mpi_handle_at(requests, at) != handle) insitu_request_forget(handle, many->created);
}

static void fail(const struct many *many, A count, A requests) {
  struct insitu_traffic unused;
  for (int i = 0; many->handles && i < (int)count; i++) fail_at(many, i, requests, 0, &unused);
}

static void fail_all(const struct many *many, A count, A requests, int failed, struct insitu_traffic *moved) {
  if (!insitu_mpi_is_in_status(failed)) return fail(many, count, requests);
  for (int i = 0; many->handles && i < (int)count; i++)
    fail_at(many, i, requests, many->statuses + i * (A)insitu_mpi.status_bytes, moved);
}

static void fail_some(const struct many *many, A count, A requests, A done, A indices, int failed,
                      struct insitu_traffic *moved) {
  if (insitu_mpi_is_in_status(failed))
    for (int i = 0; many->handles && i < *(const int *)done; i++)
      fail_at(many, ((const int *)indices)[i], requests, many->statuses + i * (A)insitu_mpi.status_bytes, moved);
  fail(many, count, requests);
}

static void start_all(A count, A requests, struct insitu_traffic *moved, uint64_t now) {
  for (int i = 0; i < (int)count; i++) insitu_request_start(insitu_mpi_handle_at(requests, i), moved, now);
}

/* A communicator is about to be freed: forget what is known of its handle. */
static void free_comm(A comm) {
  insitu_sequence_forget(insitu_mpi_handle_at(comm, 0));
  insitu_mpi_freed(&insitu_mpi_comms_freed);
}

/* ---- the wrappers --------------------------------------------------------------------------------------------- */

#include "mpi_wrapper_macros.h"

/* ---- initialisation and end of MPI ---------------------------------------------------------------------------- */

static int (*real_Init)(A, A), (*real_Init_thread)(A, A, A, A), (*real_Finalize)(void), (*real_Abort)(A, A),
    (*real_Type_free)(A);

static void record_world(void) {
  if (!insitu_is_on) return;
  struct insitu_header *header = insitu_table->header;
  int rank = -1, size = -1;
  if (!insitu_mpi_world(&rank, &size)) {
    header->mpi_rank = rank;
    header->mpi_size = size;
  }
  header->mpi_state = INSITU_MPI_INITIALISED;
  insitu_mpi_patch(); /* objects that the library itself loaded */
}

void insitu_mpi_start(void) {
  insitu_mpi_patch();
  if (insitu_mpi_is_initialised()) record_world();
}

static int end_init(struct insitu_thread *self, int failed) {
  struct insitu_traffic moved = nothing();
  if (self) leave(self, &moved, insitu_ticks());
  insitu_memory_after_init();
  insitu_processor_after_init();
  insitu_blocked_begin();
  if (!failed) record_world();
  return failed;
}

static int wrap_Init(A argc, A argv) {
  insitu_memory_before_init();
  struct insitu_thread *self = enter("MPI_Init", __builtin_frame_address(0));
  return end_init(self, real_Init(argc, argv));
}

static int wrap_Init_thread(A argc, A argv, A required, A provided) {
  insitu_memory_before_init();
  struct insitu_thread *self = enter("MPI_Init", __builtin_frame_address(0));
  return end_init(self, real_Init_thread(argc, argv, required, provided));
}

static int wrap_Finalize(void) {
  insitu_memory_before_finalize();
  insitu_processor_before_finalize();
  insitu_blocked_end();
  struct insitu_thread *self = enter("MPI_Finalize", __builtin_frame_address(0));
  struct insitu_traffic moved = nothing();
  int failed = real_Finalize();
  if (self) leave(self, &moved, insitu_ticks());
  if (insitu_is_owner()) insitu_table->header->mpi_state = INSITU_MPI_FINALISED;
  return failed;
}

static int wrap_Abort(A comm, A code) {
  insitu_finish(INSITU_ABORTED, (int)code);
  return real_Abort(comm, code);
}

static int wrap_Type_free(A type) {
  insitu_mpi_freed(&insitu_mpi_types_freed); /* also where the call is not counted: the handle may be used again */
  struct insitu_thread *self = enter("MPI_Type_free", __builtin_frame_address(0));
  __attribute__((cleanup(abandon))) struct insitu_thread *open = self;
  struct insitu_traffic moved = nothing();
  int failed = real_Type_free(type);
  open = NULL;
  if (self) leave(self, &moved, insitu_ticks());
  return failed;
}

/* ---- the table of wrappers ------------------------------------------------------------------------------------ */

#define ENTRY(NAME, LARGE) {"MPI_" #NAME #LARGE, (Function *)&real_##NAME##LARGE, (Function)wrap_##NAME##LARGE, 0, 0},
#define SMALL(NAME, ...) ENTRY(NAME, )
#define COMPLETION SMALL
#define CALL(NAME, ...) ENTRY(NAME, ) ENTRY(NAME, _c)
#define COLLECTIVE(NAME, INAME, ...) CALL(NAME) CALL(INAME) CALL(NAME##_init)
#define NEIGHBOURS COLLECTIVE
struct insitu_mpi_call insitu_mpi_calls[] = {
#include "mpi_calls.def"
    ENTRY(Init, ) ENTRY(Init_thread, ) ENTRY(Finalize, ) ENTRY(Abort, ) ENTRY(Type_free, )};
const size_t insitu_mpi_calls_count = sizeof insitu_mpi_calls / sizeof *insitu_mpi_calls;
