/* The MPI library of this process: its ABI, its PMPI functions, and cached answers to queries. */
#ifndef INSITU_MPI_LIBRARY_H
#define INSITU_MPI_LIBRARY_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* Any argument of an MPI function: integers, handles and pointers are all passed in registers of this size. */
typedef intptr_t A;
typedef int (*Function)();

/* What differs between the ABIs of MPICH, Open MPI and the MPI 5 standard. */
struct insitu_mpi_abi {
  A in_place, proc_null, root, comm_world, comm_null, datatype_null, byte, no_op, no_message;
  int cart, graph, dist_graph, thread_multiple, err_in_status;
  int congruent; /* MPI_CONGRUENT; only MPI_IDENT is smaller */
  unsigned handle_bytes, status_bytes;
  unsigned error_at;  /* offset of MPI_ERROR in a status */
  int count_at;       /* offset of the number of bytes in a status, -1 if only the library knows */
  int is_count_split; /* its upper half is shifted by the cancelled flag */
};
extern struct insitu_mpi_abi insitu_mpi;
/* Whether several threads may call MPI at once; true until the thread level is known. */
extern int insitu_mpi_is_multiple;

/* Find the library among the loaded objects. Returns 1 if it is found. */
int insitu_mpi_open(void);
/* Return the PMPI variant of a function, by its name MPI_...; NULL if the library lacks it. */
Function insitu_mpi_resolve(const char *name);
/* Whether the object with this base address is the library itself. */
int insitu_mpi_is_core(const void *base);
/* Query rank and size in MPI_COMM_WORLD, and the thread level, after MPI_Init. Returns 0 on success. */
int insitu_mpi_world(int *rank, int *size);
/* Whether MPI_Init has returned in this process. */
int insitu_mpi_is_initialised(void);
/* Whether dlmopen has loaded an MPI library into another namespace, whose calls are not recorded. */
int insitu_mpi_is_in_other_namespace(void);

/* Whether a communicator has the ranks of MPI_COMM_WORLD in the same order. */
int insitu_mpi_is_world(A comm);
/* Translate the ranks of a communicator to those in MPI_COMM_WORLD; both arrays have `size` elements. `here` is scratch
 * space. Returns 0 on success. */
int insitu_mpi_world_ranks(A comm, int size, int *here, int *world);

struct insitu_sequence;
enum { INSITU_IS_WORLD = 1, INSITU_IS_OTHER = 2 };
/* A communicator as this thread last queried it; or a window, of which only what partners need is known. */
struct insitu_comm {
  A handle;
  uint32_t age; /* insitu_mpi_comms_freed at the time of the query */
  int size, rank;
  int is_inter, is_window;
  int world;                        /* INSITU_IS_..., 0 until it is queried; see insitu_mpi_is_world */
  uint32_t number;                  /* of the query, counted from 1 in each thread; smaller than 1 << 24 */
  int peers;                        /* ranks on the other side: the remote group of an intercommunicator, else all */
  int sources, targets;             /* neighbours, -1 until they are queried */
  uint64_t absent;                  /* neighbours in a Cartesian grid that are MPI_PROC_NULL, one bit each */
  struct insitu_sequence *sequence; /* NULL until it is looked up */
};

