/* One wrapper per MPI call, without mpi.h: arguments pass as register-size integers for MPICH, Open MPI and the MPI 5
 * ABI alike, and sizes are asked from the library itself.
 *
 * Slots of the global offset tables are rewritten instead of exporting MPI_*: mpi4py holds weak references to calls
 * that an MPI library may lack, and an exported name would make them look present. Only slots whose PMPI_ twin exists
 * are touched. */
#define _GNU_SOURCE
#include "mpi.h"

#include "cart.h"
#include "table.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef intptr_t A;
typedef int (*Function)();

/* What differs between the ABIs. */
static struct {
  A in_place, proc_null, comm_world, comm_null;
  int is_mpich; /* handles are int, not pointers */
} abi;
static int (*type_size)(A, int *), (*comm_size)(A, int *), (*comm_rank)(A, int *), (*get_count)(A, A, int *);

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

#define TYPES 64u
static __thread struct {
  A type;
  int bytes;
} sizes[TYPES]; /* of the calling thread: predefined and long-lived types are few */

static uint64_t element_bytes(A type) {
  unsigned at = (unsigned)(((uint64_t)type * 0x9E3779B97F4A7C15u) >> 58);
  if (sizes[at].type == type && sizes[at].bytes) return (uint64_t)sizes[at].bytes;
  int bytes = 0;
  if (type_size(type, &bytes) || bytes < 0) return 0;
  sizes[at].type = type;
  sizes[at].bytes = bytes;
  return (uint64_t)bytes;
}

static uint64_t all_bytes(int64_t count, A type) {
  return count > 0 ? (uint64_t)count * element_bytes(type) : 0;
}

static uint64_t received_bytes(A status, A type) {
  int count = 0;
  if (get_count(status, type, &count) || count < 0) return 0; /* MPI_UNDEFINED: part of an element */
  return (uint64_t)count * element_bytes(type);
}

static int size_of(A comm) {
  int size = 0;
  return comm_size(comm, &size) ? 0 : size;
}

static int rank_in(A comm) {
  int rank = -1;
  return comm_rank(comm, &rank) ? -1 : rank;
}

static int64_t count_at(A counts, int at, int is_large) {
  if (at < 0) return 0;
  return is_large ? ((const int64_t *)counts)[at] : ((const int *)counts)[at];
}

static int64_t sum_of(A counts, A comm, int is_large) {
  int64_t sum = 0;
  for (int i = 0, size = size_of(comm); i < size; i++) sum += count_at(counts, i, is_large);
  return sum;
}

/* Where this rank is in a Cartesian communicator that was just made. Nothing is sent. */
static void *library;
static uint64_t remember_place(A comm) {
  A made = abi.is_mpich ? *(int *)comm : *(A *)comm;
  if (made != abi.comm_null) insitu_cart_made(library, made);
  return 0;
}

/* ---- one event ------------------------------------------------------------------------------------------------ */

/* The frame of an MPI call; NULL inside another one (MPI-IO, Fortran and collectives call MPI themselves). */
static struct insitu_thread *enter(const char *name) {
  struct insitu_thread *self = insitu_thread_self();
  if (!self || self->in_mpi) return NULL;
  uint64_t key = (uint64_t)(uintptr_t)name;
  uint32_t parent = insitu_top(self)->row;
  uint32_t row = insitu_child(parent, key);
  if (__builtin_expect(!row, 0)) row = insitu_row_add(parent, key, INSITU_MPI, name, strlen(name), "", 0, 0);
  if (!row || self->depth == INSITU_DEPTH) return NULL;
  self->in_mpi = 1;
  insitu_table->rows[row].visits++;
  insitu_push(self, row, 0, insitu_ticks());
  return self;
}

static void leave(struct insitu_thread *self, uint64_t sent, uint64_t received, uint64_t now) {
  self->in_mpi = 0;
  if (!insitu_is_on) return;
  struct insitu_row *row = &insitu_table->rows[insitu_top(self)->row];
  row->bytes_sent += sent;
  row->bytes_received += received;
  insitu_pop(self, now);
}

