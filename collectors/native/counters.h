/* Hardware counters of the process, if the kernel permits them. */
#ifndef INSITU_COUNTERS_H
#define INSITU_COUNTERS_H

#include <stdint.h>

/* Start counting in this thread and in those that it starts. */
void insitu_counters_start(void);
/* Read instructions and cycles so far, 0 if they cannot be counted. */
void insitu_counters_read(uint64_t counts[2]);
/* Write the counts into the header of the table. */
void insitu_counters_end(void);

#endif
