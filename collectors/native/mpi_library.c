/* The constants of the loaded MPI library's ABI, and its answers to queries, cached per thread. */
#define _GNU_SOURCE
#include "mpi_library.h"

#include "image.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

struct insitu_mpi_abi insitu_mpi;
int insitu_mpi_is_multiple = 1;
__thread struct insitu_mpi_thread *insitu_mpi_mine;

static void *library;
static const void *core[2]; /* base addresses of the objects that define PMPI_Init and MPI_Init */
static int (*type_size)(A, int *), (*type_size_x)(A, int64_t *), (*comm_size)(A, int *), (*comm_rank)(A, int *),
    (*comm_remote_size)(A, int *), (*comm_test_inter)(A, int *), (*get_count)(A, A, int *),
    (*get_elements_x)(A, A, int64_t *), (*test_cancelled)(A, int *), (*query_thread)(int *), (*topo_test)(A, int *),
    (*cartdim_get)(A, int *), (*cart_shift)(A, A, A, int *, int *), (*graph_neighbors_count)(A, A, int *),
    (*dist_graph_neighbors_count)(A, int *, int *, int *), (*initialized)(int *), (*error_class)(A, int *),
    (*comm_group)(A, A *), (*win_get_group)(A, A *), (*group_free)(A *), (*group_size)(A, int *),
    (*group_translate)(A, A, const int *, A, int *), (*comm_remote_group)(A, A *), (*comm_compare)(A, A, int *),
    (*graph_neighbors)(A, A, A, int *), (*dist_graph_neighbors)(A, A, int *, int *, A, int *, int *);

/* ---- the library ---------------------------------------------------------------------------------------------- */

Function insitu_mpi_resolve(const char *name) {
  char profiled[128] = "P";
  strncat(profiled, name, sizeof profiled - 2);
  return (Function)dlsym(library, profiled);
}

static int find_library(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  const char *name = strrchr(object->dlpi_name, '/');
  if (strncmp(name ? name + 1 : object->dlpi_name, "libmpi", 6)) return 0;
  library = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD); /* mpi4py may have loaded it RTLD_LOCAL */
  if (library && !insitu_mpi_resolve("MPI_Init")) library = NULL;
  return library != NULL;
}

static void *symbol(const char *name) {
  /* A program may contain the object itself, by a copy relocation: look in the global scope first. */
  void *address = dlsym(RTLD_DEFAULT, name);
  return address ? address : dlsym(library, name);
}

static void choose_abi(const char *path) {
  void *ompi_world = symbol("ompi_mpi_comm_world");
  const char *name = strrchr(path, '/');
  if (ompi_world) {
    insitu_mpi = (struct insitu_mpi_abi){
        .in_place = 1,
        .proc_null = -2,
        .root = -4,
        .comm_world = (A)ompi_world,
        .comm_null = (A)symbol("ompi_mpi_comm_null"),
        .datatype_null = (A)symbol("ompi_mpi_datatype_null"),
        .byte = (A)symbol("ompi_mpi_byte"),
        .no_op = (A)symbol("ompi_mpi_op_no_op"),
        .no_message = (A)symbol("ompi_message_no_proc"),
        .cart = 1,
        .graph = 2,
        .dist_graph = 3,
        .thread_multiple = 3,
        .err_in_status = 18,
        .congruent = 1,
        .handle_bytes = sizeof(void *),
        .status_bytes = 24,
        .error_at = 8,
        .count_at = 16,
    };
  } else if (strncmp(name ? name + 1 : path, "libmpi_abi", 10) == 0) {
    insitu_mpi = (struct insitu_mpi_abi){
        .in_place = 1, /* MPI 5.0, appendix A: the standard ABI */
        .proc_null = -3,
        .root = -4,
        .comm_world = 0x101,
        .comm_null = 0x100,
        .datatype_null = 0x200,
        .byte = 0x247,
        .no_op = 0x3d,
        .no_message = 0x129,
        .cart = 211,
        .graph = 212,
        .dist_graph = 213,
        .thread_multiple = 4096,
        .err_in_status = 19,
        .congruent = 202,
        .handle_bytes = sizeof(void *),
        .status_bytes = 32,
        .error_at = 8,
        .count_at = -1,
    };
  } else {
    insitu_mpi = (struct insitu_mpi_abi){
        .in_place = -1, /* the ABI that MPICH, Intel MPI and MVAPICH share */
        .proc_null = -1,
        .root = -3,
        .comm_world = 0x44000000,
        .comm_null = 0x04000000,
        .datatype_null = 0x0c000000,
        .byte = 0x4c00010d,
        .no_op = 0x5800000e,
        .no_message = 0x6c000000,
        .graph = 1,
        .cart = 2,
        .dist_graph = 3,
        .thread_multiple = 3,
        .err_in_status = 17,
        .congruent = 1,
        .handle_bytes = sizeof(int),
        .status_bytes = 20,
        .error_at = 16,
        .is_count_split = 1,
    };
  }
}

