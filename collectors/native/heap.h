/* Counting the malloc family per call path. */
#ifndef INSITU_HEAP_H
#define INSITU_HEAP_H

/* Count nothing in this process from here on. */
void insitu_heap_stop(void);
/* The calling thread ends: what it has counted for itself belongs to the process. */
void insitu_heap_leave(void);

#endif
