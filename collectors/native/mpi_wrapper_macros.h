/* The vocabulary of mpi_calls.def, and the wrappers generated from it. Included by mpi_wrapper.c only.
 *
 * P<n> are n parameters, V<n> n arguments. */

#define P1 A a0
#define P2 P1, A a1
#define P3 P2, A a2
#define P4 P3, A a3
#define P5 P4, A a4
#define P6 P5, A a5
#define P7 P6, A a6
#define P8 P7, A a7
#define P9 P8, A a8
#define P10 P9, A a9
#define P11 P10, A a10
#define P12 P11, A a11
#define P13 P12, A a12
#define V1 a0
#define V2 V1, a1
#define V3 V2, a2
#define V4 V3, a3
#define V5 V4, a4
#define V6 V5, a5
#define V7 V6, a6
#define V8 V7, a7
#define V9 V8, a8
#define V10 V9, a9
#define V11 V10, a10
#define V12 V11, a11
#define V13 V12, a12
/* The number of arguments of the non-blocking variant, with a request, and of the persistent one, with an info and a
 * request. */
#define PLUS1_1 2
#define PLUS1_5 6
#define PLUS1_6 7
#define PLUS1_7 8
#define PLUS1_8 9
#define PLUS1_9 10
#define PLUS2_1 3
#define PLUS2_5 7
#define PLUS2_6 8
#define PLUS2_7 9
#define PLUS2_8 10
#define PLUS2_9 11
/* The last of n arguments. */
#define LAST2 a1
#define LAST3 a2
#define LAST6 a5
#define LAST7 a6
#define LAST8 a7
#define LAST9 a8
#define LAST10 a9
#define LAST11 a10
#define PASTE_(left, right) left##right
#define PASTE(left, right) PASTE_(left, right)

/* For expressions in mpi_calls.def. `comm` is the communicator of a collective call. */
#define N(count) (IS_LARGE ? (int64_t)(count) : (int64_t)(int)(count))
#define BYTES(count, type) all_bytes(count, type)
#define STATUS(status) insitu_mpi_status_bytes(status)
#define PEER(rank) is_peer(rank)
#define ROOT(root) is_root(root, comm)
#define LEAF(root) is_leaf(root, comm)
#define TAKES_PART(root) \
  (!comm->is_inter || is_leaf(root, comm)) /* whether data of this rank go to the root or come from it */
#define IN_PLACE(buffer) ((buffer) == insitu_mpi.in_place)
#define IS_NO_OP(op) (insitu_mpi_handle(op) == insitu_mpi.no_op)
#define PEERS ((uint64_t)comm->peers)
#define AT(counts, at) count_at(counts, at, IS_LARGE)
#define SUM(counts) sum_of_all(counts, comm->peers, IS_LARGE)
#define SUM_BYTES(counts, types) bytes_of(counts, types, comm->peers, 0, IS_LARGE)
#define SOURCES count_neighbours(comm->sources, comm->absent)
#define TARGETS count_neighbours(comm->targets, comm->absent)
#define FROM(counts) sum_of(counts, comm->sources, comm->absent, IS_LARGE)
#define TO(counts) sum_of(counts, comm->targets, comm->absent, IS_LARGE)
#define FROM_BYTES(counts, types) bytes_of(counts, types, comm->sources, comm->absent, IS_LARGE)
#define TO_BYTES(counts, types) bytes_of(counts, types, comm->targets, comm->absent, IS_LARGE)

/* What a rank needs to leave the call, and whether every rank needs all others then; a rank that receives nothing needs
 * nobody. */
#define EVERYBODY INSITU_NEEDS_ALL, 1
#define ALL (moved.received ? INSITU_NEEDS_ALL : INSITU_NEEDS_NOBODY), moved.received != 0
#define ALL_AT_ROOT (moved.received ? INSITU_NEEDS_ALL : INSITU_NEEDS_NOBODY), 0
#define LOWER (moved.received ? INSITU_NEEDS_LOWER : INSITU_NEEDS_NOBODY), 0
#define ONE(root) (moved.received ? (int32_t)(root) : INSITU_NEEDS_NOBODY), 0
#define SOURCES_OF_DATA (moved.received ? insitu_collective_sources(comm) : INSITU_NEEDS_NOBODY), 0