#define INSITU_TYPES 64u
#define INSITU_COMMS 16u
#define INSITU_RECENT_ROWS 128u
#define INSITU_RECENT_PARTNERS 4096u
#define INSITU_PAIRS 2048u        /* a power of two */
#define INSITU_OPEN_MESSAGES 512u /* messages that one call completes, and that are recorded */
/* The messages between this rank and another one on a communicator, in one direction; see mpi_messages.c. */
struct insitu_pair {
  uint64_t id;   /* of the communicator; 0 for a free slot */
  uint64_t tags; /* the sum of a hash of the tags of all messages */
  uint32_t peer; /* twice its rank, plus 1 for receives */
  uint32_t hash; /* the same in both ranks */
  uint32_t number;
  int32_t level; /* up to which the current messages are sampled; -1: not at all */
};
/* A sampled message or collective that was started; see insitu_message. */
struct insitu_sampled {
  uint64_t key, posted;
  uint32_t number, size;
  int16_t level; /* -1 if a collective is not sampled */
  uint16_t flags;
  int32_t needs;
  uint32_t rank;
};
/* The row of a recent call, which saves a search. */
struct insitu_recent_row {
  uint64_t key;
  uint32_t parent, row;
};
/* What a thread caches between its MPI calls. */
struct insitu_mpi_thread {
  /* What every call uses comes first, in one cache line. */
  uintptr_t stack;        /* frame address of the wrapper of the open call */
  uintptr_t caller;       /* return address of the wrapper */
  uint32_t depth;         /* of the stack of frames below the open call */
  uint32_t open_messages; /* sampled messages and collectives that the open call completes */
  uint32_t call_flags;    /* of the open call, for these */
  uint32_t number;        /* of this thread among those that exchange messages, counted from 1 */
  uint32_t comms_queried;
  uint32_t pairs_used, pairs_level;
  uint64_t blocked_check_at;      /* ticks; see blocked.h */
  uint64_t short_calls;           /* ticks in calls since the last check */
  struct insitu_sequence *object; /* of the window or file that was used last */
  struct {
    A handle;
    uint64_t bytes;
    uint32_t age;
  } types[INSITU_TYPES]; /* predefined and long-lived types are few */
  struct insitu_comm comms[INSITU_COMMS];
  struct insitu_recent_row recent_rows[INSITU_RECENT_ROWS];
  uint64_t recent_partners[INSITU_RECENT_PARTNERS]; /* pairs of a row and a rank of a communicator: see partners.h */
  struct insitu_sampled open[INSITU_OPEN_MESSAGES];
  struct insitu_pair pairs[INSITU_PAIRS];
  char *scratch;
  uint64_t scratch_bytes;
};
/* Create the cache of the calling thread. Returns NULL if there is no memory. */
struct insitu_mpi_thread *insitu_mpi_thread_enter(void);
extern __thread struct insitu_mpi_thread *insitu_mpi_mine;

/* Libraries reuse handles of freed objects, so a cached answer is valid only while the number of freed objects is the
 * same. The number is incremented before the call that frees. Relaxed: a thread that gets a new handle from another
 * thread synchronises with it anyway. */
extern _Atomic uint32_t insitu_mpi_types_freed, insitu_mpi_comms_freed;

