/* Processor time of the process. */
#ifndef INSITU_PROCESSOR_H
#define INSITU_PROCESSOR_H

#include <stdint.h>

/* Return the time that all threads of the process have spent on processors so far, in nanoseconds. */
uint64_t insitu_processor_ns(void);
/* Store this time, and how many threads used it, in the header. */
void insitu_processor_at_end(void);

#endif