/* Before the call. */
#define NOTHING (void)0
#define OWN_STATUS(status)                                           \
  _Alignas(16) char own_status[256]; /* larger than any library's */ \
  if (is_ignored(status)) status = empty_status(own_status)
#define HOLD(request)                          \
  A handle = insitu_mpi_handle_at(request, 0); \
  uint64_t created = insitu_requests_created()
#define HOLD_STATUS(request, status) \
  HOLD(request);                     \
  OWN_STATUS(status)
#define MANY(count, requests) struct many many = copy_requests(count, requests, NULL)
#define MANY_STATUS(count, requests, status) \
  MANY(count, requests);                     \
  OWN_STATUS(status)
#define MANY_STATUSES(count, requests, statuses) struct many many = copy_requests(count, requests, &statuses)
#define MESSAGE(message) int is_real = insitu_mpi_handle_at(message, 0) != insitu_mpi.no_message
#define MESSAGE_STATUS(message, status) \
  MESSAGE(message);                     \
  OWN_STATUS(status)

/* After a call that succeeded. */
#define SEND(is_message, bytes) \
  if (is_message) send(&moved, bytes)
#define RECEIVE(is_message, bytes) \
  if (is_message) receive(&moved, bytes)
#define SEND_RECEIVE(is_sent, sent, is_received, received) \
  SEND(is_sent, sent);                                     \
  RECEIVE(is_received, received)
#define READ(bytes) moved.received = bytes
#define WRITE(bytes) moved.sent = bytes
/* The memory of a window, which the agent tells from received bytes by the name of the call. */
#define ALLOCATED(bytes) moved.received = (uint64_t)(bytes)
#define RANKS(comm) moved.ranks = ranks_of(self, insitu_mpi_comm(comm))
#define GROUP(group) moved.ranks = insitu_mpi_group_size(group)
/* Record the coordinates of this rank in a Cartesian communicator that was just created. */
#define COORDINATES(created) \
  if (insitu_mpi_handle_at(created, 0) != insitu_mpi.comm_null) insitu_cart_created(insitu_mpi_handle_at(created, 0))
/* The message of MPI_Imrecv was numbered when it was matched. */
#define EXPECT(request, is_message) \
  if (is_message)                   \
  insitu_request_receive(insitu_mpi_handle_at(request, 0), &(struct insitu_started){.sampling = INSITU_UNSAMPLED})
#define EXPECT_FROM(request, source, tag, comm) expect(self, request, source, tag, comm)
/* The call has sent or received a message, which both ranks number. */
#define SENT(rank, tag, comm) insitu_message_sent(self, rank, tag, comm, moved.sent)
#define GOT(status, comm) insitu_message_received(self, status, comm, 0)
#define PROBED(status, comm) insitu_message_received(self, status, comm, INSITU_PROBED)
#define MATCHED(status, comm) insitu_message_received(self, status, comm, INSITU_MATCHED)
/* The call does not wait; or it returns with the first message that arrives. */
#define POLLS insitu_mpi_mine->call_flags |= insitu_mpi_mine->open_messages ? INSITU_UNCLEAR : 0
#define FIRST insitu_mpi_mine->call_flags |= insitu_mpi_mine->open_messages ? INSITU_FIRST : 0
#define CREATED(comm, parent, origin) insitu_sequence_create(insitu_mpi_handle_at(comm, 0), parent, INSITU_##origin)
/* The call sends to this rank or receives from it. */
#define PARTNER(rank, comm) insitu_partner(insitu_top(self)->row, rank, comm)
#define SOURCE(status, comm) PARTNER(insitu_mpi_status_source(status), comm)
/* The call accesses the window of this rank. */
#define TARGET(rank, window) insitu_partner_target(insitu_top(self)->row, rank, window)
#define EXPECT_READ(request) insitu_request_read(insitu_mpi_handle_at(request, 0))
/* A request that is neither a message nor a compared collective. */
#define OTHER(request) insitu_request_unclear(insitu_mpi_handle_at(request, 0))
/* The call is a collective of this communicator; no rank leaves it before all have entered. */
#define MEETING(comm) insitu_collective_end(self, insitu_mpi_comm(comm), EVERYBODY, now)
/* The call has created a window or a file on a communicator. A file is a pointer in all ABIs. */
#define CREATED_WINDOW(window, comm) insitu_object_create(insitu_mpi_handle_at(window, 0), insitu_mpi_comm(comm))
#define CREATED_FILE(file, comm) insitu_object_create(*(const A *)(file), insitu_mpi_comm(comm))
/* The call is a collective of this window or file; or frees it. */
#define MEETING_AT(object) insitu_object_end(self, object, now)
#define WINDOW(window) insitu_mpi_handle(window)
#define LAST_OF_WINDOW(window)                                                         \
  struct insitu_sequence last = insitu_object_forget(insitu_mpi_handle_at(window, 0)); \
  insitu_mpi_freed(&insitu_mpi_comms_freed)