int insitu_mpi_open(void) {
  if (library) return 1;
  if (!dl_iterate_phdr(find_library, NULL)) return 0;
  const struct {
    const char *name;
    void *function;
  } needed[] = {
      {"MPI_Type_size", &type_size},
      {"MPI_Type_size_x", &type_size_x},
      {"MPI_Comm_size", &comm_size},
      {"MPI_Comm_rank", &comm_rank},
      {"MPI_Comm_remote_size", &comm_remote_size},
      {"MPI_Comm_test_inter", &comm_test_inter},
      {"MPI_Get_count", &get_count},
      {"MPI_Get_elements_x", &get_elements_x},
      {"MPI_Test_cancelled", &test_cancelled},
      {"MPI_Query_thread", &query_thread},
      {"MPI_Topo_test", &topo_test},
      {"MPI_Cartdim_get", &cartdim_get},
      {"MPI_Cart_shift", &cart_shift},
      {"MPI_Graph_neighbors_count", &graph_neighbors_count},
      {"MPI_Dist_graph_neighbors_count", &dist_graph_neighbors_count},
      {"MPI_Error_class", &error_class},
      {"MPI_Initialized", &initialized},
      {"MPI_Comm_group", &comm_group},
      {"MPI_Win_get_group", &win_get_group},
      {"MPI_Group_free", &group_free},
      {"MPI_Group_size", &group_size},
      {"MPI_Group_translate_ranks", &group_translate},
      {"MPI_Comm_remote_group", &comm_remote_group},
      {"MPI_Comm_compare", &comm_compare},
      {"MPI_Graph_neighbors", &graph_neighbors},
      {"MPI_Dist_graph_neighbors", &dist_graph_neighbors},
  };
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    Function function = insitu_mpi_resolve(needed[i].name);
    memcpy(needed[i].function, &function, sizeof function);
  }
  Dl_info definition = {0};
  if (!type_size || !comm_size || !comm_rank || !comm_remote_size || !comm_test_inter || !get_count ||
      !dladdr((void *)insitu_mpi_resolve("MPI_Init"), &definition)) {
    library = NULL;
    return 0;
  }
  core[0] = core[1] = definition.dli_fbase;
  choose_abi(definition.dli_fname);
  void *init = dlsym(library, "MPI_Init");
  if (init && dladdr(init, &definition)) core[1] = definition.dli_fbase;
  return 1;
}

/* An executable that is linked to its addresses has the base 0, as `core` before an MPI library is loaded. */
int insitu_mpi_is_core(const void *base) {
  return base && (base == core[0] || base == core[1]);
}

int insitu_mpi_world(int *rank, int *size) {
  int level = insitu_mpi.thread_multiple;
  if (query_thread && !query_thread(&level)) insitu_mpi_is_multiple = level >= insitu_mpi.thread_multiple;
  return comm_rank(insitu_mpi.comm_world, rank) || comm_size(insitu_mpi.comm_world, size);
}

int insitu_mpi_is_initialised(void) {
  int flag = 0;
  return initialized && !initialized(&flag) && flag;
}

int insitu_mpi_is_in_other_namespace(void) {
  struct namespace { /* r_debug_extended of glibc 2.35; older ones list the first namespace only, as version 1 */
    struct r_debug list;
    const struct namespace *next;
  };
  static const char *const prefixes[] = {"libmpi.", "libmpich.", "libmpi_"};
  const struct namespace *first = (const struct namespace *)(const void *)&_r_debug;
  __asm__("" : "+r"(first)); /* link.h declares the shorter structure of version 1 */
  if (first->list.r_version < 2) return 0;
  for (const struct namespace *at = first->next; at; at = at->next) {
    if (at->list.r_state != RT_CONSISTENT) continue; /* another thread is loading objects */
    for (const struct link_map *object = at->list.r_map; object; object = object->l_next)
      if (insitu_image_has_prefix(object->l_name, prefixes, sizeof prefixes / sizeof *prefixes)) return 1;
  }
  return 0;
}

/* Sessions have no MPI_COMM_WORLD. */
int insitu_mpi_is_world(A comm) {
  int result = 0;
  if (comm == insitu_mpi.comm_world) return 1;
  return comm_compare && insitu_mpi_is_initialised() && !comm_compare(comm, insitu_mpi.comm_world, &result) &&
         result <= insitu_mpi.congruent;
}