static inline void insitu_mpi_freed(_Atomic uint32_t *count) {
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* Return a handle as a value: an int leaves the upper half of its register undefined. */
static inline A insitu_mpi_handle(A argument) {
  return insitu_mpi.handle_bytes == sizeof(int) ? (A)(int)argument : argument;
}
static inline A insitu_mpi_handle_at(A handles, int64_t at) {
  return insitu_mpi.handle_bytes == sizeof(int) ? (A)((const int *)handles)[at] : ((const A *)handles)[at];
}

/* Whether the library was seen to store the number of bytes in a status where its ABI says. */
extern _Atomic int insitu_mpi_knows_status;
uint64_t insitu_mpi_query_status(A status);

/* Return the tag of a message that was received. */
static inline int insitu_mpi_status_tag(A status) {
  return *(const int *)(status + (A)insitu_mpi.error_at - 4);
}

/* Return the rank that sent a message. MPI_SOURCE is two integers before MPI_ERROR in all ABIs. */
static inline int insitu_mpi_status_source(A status) {
  return *(const int *)(status + (A)insitu_mpi.error_at - 8);
}

static inline uint64_t insitu_mpi_read_status(A status) {
  uint64_t bytes;
  memcpy(&bytes, (const char *)status + insitu_mpi.count_at, sizeof bytes);
  if (!insitu_mpi.is_count_split) return bytes;
  return (uint32_t)bytes | bytes >> 33 << 32; /* the lowest bit of the upper half is the cancelled flag */
}

/* Return the number of bytes received according to a status, whatever their type; 0 if unknown. */
static inline uint64_t insitu_mpi_status_bytes(A status) {
  /* Relaxed: only compared. */
  int is_known = atomic_load_explicit(&insitu_mpi_knows_status, memory_order_relaxed);
  return __builtin_expect(is_known, 1) ? insitu_mpi_read_status(status) : insitu_mpi_query_status(status);
}
int insitu_mpi_is_cancelled(A status);
/* Whether an error code is MPI_ERR_IN_STATUS; and the error code in a status. */
int insitu_mpi_is_in_status(int code);
int insitu_mpi_status_error(A status);
uint64_t insitu_mpi_query_type(A type, unsigned at, uint32_t age);
const struct insitu_comm *insitu_mpi_query_comm(A handle, struct insitu_comm *comm, uint32_t age);
const struct insitu_comm *insitu_mpi_note_window(A handle, struct insitu_comm *window, uint32_t age);

/* Return the size of an element of this type in bytes, without gaps. */
static inline uint64_t insitu_mpi_type_bytes(A type) {
  const struct insitu_mpi_thread *mine = insitu_mpi_mine;
  type = insitu_mpi_handle(type);
  /* Relaxed, as insitu_mpi_types_freed explains. */
  uint32_t age = atomic_load_explicit(&insitu_mpi_types_freed, memory_order_relaxed);
  unsigned at = (unsigned)(((uint64_t)type * 0x9E3779B97F4A7C15u) >> 58);
  if (__builtin_expect(mine->types[at].handle == type && mine->types[at].age == age, 1)) return mine->types[at].bytes;
  return insitu_mpi_query_type(type, at, age);
}

/* Return what is known of a communicator or a window, which `query` finds out at first. No ABI has a window and a
 * communicator with the same handle. */
static inline const struct insitu_comm *insitu_mpi_cached(A handle,
                                                          const struct insitu_comm *(*query)(A, struct insitu_comm *,
                                                                                             uint32_t)) {
  handle = insitu_mpi_handle(handle);
  /* Relaxed, as insitu_mpi_comms_freed explains. */
  uint32_t age = atomic_load_explicit(&insitu_mpi_comms_freed, memory_order_relaxed);
  struct insitu_comm *cached = &insitu_mpi_mine->comms[((uint64_t)handle * 0x9E3779B97F4A7C15u) >> 60];
  if (__builtin_expect(cached->handle == handle && cached->age == age, 1)) return cached;
  return query(handle, cached, age);
}

/* Return what is known of a communicator. */
static inline const struct insitu_comm *insitu_mpi_comm(A handle) {
  return insitu_mpi_cached(handle, insitu_mpi_query_comm);
}

/* The same for a window. */
static inline const struct insitu_comm *insitu_mpi_window(A handle) {
  return insitu_mpi_cached(handle, insitu_mpi_note_window);
}

/* Return what is known of a communicator, with its neighbours. */
const struct insitu_comm *insitu_mpi_neighbours(A handle);
/* Return the ranks of its neighbours in the communicator, sources and targets, in memory that is valid during one call;
 * MPI_PROC_NULL for absent ones. NULL if they are unknown. */
const int *insitu_mpi_neighbour_ranks(const struct insitu_comm *comm, int *count);
/* Return the rank in MPI_COMM_WORLD of a rank of the communicator or window, in the remote group of an
 * intercommunicator; -1 if it has none. */
int insitu_mpi_world_rank(const struct insitu_comm *comm, int rank);
/* Return the number of ranks of a group; 0 if it is unknown. */
uint64_t insitu_mpi_group_size(A group);
/* Return memory that is valid during one call; NULL if there is none. */
void *insitu_mpi_scratch(uint64_t bytes);

#endif