/* ---- the wrappers --------------------------------------------------------------------------------------------- */

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

#define BYTES(count, type) all_bytes(count, type)
#define STATUS(status, type) received_bytes(status, type)
#define PEER(rank) ((A)(int)(rank) != abi.proc_null)
#define ROOT(root, comm) ((int)(root) == rank_in(comm))
#define SIZE(comm) ((uint64_t)size_of(comm))
#define RANK(comm) rank_in(comm)
#define PLACE(comm) remember_place(comm)
#define IN_PLACE(buffer) ((buffer) == abi.in_place)
#define AT(counts, at) count_at(counts, at, IS_LARGE)
#define SUM(counts, comm) sum_of(counts, comm, IS_LARGE)

#define WRAP(NAME, LARGE, COUNT, BEFORE, SENT, RECEIVED)                                \
  static int (*real_##NAME##LARGE)(P##COUNT);                                           \
  static int wrap_##NAME##LARGE(P##COUNT) {                                             \
    struct insitu_thread *self = enter("MPI_" #NAME);                                   \
    if (__builtin_expect(!self, 0)) return real_##NAME##LARGE(V##COUNT);                \
    BEFORE;                                                                             \
    int failed = real_##NAME##LARGE(V##COUNT);                                          \
    uint64_t now = insitu_ticks();                                                      \
    leave(self, failed ? 0 : (uint64_t)(SENT), failed ? 0 : (uint64_t)(RECEIVED), now); \
    return failed;                                                                      \
  }
/* MPI_STATUS_IGNORE is 0 or 1: a status of our own takes its place, larger than any library's. */
#define OWN_STATUS(status)           \
  _Alignas(16) char own_status[256]; \
  if ((uintptr_t)(status) <= 1) status = (A)own_status

#define IS_LARGE 0
#define N(count) ((int64_t)(int)(count))
#define CALL(NAME, COUNT, SENT, RECEIVED) WRAP(NAME, , COUNT, (void)0, SENT, RECEIVED)
#define RECEIVE(NAME, COUNT, AT_STATUS, SENT, RECEIVED) WRAP(NAME, , COUNT, OWN_STATUS(AT_STATUS), SENT, RECEIVED)
#include "mpi_calls.def"
#undef IS_LARGE
#undef N
#undef CALL
#undef RECEIVE

#define IS_LARGE 1
#define N(count) ((int64_t)(count))
#define CALL(NAME, COUNT, SENT, RECEIVED) WRAP(NAME, _c, COUNT, (void)0, SENT, RECEIVED)
#define RECEIVE(NAME, COUNT, AT_STATUS, SENT, RECEIVED) WRAP(NAME, _c, COUNT, OWN_STATUS(AT_STATUS), SENT, RECEIVED)
#include "mpi_calls.def"
#undef IS_LARGE
#undef N
#undef CALL
#undef RECEIVE

/* ---- the life of MPI ------------------------------------------------------------------------------------------ */

static int (*real_Init)(A, A), (*real_Init_thread)(A, A, A, A), (*real_Finalize)(void), (*real_Abort)(A, A);

static void initialised(void) {
  if (!insitu_table) return;
  struct insitu_header *header = insitu_table->header;
  int rank = -1, size = -1;
  if (!comm_rank(abi.comm_world, &rank) && !comm_size(abi.comm_world, &size)) {
    header->mpi_rank = rank;
    header->mpi_size = size;
  }
  header->mpi_state = INSITU_MPI_INITIALISED;
  insitu_mpi_patch(); /* what the library itself loaded */
}

static int wrap_Init(A argc, A argv) {
  struct insitu_thread *self = enter("MPI_Init");
  int failed = real_Init(argc, argv);
  if (self) leave(self, 0, 0, insitu_ticks());
  if (!failed) initialised();
  return failed;
}

static int wrap_Init_thread(A argc, A argv, A required, A provided) {
  struct insitu_thread *self = enter("MPI_Init");
  int failed = real_Init_thread(argc, argv, required, provided);
  if (self) leave(self, 0, 0, insitu_ticks());
  if (!failed) initialised();
  return failed;
}

static int wrap_Finalize(void) {
  struct insitu_thread *self = enter("MPI_Finalize");
  int failed = real_Finalize();
  if (self) leave(self, 0, 0, insitu_ticks());
  if (insitu_table) insitu_table->header->mpi_state = INSITU_MPI_FINALISED;
  return failed;
}

static int wrap_Abort(A comm, A code) {
  if (insitu_table) insitu_table_end(INSITU_ABORTED, (int)code);
  return real_Abort(comm, code);
}

/* ---- patching ------------------------------------------------------------------------------------------------- */

struct call {
  const char *name;
  Function *real;
  Function wrap;
};
#define ENTRY(NAME, LARGE) {"MPI_" #NAME #LARGE, (Function *)&real_##NAME##LARGE, (Function)wrap_##NAME##LARGE},
#define CALL(NAME, ...) ENTRY(NAME, ) ENTRY(NAME, _c)
#define RECEIVE(NAME, ...) ENTRY(NAME, ) ENTRY(NAME, _c)
static struct call calls[] = {
#include "mpi_calls.def"
    ENTRY(Init, ) ENTRY(Init_thread, ) ENTRY(Finalize, ) ENTRY(Abort, )};
#define CALLS (sizeof calls / sizeof *calls)

static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long objects_seen;
static char library_name[1024];

static int by_name(const void *left, const void *right) {
  return strcmp(((const struct call *)left)->name, ((const struct call *)right)->name);
}

static int find_library(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  const char *name = strrchr(object->dlpi_name, '/');
  name = name ? name + 1 : object->dlpi_name;
  if (strncmp(name, "libmpi", 6) || strlen(object->dlpi_name) >= sizeof library_name) return 0;
  strcpy(library_name, object->dlpi_name);
  return 1;
}

static Function resolve(const char *name) {
  char twin[128] = "P";
  strncat(twin, name, sizeof twin - 2);
  return (Function)dlsym(library, twin);
}

static int open_library(void) {
  if (library) return 1;
  if (!dl_iterate_phdr(find_library, NULL)) return 0;
  library = dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return 0;
  type_size = (int (*)(A, int *))resolve("MPI_Type_size");
  comm_size = (int (*)(A, int *))resolve("MPI_Comm_size");
  comm_rank = (int (*)(A, int *))resolve("MPI_Comm_rank");
  get_count = (int (*)(A, A, int *))resolve("MPI_Get_count");
  if (!type_size || !comm_size || !comm_rank || !get_count) {
    library = NULL;
    return 0;
  }
  /* A program may hold the object itself, by a copy relocation: the global scope knows. */
  void *ompi_world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
  if (!ompi_world) ompi_world = dlsym(library, "ompi_mpi_comm_world");
  if (ompi_world) {
    abi.in_place = 1, abi.proc_null = -2, abi.comm_world = (A)ompi_world;
    abi.comm_null = (A)dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
    if (!abi.comm_null) abi.comm_null = (A)dlsym(library, "ompi_mpi_comm_null");
  } else if (strstr(library_name, "libmpi_abi")) {
    abi.in_place = 1, abi.proc_null = -3, abi.comm_world = 0x101,
    abi.comm_null = 0x100; /* MPI 5.0, appendix A: the standard ABI */
  } else {
    abi.in_place = -1, abi.proc_null = -1, abi.comm_world = 0x44000000; /* the MPICH ABI */
    abi.comm_null = 0x04000000, abi.is_mpich = 1;
  }
  qsort(calls, CALLS, sizeof *calls, by_name);
  for (size_t i = 0; i < CALLS; i++) *calls[i].real = resolve(calls[i].name);
  return 1;
}

static int patch_slot(uintptr_t at, const char *name, uintptr_t sealed_from, uintptr_t sealed_to) {
  struct call wanted = {name, NULL, NULL};
  struct call *call = bsearch(&wanted, calls, CALLS, sizeof *calls, by_name);
  Function *slot = (Function *)at;
  if (!call || !*call->real || !*slot || *slot == call->wrap) return 0;
  int is_sealed = at >= sealed_from && at < sealed_to;
  uintptr_t page = at & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
  if (is_sealed && mprotect((void *)page, at + sizeof *slot - page, PROT_READ | PROT_WRITE)) return 0;
  __atomic_store_n(slot, call->wrap, __ATOMIC_RELEASE);
  if (is_sealed) mprotect((void *)page, at + sizeof *slot - page, PROT_READ);
  return 1;
}

struct image {
  uintptr_t base, sealed_from, sealed_to;
  const ElfW(Sym) * symbols;
  const char *strings;
  const ElfW(Rela) * relocations[2];
  size_t bytes[2];
};

static uintptr_t absolute(const struct image *image, uintptr_t at) {
  return at < image->base ? image->base + at : at;
}

static void read_dynamic(struct image *image, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    uintptr_t value = (uintptr_t)entry->d_un.d_val;
    switch (entry->d_tag) {
      case DT_SYMTAB: image->symbols = (const ElfW(Sym) *)absolute(image, value); break;
      case DT_STRTAB: image->strings = (const char *)absolute(image, value); break;
      case DT_RELA: image->relocations[0] = (const ElfW(Rela) *)absolute(image, value); break;
      case DT_RELASZ: image->bytes[0] = value; break;
      case DT_JMPREL: image->relocations[1] = (const ElfW(Rela) *)absolute(image, value); break;
      case DT_PLTRELSZ: image->bytes[1] = value; break;
    }
  }
}

