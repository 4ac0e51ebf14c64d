/* Input and output of files: calls, bytes and time of POSIX and stdio calls, in a row below the calling function.
 *
 * The slots through which objects call these functions are rewritten, as for MPI. The C library calls itself without
 * slots, so an fread is one call, not also the reads that fill its buffer; the MPI library keeps its slots.
 *
 * A call is recorded after it has returned, and leaves nothing open while it runs: these functions are cancellation
 * points, and signal handlers may leave them with longjmp. They are also called in signal handlers: there is no lock
 * here, no allocation, and errno is as the function left it. A child of vfork counts for its parent, whose memory it
 * shares; a child of fork counts nothing. */
#define _GNU_SOURCE
#include "files.h"

#include "descriptors.h"
#include "file_sets.h"
#include "image.h"
#include "mpi_library.h"
#include "table.h"
#include "unwind.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_wanted = 1;

/* ---- one call ------------------------------------------------------------------------------------------------- */

struct call {
  struct insitu_thread *self; /* NULL if the call is not recorded */
  uint32_t depth;
  int is_timed;
  uint64_t start, inside;
};

/* What a call has moved. */
struct moved {
  uint64_t read, written, mapped, opened;
};

/* A call that cannot reach the file is only counted: reading the clock twice takes longer than the call. */
static inline struct call begin(int is_timed) {
  struct call call = {.self = insitu_thread_self(), .is_timed = is_timed};
  if (!insitu_is_on || !call.self || !call.self->depth) return (struct call){0};
  call.depth = call.self->depth;
  if (!is_timed) return call;
  call.inside = insitu_top(call.self)->inside;
  call.start = insitu_ticks();
  return call;
}

/* Record a call that has returned, and return its row, 0 if there is none. `frame` is that of the wrapper. */
static inline __attribute__((always_inline)) uint32_t end(const struct call *call, const char *name, size_t name_bytes,
                                                          const void *frame, struct moved moved) {
  struct insitu_thread *self = call->self;
  if (!self || !insitu_is_on || self->depth != call->depth) return 0;
  uint64_t elapsed = call->is_timed ? insitu_ticks() - call->start : 0;
  int saved = errno;
  struct insitu_frame *top = insitu_top(self);
  uint32_t parent = top->row;
  if (insitu_is_unwinding && insitu_is_unwound(self)) parent = insitu_unwind_caller(self, frame);
  uint64_t key = (uint64_t)(uintptr_t)name;
  uint32_t index = insitu_find_child(parent, key);
  if (__builtin_expect(!index, 0)) index = insitu_row_add(parent, key, INSITU_FILE, name, name_bytes, "", 0, 0);
  if (index) {
    struct insitu_row *row = &insitu_rows[index];
    row->visits++;
    insitu_touch(self, index);
    if (call->is_timed) {
      row->time += elapsed;
      /* A signal handler may have recorded calls of its own meanwhile. */
      row->time_exclusive += elapsed - (top->inside - call->inside);
      top->inside = call->inside + elapsed;
    }
    row->bytes_received += moved.read;
    row->bytes_sent += moved.written;
    row->comm_ranks += moved.mapped;
    row->messages_sent += moved.opened;
  }
  errno = saved;
  return index;
}

#define END(NAME, ...) end(&call, NAME, sizeof NAME - 1, __builtin_frame_address(0), (struct moved){__VA_ARGS__})

/* One name for all variants of a function; its address is the key of the rows. */
static const char name_open[] = "open", name_read[] = "read", name_write[] = "write", name_pread[] = "pread",
                  name_pwrite[] = "pwrite", name_readv[] = "readv", name_writev[] = "writev", name_fsync[] = "fsync",
                  name_mmap[] = "mmap", name_fopen[] = "fopen", name_fread[] = "fread", name_fwrite[] = "fwrite",
                  name_fgets[] = "fgets", name_fputs[] = "fputs", name_fprintf[] = "fprintf",
                  name_readdir[] = "readdir";

/* ---- opening and closing -------------------------------------------------------------------------------------- */

