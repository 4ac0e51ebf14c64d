/* Regions that a compiled program marks itself. Programs see ../insitu.h. */
#ifndef INSITU_REGIONS_H
#define INSITU_REGIONS_H

#include "table.h"

#include <stdint.h>

/* A region of the calling thread begins, or the innermost one ends. */
void insitu_region_begin(const char *name);
void insitu_region_end(void);
/* The same for a Fortran procedure at `wrapper`, which gets no row: `bytes` of `name`, not terminated. */
void insitu_region_begin_fortran(const char *name, int32_t bytes, uintptr_t wrapper);

/* Like insitu_push, for a region that began when `functions` were on the stack. A sample may be taken at any time, so
 * the frame is complete before it is counted. */
static inline void insitu_push_region(struct insitu_thread *self, uint32_t row, uint32_t flags, uint32_t functions,
                                      uint64_t now) {
  if (__builtin_expect(self->depth == INSITU_DEPTH, 0)) {
    insitu_push(self, row, flags, now); /* only counts it as too deep */
    return;
  }
  struct insitu_frame *frame = &self->frames[self->depth];
  frame->start = now;
  frame->inside = 0;
  frame->row = row;
  frame->flags = insitu_rows[row].open_frames++ ? flags | INSITU_FOLDED : flags;
  frame->skipped = functions;
  frame->stack = 0;
  atomic_signal_fence(memory_order_release);
  self->depth++;
}

#endif
