/* Counting the malloc family per call path. */
#ifndef INSITU_HEAP_H
#define INSITU_HEAP_H

#include <stdint.h>

/* Count nothing in this process from here on. */
void insitu_heap_stop(void);

/* Bytes that are in use now, and the most that were since this was asked last; what other threads keep to themselves,
 * up to 64 KiB each, is not in it. */
int64_t insitu_heap_live(int64_t *most);

/* Memory that does not come from the allocator: bytes that the program maps (positive) or gives back. */
void insitu_heap_count(int64_t bytes, int is_allocation);
/* Nothing is counted: it was stopped, or this is a forked child. */
int insitu_heap_is_off(void);
/* Where the object of the allocator begins, NULL if that is not known. */
const void *insitu_heap_allocator(void);

#endif
