/* Memory of the process and of MPI, as marks in the table. */
#ifndef INSITU_MEMORY_H
#define INSITU_MEMORY_H

/* What the process has when the table ends. */
void insitu_memory_at_end(void);

/* Around MPI_Init, and before MPI_Finalize: what MPI takes [VAL §3.2]. */
void insitu_memory_before_init(void);
void insitu_memory_after_init(void);
void insitu_memory_before_finalize(void);

#endif
