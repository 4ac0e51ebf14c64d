/* Call paths of programs that were not built for it: the functions that are open at an MPI call, read from the stack.
 */
#ifndef INSITU_UNWIND_H
#define INSITU_UNWIND_H

#include "table.h"

#include <stdatomic.h>

/* Whether call paths are read from stacks. Set once, before the program starts. */
extern int insitu_is_unwinding;
/* How often objects were unloaded: rules that were read before may be those of another object. Relaxed: who calls code
 * of an object that was loaded later has synchronised with whoever loaded it. */
extern _Atomic uint32_t insitu_objects_unloaded;

/* A function that begins regions for its caller, and the number of functions on the stack. */
struct insitu_region_call {
  uintptr_t wrapper;  /* it gets no row; 0 if there is none */
  uint32_t functions; /* result: on the stack up to the caller */
};

/* Return the row of the function that called the wrapper with this frame, below those of its callers. If the stack
 * cannot be read up to its end, it is the row of the innermost open frame. `frame` holds the caller's frame pointer and
 * the return address. */
uint32_t insitu_unwind_caller(struct insitu_thread *self, const uintptr_t *frame);
/* The same for a region that begins. */
uint32_t insitu_unwind_region(struct insitu_thread *self, const uintptr_t *frame, struct insitu_region_call *call);

/* The program is in Python: samples are read up to this function, which evaluates it, and count below the innermost
 * open frame. Returns 0 if it is unknown where the function is. */
int insitu_unwind_python(uintptr_t function);
/* Prepare the calling thread for samples. Returns 0 if there is no memory. */
int insitu_unwind_prepare(struct insitu_thread *self);
/* Count `weight` samples in the row of the function that a signal interrupted; `context` is that of the handler.
 * Except in Python, nothing is counted while a frame is open that is neither the outermost nor a region, since then
 * functions are timed otherwise. */
void insitu_unwind_sample(struct insitu_thread *self, const void *context, uint64_t weight);

#endif