/* Whether `open` was given a mode. */
static int has_mode(int flags) {
  return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

#define MODE(FLAGS)                        \
  mode_t mode = 0;                         \
  if (has_mode(FLAGS)) {                   \
    va_list rest;                          \
    va_start(rest, FLAGS);                 \
    mode = (mode_t)va_arg(rest, unsigned); \
    va_end(rest);                          \
  }

#define RECORD_OPENED(NAME, FLAGS)                         \
  if (call.self) {                                         \
    uint64_t identity = 0;                                 \
    int is_file = identify(file, path, &identity);         \
    uint32_t row = END(NAME, .opened = (uint64_t)is_file); \
    if (insitu_is_temporary(path, FLAGS)) identity = 0;    \
    if (row && is_file) insitu_opened_add(row, identity);  \
  }

#define OPENS(NAME, PARAMETERS, ARGUMENTS, BEFORE) \
  static int(*real_##NAME) PARAMETERS;             \
  static int wrap_##NAME PARAMETERS {              \
    BEFORE struct call call = begin(1);            \
    int file = real_##NAME ARGUMENTS;              \
    forget(file);                                  \
    RECORD_OPENED(name_open, flags)                \
    return file;                                   \
  }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode), MODE(flags))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode), MODE(flags))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), MODE(flags))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), MODE(flags))
OPENS(__open_2, (const char *path, int flags), (path, flags), )
OPENS(__open64_2, (const char *path, int flags), (path, flags), )
OPENS(__openat_2, (int folder, const char *path, int flags), (folder, path, flags), )
OPENS(__openat64_2, (int folder, const char *path, int flags), (folder, path, flags), )
OPENS(creat, (const char *path, mode_t mode), (path, mode), const int flags = O_CREAT;)
OPENS(creat64, (const char *path, mode_t mode), (path, mode), const int flags = O_CREAT;)

#define FOPENS(NAME)                                             \
  static FILE *(*real_##NAME)(const char *, const char *);       \
  static FILE *wrap_##NAME(const char *path, const char *mode) { \
    struct call call = begin(1);                                 \
    FILE *stream = real_##NAME(path, mode);                      \
    int file = stream ? descriptor_of(stream) : -1;              \
    forget(file);                                                \
    RECORD_OPENED(name_fopen, 0)                                 \
    return stream;                                               \
  }

FOPENS(fopen)
FOPENS(fopen64)

/* These are not recorded: only the descriptor may be used for something else from now on. It is forgotten before the
 * call, since another thread may get it as soon as it is closed. */
#define FORGETS(NAME, PARAMETERS, ARGUMENTS, FILE_) \
  static int(*real_##NAME) PARAMETERS;              \
  static int wrap_##NAME PARAMETERS {               \
    forget(FILE_);                                  \
    return real_##NAME ARGUMENTS;                   \
  }

FORGETS(close, (int file), (file), file)
FORGETS(fclose, (FILE * stream), (stream), descriptor_of(stream))

/* The new descriptor is known to refer to something else only after the call. */
static int (*real_dup2)(int, int), (*real_dup3)(int, int, int);
static int wrap_dup2(int file, int other) {
  int copy = real_dup2(file, other);
  forget(copy);
  return copy;
}
static int wrap_dup3(int file, int other, int flags) {
  int copy = real_dup3(file, other, flags);
  forget(copy);
  return copy;
}

static int (*real_close_range)(unsigned, unsigned, int);
static int wrap_close_range(unsigned first, unsigned last, int flags) {
  for (unsigned file = first; file <= last && file < DESCRIPTORS; file++) forget((int)file);
  return real_close_range(first, last, flags);
}
static void (*real_closefrom)(int);
static void wrap_closefrom(int first) {
  for (int file = first < 0 ? 0 : first; file < DESCRIPTORS; file++) forget(file);
  real_closefrom(first);
}

/* ---- reading and writing -------------------------------------------------------------------------------------- */

/* IN_BUFFER is whether a stream serves the call from its buffer. */
#define MOVES(NAME, RESULT, FILE_, ROW, PARAMETERS, ARGUMENTS, ...) \
  BUFFERS(NAME, RESULT, FILE_, 0, ROW, PARAMETERS, ARGUMENTS, __VA_ARGS__)
#define BUFFERS(NAME, RESULT, FILE_, IN_BUFFER, ROW, PARAMETERS, ARGUMENTS, ...) \
  static RESULT(*real_##NAME) PARAMETERS;                                        \
  static RESULT wrap_##NAME PARAMETERS {                                         \
    if (!insitu_is_on || !is_regular(FILE_)) return real_##NAME ARGUMENTS;       \
    struct call call = begin(!(IN_BUFFER));                                      \
    RESULT done = real_##NAME ARGUMENTS;                                         \
    END(ROW, __VA_ARGS__);                                                       \
    return done;                                                                 \
  }
