/* What descriptors refer to, and what streams have in their buffers. Only files.c includes this. */
#ifndef INSITU_DESCRIPTORS_H
#define INSITU_DESCRIPTORS_H

#include "file_sets.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

/* What a descriptor refers to, looked up at its first use after it was opened. Sockets, pipes, terminals and what the
 * kernel tells in /proc are no files. Relaxed throughout: single bytes that nothing else depends on. A descriptor that
 * code without slots closes and opens again as something else would be miscounted. */
enum { UNKNOWN, REGULAR, OTHER };
#define DESCRIPTORS 65536
static _Atomic unsigned char kinds[DESCRIPTORS];

static __attribute__((noinline)) int look_up(int file) {
  int saved = errno;
  struct stat status;
  int kind = fstat(file, &status) ? UNKNOWN : insitu_is_stored(&status) ? REGULAR : OTHER;
  atomic_store_explicit(&kinds[file], (unsigned char)kind, memory_order_relaxed);
  errno = saved;
  return kind == REGULAR;
}

/* Whether a descriptor that was just opened refers to a file, and which. */
static int identify(int file, const char *path, uint64_t *identity) {
  if (file < 0) return 0;
  int saved = errno;
  struct stat status;
  int is_file = !fstat(file, &status) && insitu_is_stored(&status);
  if (is_file) *identity = insitu_opened_identity((uint64_t)status.st_ino, path);
  errno = saved;
  return is_file;
}

static inline int is_regular(int file) {
  if ((unsigned)file >= DESCRIPTORS) return 0;
  unsigned char kind = atomic_load_explicit(&kinds[file], memory_order_relaxed);
  return __builtin_expect(kind != UNKNOWN, 1) ? kind == REGULAR : look_up(file);
}

static void forget(int file) {
  if ((unsigned)file < DESCRIPTORS) atomic_store_explicit(&kinds[file], UNKNOWN, memory_order_relaxed);
}

/* Whether a folder is stored somewhere. The last one is known until its end was read: only a folder that was closed
 * before its end, and another one that is read from the same address, would be confused. */
struct folder {
  const DIR *stream;
  int is_stored;
};
static __thread struct folder last_folder;

static __attribute__((noinline)) int look_up_folder(DIR *folder) {
  int saved = errno;
  struct stat status;
  last_folder.is_stored = fstat(dirfd(folder), &status) || !insitu_is_of_kernel(&status);
  last_folder.stream = folder;
  errno = saved;
  return last_folder.is_stored;
}

static inline int is_stored_folder(DIR *folder) {
  return folder == last_folder.stream ? last_folder.is_stored : look_up_folder(folder);
}

static int descriptor_of(FILE *stream) {
  int saved = errno, file = fileno_unlocked(stream); /* -1 for a stream that is no file */
  errno = saved;
  return file;
}

/* Whether a buffer holds what a call reads or has room for what it writes, so that the call cannot reach the file. The
 * members are those that getc_unlocked and putc_unlocked read in every program that was compiled with them. Another
 * thread may change them meanwhile: then a call is timed, or not, without need. */
static int is_buffered(const FILE *stream, size_t bytes) {
  return stream->_IO_read_end - stream->_IO_read_ptr >= (ptrdiff_t)bytes;
}
static int has_room(const FILE *stream, size_t bytes) {
  return stream->_IO_write_end - stream->_IO_write_ptr >= (ptrdiff_t)bytes;
}

#endif