static int translate(int (*get_group)(A, A *), A comm, int size, const int *here, int *world) {
  A ours = 0, all = 0; /* initialised, since handles of 4 bytes leave the upper half */
  if (!get_group || !comm_group || !group_free || !group_translate || !insitu_mpi_is_initialised()) return 1;
  if (get_group(comm, &ours)) return 1;
  int failed = comm_group(insitu_mpi.comm_world, &all);
  if (!failed) failed = group_translate(ours, size, here, all, world);
  if (all) group_free(&all);
  group_free(&ours);
  return failed;
}

int insitu_mpi_world_ranks(A comm, int size, int *here, int *world) {
  for (int i = 0; i < size; i++) here[i] = i;
  return translate(comm_group, comm, size, here, world);
}

int insitu_mpi_world_rank(const struct insitu_comm *comm, int rank) {
  int world = -1; /* MPI_UNDEFINED is negative, too */
  int (*get_group)(A, A *) = comm->is_window ? win_get_group : comm->is_inter ? comm_remote_group : comm_group;
  if (translate(get_group, comm->handle, 1, &rank, &world)) return -1;
  return world;
}

uint64_t insitu_mpi_group_size(A group) {
  int size = 0;
  return group_size && !group_size(group, &size) && size > 0 ? (uint64_t)size : 0;
}

/* ---- the cache of a thread ------------------------------------------------------------------------------------ */

static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_thread(void *value) {
  struct insitu_mpi_thread *mine = value;
  insitu_mpi_mine = NULL;
  if (mine->scratch) munmap(mine->scratch, mine->scratch_bytes);
  munmap(mine, sizeof *mine);
}

static int has_key;

static void make_key(void) {
  has_key = !pthread_key_create(&thread_key, free_thread);
}

static void *pages(uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Not in thread-local storage itself: there is little static room for a library that is loaded late. */
struct insitu_mpi_thread *insitu_mpi_thread_enter(void) {
  pthread_once(&once, make_key);
  struct insitu_mpi_thread *mine = pages(sizeof *mine);
  if (!mine) return NULL;
  if (has_key) pthread_setspecific(thread_key, mine); /* else it is never freed */
  return insitu_mpi_mine = mine;
}

void *insitu_mpi_scratch(uint64_t bytes) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  if (bytes <= mine->scratch_bytes) return mine->scratch;
  char *fresh = pages(bytes = (bytes + 65535) / 65536 * 65536);
  if (!fresh) return NULL;
  if (mine->scratch) munmap(mine->scratch, mine->scratch_bytes);
  mine->scratch = fresh;
  mine->scratch_bytes = bytes;
  return fresh;
}

_Atomic uint32_t insitu_mpi_types_freed = 1, insitu_mpi_comms_freed = 1;

/* ---- queries -------------------------------------------------------------------------------------------------- */

uint64_t insitu_mpi_query_type(A type, unsigned at, uint32_t age) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  if (type == insitu_mpi.datatype_null) return 0;
  int64_t bytes = 0;
  int few = 0;
  if (type_size_x ? type_size_x(type, &bytes) : type_size(type, &few)) return 0;
  if (!type_size_x) bytes = few;
  if (bytes < 0) return 0;
  mine->types[at].handle = type;
  mine->types[at].age = age;
  mine->types[at].bytes = (uint64_t)bytes;
  return (uint64_t)bytes;
}

#define ENOUGH_AGREEMENTS 8
_Atomic int insitu_mpi_knows_status;

/* The library is queried for the first statuses. Once reading them directly has given the same bytes often enough, they
 * are only read. */
uint64_t insitu_mpi_query_status(A status) {
  static _Atomic int agreements; /* negative once there was a disagreement */
  int64_t bytes = 0;
  int few = 0;
  if (get_elements_x ? get_elements_x(status, insitu_mpi.byte, &bytes) : get_count(status, insitu_mpi.byte, &few))
    return 0;
  if (!get_elements_x) bytes = few;
  if (bytes <= 0) return 0;
  if (insitu_mpi.count_at < 0) return (uint64_t)bytes;
  int is_equal = insitu_mpi_read_status(status) == (uint64_t)bytes;
  /* Relaxed: nothing else is ordered by them. A thread never undoes the disagreement that another one has seen. */
  int before = atomic_load_explicit(&agreements, memory_order_relaxed), after;
  do {
    after = is_equal && before >= 0 ? before + 1 : -1;
  } while (
      !atomic_compare_exchange_weak_explicit(&agreements, &before, after, memory_order_relaxed, memory_order_relaxed));
  atomic_store_explicit(&insitu_mpi_knows_status, after >= ENOUGH_AGREEMENTS, memory_order_relaxed);
  return (uint64_t)bytes;
}

