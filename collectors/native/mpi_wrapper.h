/* Wrappers of MPI calls, and the patching of global offset tables that leads calls to them. No MPI_* is exported. */
#ifndef INSITU_MPI_WRAPPER_H
#define INSITU_MPI_WRAPPER_H

#include "mpi_library.h"

#include <stddef.h>

/* A wrapped function of MPI. */
struct insitu_mpi_call {
  const char *name;
  Function *real;
  Function wrap;
  int is_defined;    /* by an object other than the MPI library */
  int is_overridden; /* the program defines a function of that name itself: the PMPI call in it is timed instead */
};
extern struct insitu_mpi_call insitu_mpi_calls[];
extern const size_t insitu_mpi_calls_count;

/* Patch all objects loaded since the last call. Returns the number of patched slots. */
int insitu_mpi_patch(void);
/* The same before dlopen returns: if another thread is patching, wait until it has patched this object too. That takes
 * as long as that thread is kept from running; after about a second the object's first calls may be missed. */
void insitu_mpi_patch_opened(void);
/* Begin to time MPI calls. MPI may be initialised already, by the constructor of a library. */
void insitu_mpi_start(void);

#endif
