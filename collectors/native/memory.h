/* Memory of the process and of MPI, as marks in the table. */
#ifndef INSITU_MEMORY_H
#define INSITU_MEMORY_H

#include <stdint.h>

/* In bytes; all 0 where the kernel does not tell. */
struct insitu_memory {
  int64_t resident, peak, between_processes, swapped;
};
struct insitu_pages {
  uint64_t pss, private, shared, swapped;
};

/* As it is now; takes 14 us. */
struct insitu_memory insitu_memory_look(void);
/* The same page by page; all 0 where that would take long: 7 ms are allowed. */
struct insitu_pages insitu_memory_pages(struct insitu_memory now);
/* What the process has when the table ends. */
void insitu_memory_at_end(void);

/* Around MPI_Init, and before MPI_Finalize: what MPI takes [VAL §3.2]. */
void insitu_memory_before_init(void);
void insitu_memory_after_init(void);
void insitu_memory_before_finalize(void);

#endif
