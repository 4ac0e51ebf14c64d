/* Timing MPI calls by patching global offset tables; nothing named MPI_* is exported. */
#ifndef INSITU_MPI_WRAPPER_H
#define INSITU_MPI_WRAPPER_H

#include "mpi_library.h"

#include <stddef.h>

/* A function of MPI that is wrapped. */
struct insitu_mpi_call {
  const char *name;
  Function *real;
  Function wrap;
  int is_left; /* the program's own function of that name stands before it: its PMPI call is timed */
};
extern struct insitu_mpi_call insitu_mpi_calls[];
extern const size_t insitu_mpi_calls_count;

/* Patch all objects loaded since the last call; returns the number of slots that were patched. */
int insitu_mpi_patch(void);

#endif