#define BYTES (done > 0 ? (uint64_t)done : 0)
#define ITEMS ((uint64_t)done * size)

MOVES(read, ssize_t, file, name_read, (int file, void *to, size_t bytes), (file, to, bytes), .read = BYTES)
MOVES(__read_chk, ssize_t, file, name_read, (int file, void *to, size_t bytes, size_t room), (file, to, bytes, room),
      .read = BYTES)
MOVES(write, ssize_t, file, name_write, (int file, const void *from, size_t bytes), (file, from, bytes),
      .written = BYTES)
MOVES(pread, ssize_t, file, name_pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at),
      .read = BYTES)
MOVES(pread64, ssize_t, file, name_pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at),
      .read = BYTES)
MOVES(__pread_chk, ssize_t, file, name_pread, (int file, void *to, size_t bytes, off_t at, size_t room),
      (file, to, bytes, at, room), .read = BYTES)
MOVES(__pread64_chk, ssize_t, file, name_pread, (int file, void *to, size_t bytes, off_t at, size_t room),
      (file, to, bytes, at, room), .read = BYTES)
MOVES(pwrite, ssize_t, file, name_pwrite, (int file, const void *from, size_t bytes, off_t at), (file, from, bytes, at),
      .written = BYTES)
MOVES(pwrite64, ssize_t, file, name_pwrite, (int file, const void *from, size_t bytes, off_t at),
      (file, from, bytes, at), .written = BYTES)
MOVES(readv, ssize_t, file, name_readv, (int file, const struct iovec *to, int count), (file, to, count), .read = BYTES)
MOVES(writev, ssize_t, file, name_writev, (int file, const struct iovec *from, int count), (file, from, count),
      .written = BYTES)
MOVES(preadv, ssize_t, file, name_readv, (int file, const struct iovec *to, int count, off_t at), (file, to, count, at),
      .read = BYTES)
MOVES(preadv64, ssize_t, file, name_readv, (int file, const struct iovec *to, int count, off_t at),
      (file, to, count, at), .read = BYTES)
MOVES(pwritev, ssize_t, file, name_writev, (int file, const struct iovec *from, int count, off_t at),
      (file, from, count, at), .written = BYTES)
MOVES(pwritev64, ssize_t, file, name_writev, (int file, const struct iovec *from, int count, off_t at),
      (file, from, count, at), .written = BYTES)
MOVES(fsync, int, file, name_fsync, (int file), (file), 0)
MOVES(fdatasync, int, file, name_fsync, (int file), (file), 0)

BUFFERS(fread, size_t, descriptor_of(stream), is_buffered(stream, (size * count)), name_fread,
        (void *to, size_t size, size_t count, FILE *stream), (to, size, count, stream), .read = ITEMS)
BUFFERS(fread_unlocked, size_t, descriptor_of(stream), is_buffered(stream, (size * count)), name_fread,
        (void *to, size_t size, size_t count, FILE *stream), (to, size, count, stream), .read = ITEMS)
BUFFERS(__fread_chk, size_t, descriptor_of(stream), is_buffered(stream, (size * count)), name_fread,
        (void *to, size_t room, size_t size, size_t count, FILE *stream), (to, room, size, count, stream),
        .read = ITEMS)
BUFFERS(__fread_unlocked_chk, size_t, descriptor_of(stream), is_buffered(stream, (size * count)), name_fread,
        (void *to, size_t room, size_t size, size_t count, FILE *stream), (to, room, size, count, stream),
        .read = ITEMS)
BUFFERS(fwrite, size_t, descriptor_of(stream), has_room(stream, (size * count)), name_fwrite,
        (const void *from, size_t size, size_t count, FILE *stream), (from, size, count, stream), .written = ITEMS)
BUFFERS(fwrite_unlocked, size_t, descriptor_of(stream), has_room(stream, (size * count)), name_fwrite,
        (const void *from, size_t size, size_t count, FILE *stream), (from, size, count, stream), .written = ITEMS)
BUFFERS(fgets, char *, descriptor_of(stream), room > 0 && is_buffered(stream, (size_t)room - 1), name_fgets,
        (char *to, int room, FILE *stream), (to, room, stream), .read = done ? strlen(done) : 0)
BUFFERS(__fgets_chk, char *, descriptor_of(stream), room > 0 && is_buffered(stream, (size_t)room - 1), name_fgets,
        (char *to, size_t size, int room, FILE *stream), (to, size, room, stream), .read = done ? strlen(done) : 0)