#define LAST_OF_FILE(file) struct insitu_sequence last = insitu_object_forget(*(const A *)(file))
#define LAST_MEETING insitu_object_end_last(self, &last, now)
#define SEND_START(is_message, bytes, request) \
  SEND(is_message, bytes);                     \
  OTHER(request)
#define MESSAGE_START(rank, tag, comm, bytes, request) \
  SEND(PEER(rank), bytes);                             \
  start_send(self, request, rank, tag, comm, moved.sent)
/* Of a persistent request: the envelope of its messages. */
#define ENVELOPE(rank, tag, comm, is_receive) \
  struct insitu_started started = {.envelope = insitu_envelope((int)(rank), (int)(tag), comm, is_receive)}
#define EACH_SEND(request, is_message, bytes) \
  SEND(is_message, bytes);                    \
  PERSIST(request, &started)
#define EACH_PARTITIONED(request, count) \
  count;                                 \
  PERSIST(request, NULL)
#define EACH_EXPECT(request, is_message)                                                            \
  moved.messages_received = (uint64_t)(is_message);                                                 \
  if (is_message) insitu_request_persistent(insitu_mpi_handle_at(request, 0), &moved, 1, &started); \
  moved = nothing()
#define PERSIST(request, started)                                                  \
  insitu_request_persistent(insitu_mpi_handle_at(request, 0), &moved, 0, started); \
  moved = nothing()
#define START(request) insitu_request_start(insitu_mpi_handle_at(request, 0), &moved, insitu_top(self)->start)
#define DONE(status) add_arrival(&moved, insitu_request_complete(handle, created, status))
/* After a call that failed. */
#define GONE(request) \
  if (insitu_mpi_handle_at(request, 0) != handle) insitu_request_forget(handle, created)
#define IF(flag) if (*(const int *)(flag))

static uint64_t ranks_of(struct insitu_thread *self, const struct insitu_comm *comm) {
  insitu_row_note_comm(insitu_top(self)->row, comm);
  return (uint64_t)comm->size + (comm->is_inter ? (uint64_t)comm->peers : 0);
}

