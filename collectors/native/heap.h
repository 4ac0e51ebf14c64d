/* Counting the malloc family per call path. */
#ifndef INSITU_HEAP_H
#define INSITU_HEAP_H

#include <stdint.h>

/* Count nothing in this process from here on. */
void insitu_heap_stop(void);
/* The calling thread ends: what it has counted for itself belongs to the process. */
void insitu_heap_leave(void);

/* Bytes that are in use now, and the most that were since this was asked last; what other threads keep to themselves,
 * up to 64 KiB each, is not in it. */
int64_t insitu_heap_live(int64_t *most);

#endif
