/* Which files a rank opens, per call path. */
#ifndef INSITU_FILE_SETS_H
#define INSITU_FILE_SETS_H

#include <stdint.h>
#include <sys/stat.h>

/* Record that the call path of this row opened a file, or, with the identity 0, one that is not compared. Never blocks;
 * of files opened at the same time by another thread or in a signal handler, one may be missed, and the row then counts
 * as incomplete. */
void insitu_opened_add(uint32_t row, uint64_t identity);
/* The identity of a file: equal for all ranks that open it, on all nodes that mount its file system. */
uint64_t insitu_opened_identity(uint64_t inode, const char *path);

/* Find out which file systems are those of the kernel, such as /proc, where programs look up their memory and no server
 * is asked, and which folder TMPDIR names. Before the first use of the others. */
void insitu_find_file_systems(void);
/* Whether this file or folder is one of these. */
int insitu_is_of_kernel(const struct stat *status);
/* Whether a file that was opened with these flags is a temporary one on a disk of the node: a new file directly in
 * /tmp, in TMPDIR or the like. No other rank sees it, and no server of a shared file system is asked. */
int insitu_is_temporary(const char *path, int flags);
/* Whether this is a regular file that is stored somewhere. */
int insitu_is_stored(const struct stat *status);

#endif
