/* Which files a rank opens, per call path: a set of identities for each row of open and fopen.
 *
 * Readers compare the sets of all ranks: a file that all of them open is shared, a file that one of them opens is its
 * own. A set keeps the smallest identities, so that full sets of different ranks keep the same files. */
#define _GNU_SOURCE
#include "file_sets.h"

#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

static atomic_flag is_locked = ATOMIC_FLAG_INIT; /* protects everything below, and the sets */

/* Mix the bits of a number [MurmurHash3, finaliser]. */
static uint64_t mix(uint64_t bits) {
  bits = (bits ^ bits >> 33) * 0xff51afd7ed558ccdu;
  bits = (bits ^ bits >> 33) * 0xc4ceb9fe1a85ec53u;
  return bits ^ bits >> 33;
}

/* Nodes number the devices of a network file system as they like, so the device does not count. Node-local files of
 * equal names may have equal inodes by chance; the name distinguishes the others. */
uint64_t insitu_opened_identity(uint64_t inode, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  uint64_t hash = mix(inode);
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u; /* FNV-1a */
  return mix(hash) >> 12; /* 52 bits are exact as a floating-point number */
}

/* The set of a row, created if there is room for it; NULL otherwise. */
static struct insitu_opened *find_set(uint32_t row) {
  struct insitu_header *header = insitu_table->header;
  /* Relaxed: only the holder of the lock changes it. */
  uint32_t used = atomic_load_explicit(&header->opened_used, memory_order_relaxed);
  for (uint32_t i = 0; i < used; i++)
    if (insitu_table->opened[i].row == row) return &insitu_table->opened[i];

  if (used == INSITU_OPENED || !insitu_opened_reserve()) return NULL;
  insitu_table->opened[used].row = row;
  /* Release: a reader that sees the set sees its row. */
  atomic_store_explicit(&header->opened_used, used + 1, memory_order_release);
  return &insitu_table->opened[used];
}

static void insert(struct insitu_opened *set, uint64_t identity) {
  uint32_t count = set->count, at = 0;
  while (at < count && set->files[at] < identity) at++;
  if (at < count && set->files[at] == identity) return;
  if (count == INSITU_OPENED_FILES) {
    set->is_full = 1;
    if (at == count) return;
    count--;
  }
  memmove(&set->files[at + 1], &set->files[at], (count - at) * sizeof *set->files);
  set->files[at] = identity;
  set->count = count + 1;
}

void insitu_opened_add(uint32_t row, uint64_t identity) {
  /* Acquire and release order what the lock protects. */
  if (atomic_flag_test_and_set_explicit(&is_locked, memory_order_acquire)) {
    insitu_table->header->opened_refused = 1;
    return;
  }
  int saved = errno;
  struct insitu_opened *set = find_set(row);
  errno = saved;
  if (set && identity) insert(set, identity);
  if (!set) insitu_table->header->opened_refused = 1;
  atomic_flag_clear_explicit(&is_locked, memory_order_release);
}

static struct {
  const char *folder;
  long magic;
  dev_t device; /* 0, which no file system has, if it is not mounted there */
} of_kernel[] = {
    {"/proc", PROC_SUPER_MAGIC, 0},
    {"/sys", SYSFS_MAGIC, 0},
    {"/sys/fs/cgroup", CGROUP2_SUPER_MAGIC, 0},
};
enum { OF_KERNEL = sizeof of_kernel / sizeof *of_kernel };

/* The folder that TMPDIR names, without slashes at its end; "" if there is none. */
static char own_folder[1024];

static void find_own_folder(void) {
  const char *folder = getenv("TMPDIR");
  if (!folder) return;
  size_t length = strlen(folder);
  while (length && folder[length - 1] == '/') length--;
  if (length < sizeof own_folder) memcpy(own_folder, folder, length);
}

/* Whether a folder is on a disk of the node. Asked only once the program has opened a file in it: a file system that
 * does not answer must not delay other programs. */
static int is_on_disk_of_node(const char *folder) {
  static const long disks[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                               TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */};
  int saved = errno;
  struct statfs system;
  int failed = statfs(folder, &system);
  errno = saved;
  for (size_t i = 0; !failed && i < sizeof disks / sizeof *disks; i++)
    if ((long)system.f_type == disks[i]) return 1;
  return 0;
}

/* Whether this path is that of a new file directly in a folder, or, of an unnamed file, the folder. */
static int is_directly_in(const char *folder, const char *path, int is_unnamed) {
  size_t length = strlen(folder);
  if (!length || strncmp(path, folder, length)) return 0;
  const char *rest = path + length;
  while (rest[0] == '/' && rest[1] == '/') rest++;
  return is_unnamed ? !*rest || !strcmp(rest, "/") : *rest == '/' && !strchr(rest + 1, '/');
}

void insitu_find_file_systems(void) {
  int saved = errno;
  find_own_folder();
  for (int i = 0; i < OF_KERNEL; i++) {
    struct statfs system;
    struct stat status;
    if (statfs(of_kernel[i].folder, &system) || (long)system.f_type != of_kernel[i].magic) continue;
    if (!stat(of_kernel[i].folder, &status)) of_kernel[i].device = status.st_dev;
  }
  errno = saved;
}

int insitu_is_of_kernel(const struct stat *status) {
  for (int i = 0; i < OF_KERNEL; i++)
    if (status->st_dev == of_kernel[i].device) return 1;
  return 0;
}

int insitu_is_temporary(const char *path, int flags) {
  static const char *const folders[] = {"/tmp", "/var/tmp", "/dev/shm"};
  int is_unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  if (!is_unnamed && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL)) return 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (is_directly_in(folders[i], path, is_unnamed)) return 1;
  return is_directly_in(own_folder, path, is_unnamed) && is_on_disk_of_node(own_folder);
}

int insitu_is_stored(const struct stat *status) {
  return S_ISREG(status->st_mode) && !insitu_is_of_kernel(status);
}
