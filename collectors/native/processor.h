/* Processor time of the process. */
#ifndef INSITU_PROCESSOR_H
#define INSITU_PROCESSOR_H

#include <stdint.h>

/* Return the time that all threads of the process have spent on processors so far, in nanoseconds. */
uint64_t insitu_processor_ns(void);
/* Store this time, how many threads used it, and how long the main thread waited for a processor, in the header. */
void insitu_processor_at_end(void);

/* Called after MPI_Init and before MPI_Finalize: waiting for a processor before and after is start-up. */
void insitu_processor_after_init(void);
void insitu_processor_before_finalize(void);

#endif