int insitu_mpi_is_in_status(int code) {
  int class = 0;
  return error_class && !error_class(code, &class) && class == insitu_mpi.err_in_status;
}

int insitu_mpi_status_error(A status) {
  return *(const int *)(status + (A)insitu_mpi.error_at);
}

int insitu_mpi_is_cancelled(A status) {
  int flag = 0;
  return test_cancelled && !test_cancelled(status, &flag) && flag;
}

/* Return the number of a communicator or window in this thread. */
static uint32_t next_number(void) {
  struct insitu_mpi_thread *mine = insitu_mpi_mine;
  if (++mine->comms_queried >> 24) { /* the numbers begin again, so nothing may remember an earlier one */
    memset(mine->comms, 0, sizeof mine->comms);
    memset(mine->recent_partners, 0, sizeof mine->recent_partners);
    mine->comms_queried = 1;
  }
  return mine->comms_queried;
}

const struct insitu_comm *insitu_mpi_note_window(A handle, struct insitu_comm *window, uint32_t age) {
  uint32_t number = next_number();
  *window =
      (struct insitu_comm){.handle = handle, .age = age, .number = number, .is_window = 1, .world = INSITU_IS_OTHER};
  return window;
}

const struct insitu_comm *insitu_mpi_query_comm(A handle, struct insitu_comm *comm, uint32_t age) {
  uint32_t number = next_number();
  *comm =
      (struct insitu_comm){.handle = handle, .age = age, .rank = -1, .number = number, .sources = -1, .targets = -1};
  if (comm_size(handle, &comm->size)) comm->size = 0;
  if (comm_rank(handle, &comm->rank)) comm->rank = -1;
  if (comm_test_inter(handle, &comm->is_inter)) comm->is_inter = 0;
  comm->peers = comm->size;
  if (comm->is_inter && comm_remote_size(handle, &comm->peers)) comm->peers = 0;
  return comm;
}

const struct insitu_comm *insitu_mpi_neighbours(A handle) {
  struct insitu_comm *comm = (struct insitu_comm *)insitu_mpi_comm(handle);
  if (comm->sources >= 0) return comm;
  int kind = 0, axes = 0, sources = 0, targets = 0, is_weighted;
  if (topo_test && !topo_test(comm->handle, &kind)) {
    if (kind == insitu_mpi.cart && !cartdim_get(comm->handle, &axes)) {
      sources = targets = 2 * axes;
      for (int axis = 0; axis < axes && axis < 32; axis++) {
        int before = 0, after = 0;
        if (cart_shift(comm->handle, axis, 1, &before, &after)) continue;
        comm->absent |= (uint64_t)(before == (int)insitu_mpi.proc_null) << (2 * axis);
        comm->absent |= (uint64_t)(after == (int)insitu_mpi.proc_null) << (2 * axis + 1);
      }
    } else if (kind == insitu_mpi.graph && !graph_neighbors_count(comm->handle, comm->rank, &sources)) {
      targets = sources;
    } else if (kind == insitu_mpi.dist_graph) {
      dist_graph_neighbors_count(comm->handle, &sources, &targets, &is_weighted);
    }
  }
  comm->sources = sources;
  comm->targets = targets;
  return comm;
}

const int *insitu_mpi_neighbour_ranks(const struct insitu_comm *comm, int *count) {
  uint64_t n = (uint64_t)comm->sources + (uint64_t)comm->targets;
  int kind = 0, *ranks = insitu_mpi_scratch((2 * n + 1) * sizeof *ranks), *weights = ranks + n;
  if (!ranks || !topo_test || topo_test(comm->handle, &kind)) return NULL;
  *count = comm->sources;
  if (kind == insitu_mpi.cart) {
    for (int axis = 0; axis < comm->sources / 2; axis++)
      if (!cart_shift || cart_shift(comm->handle, axis, 1, &ranks[2 * axis], &ranks[2 * axis + 1])) return NULL;
    return ranks;
  }
  if (kind == insitu_mpi.graph)
    return graph_neighbors && !graph_neighbors(comm->handle, comm->rank, comm->sources, ranks) ? ranks : NULL;
  if (kind != insitu_mpi.dist_graph || !dist_graph_neighbors) return NULL;
  *count = (int)n;
  int failed = dist_graph_neighbors(comm->handle, comm->sources, ranks, weights, comm->targets, ranks + comm->sources,
                                    weights + comm->sources);
  return failed ? NULL : ranks;
}