static int is_slot(unsigned type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  return 0;
#endif
}

static int patch_object(struct dl_phdr_info *object, size_t bytes, void *total) {
  (void)bytes;
  const char *name = strrchr(object->dlpi_name, '/');
  name = name ? name + 1 : object->dlpi_name;
  if (!strncmp(name, "libmpi", 6) || !strncmp(name, "linux-vdso", 10) || !strncmp(name, "ld-", 3) ||
      !strncmp(name, "libinsitu", 9))
    return 0;
  struct image image = {.base = object->dlpi_addr};
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type == PT_GNU_RELRO) {
      image.sealed_from = image.base + segment->p_vaddr;
      image.sealed_to = image.sealed_from + segment->p_memsz;
    } else if (segment->p_type == PT_DYNAMIC) {
      read_dynamic(&image, (const ElfW(Dyn) *)(image.base + segment->p_vaddr));
    }
  }
  if (!image.symbols || !image.strings) return 0;
  for (int table = 0; table < 2; table++) {
    for (size_t i = 0; i < image.bytes[table] / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela) *relocation = &image.relocations[table][i];
      if (!is_slot((unsigned)ELF64_R_TYPE(relocation->r_info))) continue;
      const char *symbol = image.strings + image.symbols[ELF64_R_SYM(relocation->r_info)].st_name;
      if (strncmp(symbol, "MPI_", 4) == 0)
        *(int *)total += patch_slot(image.base + relocation->r_offset, symbol, image.sealed_from, image.sealed_to);
    }
  }
  return 0;
}

static int count_objects(struct dl_phdr_info *object, size_t bytes, void *adds) {
  (void)bytes;
  *(unsigned long long *)adds = object->dlpi_adds;
  return 1;
}

int insitu_mpi_patch(void) {
  unsigned long long adds = 0;
  int total = 0;
  dl_iterate_phdr(count_objects, &adds);
  pthread_mutex_lock(&patching);
  if (adds != objects_seen) {
    objects_seen = adds;
    if (open_library()) dl_iterate_phdr(patch_object, &total);
  }
  pthread_mutex_unlock(&patching);
  return total;
}
