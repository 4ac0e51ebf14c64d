/* Whose functions an object has. */
#ifndef INSITU_OBJECT_KINDS_H
#define INSITU_OBJECT_KINDS_H

#include <stdint.h>

/* Functions of the program get rows; those of runtimes count for their callers. */
enum { OBJECT_OF_PROGRAM, OBJECT_OF_RUNTIME, OBJECT_OF_MPI };

/* The kind of the object with this path. */
uint8_t insitu_object_kind(const char *path);

#endif
