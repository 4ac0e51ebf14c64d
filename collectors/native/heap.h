/* Heap memory per call path: wrappers of the malloc family. */
#ifndef INSITU_HEAP_H
#define INSITU_HEAP_H

#include <stdint.h>

/* Stop counting in this process. */
void insitu_heap_stop(void);

/* Return the bytes in use, and set `peak` to the largest value since the last call. Up to 64 KiB that each other thread
 * has not yet added to the total are missing. */
int64_t insitu_heap_live(int64_t *peak);

/* Count memory that does not come from the allocator: bytes that the program maps (positive) or unmaps (negative). */
void insitu_heap_count(int64_t bytes, int is_allocation);
/* Whether nothing is counted: it was stopped, or this is a forked child. */
int insitu_heap_is_off(void);
/* Return the base address of the object that defines the allocator, NULL if it is unknown. */
const void *insitu_heap_allocator(void);

#endif
