/* Hardware counters of the process, where the kernel grants them. */
#ifndef INSITU_COUNTERS_H
#define INSITU_COUNTERS_H

#include <stdint.h>

/* Count from here on, in this thread and in those that it starts. */
void insitu_counters_start(void);
/* Instructions and cycles until now, 0 where they cannot be counted. */
void insitu_counters_read(uint64_t counts[2]);
/* Write what was counted into the table; nothing where nothing could be. */
void insitu_counters_end(void);

#endif
