/* Regions that programs mark for other tools: NVTX, Kokkos, ITT, PETSc. */
#ifndef INSITU_ANNOTATIONS_H
#define INSITU_ANNOTATIONS_H

#include <stdint.h>

/* Lead what newly loaded objects mark to regions of this library (regions.c). */
void insitu_annotations_patch(void);
/* Return a copy of a name that is never freed, the same for equal names; NULL if there is no room, or
 * if nothing is recorded. */
const char *insitu_annotations_keep(const char *name);

/* The same for the events and stages of PETSc. */
void insitu_petsc_patch(void);

#endif
