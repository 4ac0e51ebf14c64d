/* Parallel regions of programs that use GCC's OpenMP runtime, libgomp. */
#ifndef INSITU_GOMP_H
#define INSITU_GOMP_H

/* Lead the calls of newly loaded objects into libgomp to the wrappers. Does nothing while it is not loaded. */
void insitu_gomp_patch(void);

#endif