BUFFERS(fputs, int, descriptor_of(stream), has_room(stream, strlen(text)), name_fputs, (const char *text, FILE *stream),
        (text, stream), .written = done >= 0 ? strlen(text) : 0)
MOVES(vfprintf, int, descriptor_of(stream), name_fprintf, (FILE * stream, const char *format, va_list values),
      (stream, format, values), .written = BYTES)
MOVES(__vfprintf_chk, int, descriptor_of(stream), name_fprintf,
      (FILE * stream, int flag, const char *format, va_list values), (stream, flag, format, values), .written = BYTES)

/* The same with a list of values, so that the callers of both are found one frame up. */
static int wrap_fprintf(FILE *stream, const char *format, ...) {
  va_list values;
  va_start(values, format);
  struct call call = {0};
  if (insitu_is_on && is_regular(descriptor_of(stream))) call = begin(1);
  int done = real_vfprintf(stream, format, values);
  if (call.self) END(name_fprintf, .written = BYTES);
  va_end(values);
  return done;
}
static int wrap___fprintf_chk(FILE *stream, int flag, const char *format, ...) {
  va_list values;
  va_start(values, format);
  struct call call = {0};
  if (insitu_is_on && is_regular(descriptor_of(stream))) call = begin(1);
  int done = real___vfprintf_chk(stream, flag, format, values);
  if (call.self) END(name_fprintf, .written = BYTES);
  va_end(values);
  return done;
}

/* A mapped file counts with its mapped size: what is read or written there is not seen. */
#define MAPS(NAME)                                                                                    \
  static void *(*real_##NAME)(void *, size_t, int, int, int, off_t);                                  \
  static void *wrap_##NAME(void *hint, size_t bytes, int protection, int flags, int file, off_t at) { \
    if (!insitu_is_on || flags & MAP_ANONYMOUS || !is_regular(file))                                  \
      return real_##NAME(hint, bytes, protection, flags, file, at);                                   \
    struct call call = begin(1);                                                                      \
    void *mapped = real_##NAME(hint, bytes, protection, flags, file, at);                             \
    END(name_mmap, .mapped = mapped != MAP_FAILED ? bytes : 0);                                       \
    return mapped;                                                                                    \
  }
MAPS(mmap)
MAPS(mmap64)

/* An entry of a directory: a visit each, except in folders of the kernel such as /proc. */
#define LISTS(NAME, ENTRY)                                         \
  static struct ENTRY *(*real_##NAME)(DIR *);                      \
  static struct ENTRY *wrap_##NAME(DIR *folder) {                  \
    struct call call = {0};                                        \
    if (insitu_is_on && is_stored_folder(folder)) call = begin(1); \
    struct ENTRY *entry = real_##NAME(folder);                     \
    if (!entry) last_folder.stream = NULL;                         \
    else if (call.self) END(name_readdir, 0);                      \
    return entry;                                                  \
  }
LISTS(readdir, dirent)
LISTS(readdir64, dirent64)

/* ---- slots ---------------------------------------------------------------------------------------------------- */

struct wrapper {
  const char *name;
  void **real;
  const void *wrap;
  const char *bound_as; /* the function that the wrapper calls, if it has another name */
};
#define WRAPPER(NAME) {#NAME, (void **)&real_##NAME, (const void *)wrap_##NAME, #NAME}
#define VARIADIC(NAME, LIST) {#NAME, (void **)&real_##LIST, (const void *)wrap_##NAME, #LIST}
static const struct wrapper wrappers[] = {
    WRAPPER(open),
    WRAPPER(open64),
    WRAPPER(openat),
    WRAPPER(openat64),
    WRAPPER(__open_2),
    WRAPPER(__open64_2),
    WRAPPER(__openat_2),
    WRAPPER(__openat64_2),
    WRAPPER(creat),
    WRAPPER(creat64),
    WRAPPER(fopen),
    WRAPPER(fopen64),
    WRAPPER(close),
    WRAPPER(fclose),
    WRAPPER(dup2),
    WRAPPER(dup3),
    WRAPPER(close_range),
    WRAPPER(closefrom),
    WRAPPER(read),
    WRAPPER(__read_chk),
    WRAPPER(write),
    WRAPPER(pread),
    WRAPPER(pread64),
    WRAPPER(__pread_chk),
    WRAPPER(__pread64_chk),
    WRAPPER(pwrite),
    WRAPPER(pwrite64),
    WRAPPER(readv),
    WRAPPER(writev),
    WRAPPER(preadv),
    WRAPPER(preadv64),
    WRAPPER(pwritev),
    WRAPPER(pwritev64),
    WRAPPER(fsync),
    WRAPPER(fdatasync),
    WRAPPER(fread),
    WRAPPER(fread_unlocked),
    WRAPPER(__fread_chk),
    WRAPPER(__fread_unlocked_chk),
    WRAPPER(fwrite),
    WRAPPER(fwrite_unlocked),
    WRAPPER(fgets),
    WRAPPER(__fgets_chk),
    WRAPPER(fputs),
    WRAPPER(vfprintf),
    WRAPPER(__vfprintf_chk),
    VARIADIC(fprintf, vfprintf),
    VARIADIC(__fprintf_chk, __vfprintf_chk),
    WRAPPER(mmap),
    WRAPPER(mmap64),
    WRAPPER(readdir),
    WRAPPER(readdir64),
};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers };
/* The functions of the C library. A slot that leads elsewhere is left alone: the program or a tool defines a function
 * of that name itself. */
