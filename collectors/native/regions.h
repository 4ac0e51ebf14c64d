/* Regions that a compiled program marks itself. Programs see ../insitu.h. */
#ifndef INSITU_REGIONS_H
#define INSITU_REGIONS_H

#include "table.h"

#include <stdint.h>

/* A region of the calling thread begins, or the innermost one ends. */
void insitu_region_begin(const char *name);
void insitu_region_end(void);
/* The same where a function of this library was called, whose frame is `frame`. */
void insitu_region_begin_at(const char *name, const uintptr_t *frame);
/* The same for a Fortran procedure at `wrapper`, which gets no row: `bytes` of `name`, not terminated. */
void insitu_region_begin_fortran(const char *name, int32_t bytes, uintptr_t wrapper);

#endif
