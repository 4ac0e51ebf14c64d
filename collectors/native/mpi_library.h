/* The MPI library of this process: which one it is, its PMPI functions, and what is asked of it. */
#ifndef INSITU_MPI_LIBRARY_H
#define INSITU_MPI_LIBRARY_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* Any argument of an MPI function: integers, handles and pointers all pass in registers of this size. */
typedef intptr_t A;
typedef int (*Function)();

/* What differs between the ABIs of MPICH, Open MPI and the MPI 5 standard. */
struct insitu_mpi_abi {
  A in_place, proc_null, root, comm_world, comm_null, datatype_null, byte, no_op, no_message;
  int cart, graph, dist_graph, thread_multiple, err_in_status;
  unsigned handle_bytes, status_bytes, error_at; /* where a status has MPI_ERROR */
  int count_at, is_count_split;                  /* and its bytes, -1 where only the library knows */
};
extern struct insitu_mpi_abi insitu_mpi;
/* Whether several threads may call MPI at once; true until MPI has said otherwise. */
extern int insitu_mpi_is_multiple;

/* Find the library among the loaded objects. Returns 1 once it is known. */
int insitu_mpi_open(void);
/* Its function of that name, by the name that starts with P; NULL if it has none. */
Function insitu_mpi_resolve(const char *name);
/* Whether the object that starts at this address is the library itself. */
int insitu_mpi_is_core(const void *base);
/* Rank and size in MPI_COMM_WORLD and the thread level, once MPI is initialised. Returns 0 on success. */
int insitu_mpi_world(int *rank, int *size);

/* The ranks of a communicator in MPI_COMM_WORLD; `here` is room for as many numbers. Returns 0 on success. */
int insitu_mpi_world_ranks(A comm, int size, int *here, int *world);

struct insitu_party;
/* A communicator as a call sees it. */
struct insitu_comm {
  A handle;
  uint32_t age;
  int size, rank;
  int is_inter;
  int peers;                  /* ranks on the other side: the remote group of an intercommunicator, else all */
  int sources, targets;       /* neighbours, -1 until they are asked for */
  uint64_t absent;            /* neighbours of a Cartesian grid that are MPI_PROC_NULL, a bit each */
  struct insitu_party *party; /* NULL until it meets */
};

#define INSITU_TYPES 64u
#define INSITU_COMMS 16u
#define INSITU_SEEN 128u
/* What a thread remembers between its MPI calls. */
struct insitu_mpi_thread {
  struct {
    A handle;
    uint64_t bytes;
    uint32_t age;
  } types[INSITU_TYPES]; /* predefined and long-lived types are few */
  uint32_t depth;        /* of the frame of the MPI call that is open */
  uintptr_t stack;       /* where its wrapper stands */
  uintptr_t caller;      /* and whereto it returns */
  struct insitu_comm comms[INSITU_COMMS];
  struct {
    uint64_t key;
    uint32_t parent, row;
  } seen[INSITU_SEEN]; /* rows of calls, so that siblings need not be searched */
  char *scratch;
  uint64_t scratch_bytes;
};
/* The caller's; NULL if there is no memory. */
struct insitu_mpi_thread *insitu_mpi_thread_enter(void);
extern __thread struct insitu_mpi_thread *insitu_mpi_mine;

/* Handles are used again after they were freed: what was asked before is forgotten. The count moves before the call
 * that frees, so that no thread remembers what it asked in the meantime; relaxed, since a thread that gets a new handle
 * from another one was told by it. */
extern _Atomic uint32_t insitu_mpi_types_freed, insitu_mpi_comms_freed;

static inline void insitu_mpi_freed(_Atomic uint32_t *count) {
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* A handle without what an int leaves in the upper half of its register. */
static inline A insitu_mpi_handle(A argument) {
  return insitu_mpi.handle_bytes == sizeof(int) ? (A)(int)argument : argument;
}
static inline A insitu_mpi_handle_at(A handles, int64_t at) {
  return insitu_mpi.handle_bytes == sizeof(int) ? (A)((const int *)handles)[at] : ((const A *)handles)[at];
}

/* Whether the library has been seen to keep the bytes of a status where its ABI says. */
extern int insitu_mpi_knows_status;
uint64_t insitu_mpi_ask_status(A status);

static inline uint64_t insitu_mpi_read_status(A status) {
  uint64_t bytes;
  memcpy(&bytes, (const char *)status + insitu_mpi.count_at, sizeof bytes);
  if (!insitu_mpi.is_count_split) return bytes;
  return (uint32_t)bytes | bytes >> 33 << 32; /* the lowest bit of the upper half says cancelled */
}

/* Bytes that a status says arrived, whatever their type; 0 if it cannot tell. */
static inline uint64_t insitu_mpi_status_bytes(A status) {
  return __builtin_expect(insitu_mpi_knows_status, 1) ? insitu_mpi_read_status(status) : insitu_mpi_ask_status(status);
}
int insitu_mpi_is_cancelled(A status);
/* Whether an error code says that statuses have errors of their own, and that of a status. */
int insitu_mpi_is_in_status(int code);
int insitu_mpi_status_error(A status);
uint64_t insitu_mpi_ask_type(A type, unsigned at, uint32_t age);
const struct insitu_comm *insitu_mpi_ask_comm(A handle, struct insitu_comm *comm, uint32_t age);

/* Bytes of an element of this type, without gaps. */
static inline uint64_t insitu_mpi_type_bytes(A type) {
  const struct insitu_mpi_thread *mine = insitu_mpi_mine;
  type = insitu_mpi_handle(type);
  uint32_t age = atomic_load_explicit(&insitu_mpi_types_freed, memory_order_relaxed);
  unsigned at = (unsigned)(((uint64_t)type * 0x9E3779B97F4A7C15u) >> 58);
  if (__builtin_expect(mine->types[at].handle == type && mine->types[at].age == age, 1)) return mine->types[at].bytes;
  return insitu_mpi_ask_type(type, at, age);
}

static inline const struct insitu_comm *insitu_mpi_comm(A handle) {
  handle = insitu_mpi_handle(handle);
  uint32_t age = atomic_load_explicit(&insitu_mpi_comms_freed, memory_order_relaxed);
  struct insitu_comm *comm = &insitu_mpi_mine->comms[((uint64_t)handle * 0x9E3779B97F4A7C15u) >> 60];
  if (__builtin_expect(comm->handle == handle && comm->age == age, 1)) return comm;
  return insitu_mpi_ask_comm(handle, comm, age);
}

/* The same with its neighbours. */
const struct insitu_comm *insitu_mpi_neighbours(A handle);
/* Memory for the length of one call; NULL if there is none. */
void *insitu_mpi_scratch(uint64_t bytes);

#endif