static const void *expected[WRAPPERS];
static atomic_int is_ready;
static const void *own_object, *library;

/* Look the functions up in the C library itself. Returns 0 if that fails, or if another thread is doing it: that one
 * patches all objects afterwards. */
static int prepare(void) {
  static atomic_flag is_preparing = ATOMIC_FLAG_INIT;
  Dl_info info;
  /* Acquire and release order what is looked up. */
  if (atomic_load_explicit(&is_ready, memory_order_acquire)) return 1;
  if (atomic_flag_test_and_set_explicit(&is_preparing, memory_order_acquire)) return 0;
  own_object = dladdr((const void *)&is_ready, &info) ? info.dli_fbase : NULL;
  library = dladdr((const void *)dlsym(RTLD_NEXT, "fopen"), &info) ? info.dli_fbase : NULL;
  if (!library) return 0;
  insitu_find_file_systems();
  for (size_t i = 0; i < WRAPPERS; i++) {
    *wrappers[i].real = dlsym(RTLD_NEXT, wrappers[i].bound_as);
    const void *function = dlsym(RTLD_DEFAULT, wrappers[i].name);
    if (function && dladdr(function, &info) && info.dli_fbase == library) expected[i] = function;
    if (!*wrappers[i].real) expected[i] = NULL;
  }
  atomic_store_explicit(&is_ready, 1, memory_order_release);
  return 1;
}

static int patch_slot(const struct insitu_image *image, uintptr_t slot, const char *symbol, void *patches) {
  for (size_t i = 0; i < WRAPPERS; i++) {
    if (*wrappers[i].name != *symbol || strcmp(wrappers[i].name, symbol)) continue;
    uintptr_t current = insitu_image_value(slot);
    if (!expected[i] || !current || current == (uintptr_t)wrappers[i].wrap) return 0;
    if (!insitu_image_has_value(image, slot)) {
      insitu_image_postpone(patches);
      return 0;
    }
    /* Before its first call a slot leads into its own object, to the code that finds the function. */
    int is_lazy = current >= image->base && current < image->end;
    if (current == (uintptr_t)expected[i] || is_lazy) insitu_image_patch(image, slot, (uintptr_t)wrappers[i].wrap);
    return 0;
  }
  return 0;
}

/* Whether an object keeps its slots: the C library, the MPI library with its components, sanitizers, this library. */
static int is_excluded(const struct dl_phdr_info *object) {
  static const char *const prefixes[] = {"libmpi",    "libmca_", "mca_",       "libopen-",  "libpmi",
                                         "libprrte",  "libucp",  "libuct",     "libucs",    "libucm",
                                         "libfabric", "libasan", "libtsan",    "libubsan",  "liblsan",
                                         "ld-linux",  "ld-musl", "linux-vdso", "libdarshan"};
  if (insitu_image_has_prefix(object->dlpi_name, prefixes, sizeof prefixes / sizeof *prefixes)) return 1;
  const void *base = (const void *)object->dlpi_addr;
  return base == own_object || base == library || insitu_mpi_is_core(base);
}

void insitu_files_patch(void) {
  static struct insitu_patches patches = {.visit = patch_slot, .is_excluded = is_excluded};
  if (!is_wanted || !insitu_table) return;
  struct insitu_interrupts before = insitu_block_interrupts();
  if (prepare()) insitu_image_patch_loaded(&patches);
  insitu_restore_interrupts(&before);
}

void insitu_files_stop(void) {
  is_wanted = 0;
}
