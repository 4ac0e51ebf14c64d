/* Memory of the process and of MPI. */
#ifndef INSITU_MEMORY_H
#define INSITU_MEMORY_H

#include <stdint.h>

/* In bytes; all 0 if the kernel does not report them. */
struct insitu_memory {
  int64_t resident, peak, between_processes, swapped;
};
struct insitu_pages {
  uint64_t pss, private, shared, swapped;
};

/* Read the memory of the process; takes 14 us. */
struct insitu_memory insitu_memory_read(void);
/* Read it page by page, which takes up to 7 ms; all 0 if it would take longer. */
struct insitu_pages insitu_memory_pages(struct insitu_memory now);
/* Write the memory of the process at its end into the header of the table. */
void insitu_memory_at_end(void);

/* Called around MPI_Init and before MPI_Finalize, to determine the memory of MPI [VAL §3.2]. */
void insitu_memory_before_init(void);
void insitu_memory_after_init(void);
void insitu_memory_before_finalize(void);

#endif
