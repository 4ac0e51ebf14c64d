/* Which files a rank opens, per call path. */
#ifndef INSITU_FILE_SETS_H
#define INSITU_FILE_SETS_H

#include <stdint.h>

/* Record that the call path of this row opened a file. Never blocks; of files opened at the same time by another
 * thread or in a signal handler, one may be missed, and the row then counts as incomplete. */
void insitu_opened_add(uint32_t row, uint64_t identity);
/* The identity of a file: equal for all ranks that open it, on all nodes that mount its file system. */
uint64_t insitu_opened_identity(uint64_t inode, const char *path);

#endif