#define WRAP(NAME, LARGE, COUNT, BEFORE, AFTER, FAILED)                           \
  static int (*real_##NAME##LARGE)(P##COUNT);                                     \
  static int wrap_##NAME##LARGE(P##COUNT) {                                       \
    struct insitu_thread *self = enter("MPI_" #NAME, __builtin_frame_address(0)); \
    if (!self) return real_##NAME##LARGE(V##COUNT);                               \
    __attribute__((cleanup(abandon))) struct insitu_thread *open = self;          \
    struct insitu_traffic moved = nothing();                                      \
    BEFORE;                                                                       \
    int failed = real_##NAME##LARGE(V##COUNT);                                    \
    uint64_t now = insitu_ticks();                                                \
    open = NULL;                                                                  \
    if (__builtin_expect(!failed, 1)) {                                           \
      AFTER;                                                                      \
    } else {                                                                      \
      FAILED;                                                                     \
    }                                                                             \
    leave(self, &moved, now);                                                     \
    return failed;                                                                \
  }
#define WRAP_(...) WRAP(__VA_ARGS__) /* with its arguments expanded */

/* What a collective call moves. QUERY returns the communicator. */
#define MOVES(COMM, QUERY, SENT, RECEIVED)      \
  const struct insitu_comm *comm = QUERY(COMM); \
  moved.ranks = ranks_of(self, comm);           \
  moved.sent = SENT;                            \
  moved.received = RECEIVED
/* The blocking, the non-blocking and the persistent variant of a collective call. */
#define VARIANTS(NAME, INAME, LARGE, COUNT, COMM, QUERY, RECORD, DESCRIBED, SENT, RECEIVED) \
  WRAP(NAME, LARGE, COUNT, NOTHING, MOVES(COMM, QUERY, SENT, RECEIVED); RECORD, NOTHING)    \
  WRAP_(INAME, LARGE, PLUS1_##COUNT, NOTHING, MOVES(COMM, QUERY, SENT, RECEIVED);           \
        start_collective(self, DESCRIBED, PASTE(LAST, PLUS1_##COUNT)), NOTHING)             \
  WRAP_(NAME##_init, LARGE, PLUS2_##COUNT, NOTHING, MOVES(COMM, QUERY, SENT, RECEIVED);     \
        persist_collective(DESCRIBED, &moved, PASTE(LAST, PLUS2_##COUNT)); moved.sent = moved.received = 0, NOTHING)

#define IS_LARGE 0
#define COMPLETION(NAME, COUNT, BEFORE, AFTER, FAILED) WRAP(NAME, , COUNT, BEFORE, AFTER, FAILED)
#define SMALL(NAME, COUNT, BEFORE, AFTER) WRAP(NAME, , COUNT, BEFORE, AFTER, NOTHING)
#define CALL(NAME, COUNT, BEFORE, AFTER) WRAP(NAME, , COUNT, BEFORE, AFTER, NOTHING)
#define COLLECTIVE(NAME, INAME, COUNT, COMM, NEEDS, SENT, RECEIVED)                                    \
  VARIANTS(NAME, INAME, , COUNT, COMM, insitu_mpi_comm, insitu_collective_end(self, comm, NEEDS, now), \
           collective(comm, NEEDS), SENT, RECEIVED)
#define NEIGHBOURS(NAME, INAME, COUNT, COMM, SENT, RECEIVED)                                                \
  VARIANTS(NAME, INAME, , COUNT, COMM, neighbours, insitu_collective_end(self, comm, SOURCES_OF_DATA, now), \
           collective(comm, SOURCES_OF_DATA), SENT, RECEIVED)
#include "mpi_calls.def"
#undef IS_LARGE
#undef SMALL
#undef COMPLETION
#undef CALL
#undef COLLECTIVE
#undef NEIGHBOURS

#define IS_LARGE 1
#define COMPLETION(NAME, COUNT, BEFORE, AFTER, FAILED)
#define SMALL(NAME, COUNT, BEFORE, AFTER)
#define CALL(NAME, COUNT, BEFORE, AFTER) WRAP(NAME, _c, COUNT, BEFORE, AFTER, NOTHING)
#define COLLECTIVE(NAME, INAME, COUNT, COMM, NEEDS, SENT, RECEIVED)                                      \
  VARIANTS(NAME, INAME, _c, COUNT, COMM, insitu_mpi_comm, insitu_collective_end(self, comm, NEEDS, now), \
           collective(comm, NEEDS), SENT, RECEIVED)
#define NEIGHBOURS(NAME, INAME, COUNT, COMM, SENT, RECEIVED)                                                  \
  VARIANTS(NAME, INAME, _c, COUNT, COMM, neighbours, insitu_collective_end(self, comm, SOURCES_OF_DATA, now), \
           collective(comm, SOURCES_OF_DATA), SENT, RECEIVED)
#include "mpi_calls.def"
#undef IS_LARGE
#undef SMALL
#undef COMPLETION
#undef CALL
#undef COLLECTIVE
#undef NEIGHBOURS
