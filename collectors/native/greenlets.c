/* Greenlets of Python (gevent, eventlet): each has open calls of its own, and one greenlet runs at a time.
 *
 * At a switch, the open calls of the greenlet that stops are closed, and those of the greenlet that continues are
 * opened again, as with generators: their time does not count while another greenlet runs, and resuming is no visit.
 * The calls of a greenlet begin below the thread. */
#include "greenlets.h"

#include <sys/mman.h>

#define STACKS 16384u /* greenlets that wait at a time */
#define CALLS 128u    /* open calls that are stored of each; the rest counts for their callers */
#define BUCKETS 4096u /* a power of two */

struct stored_call {
  uint32_t row, flags, skipped;
};

struct stored_stack {
  const void *greenlet;
  uint32_t next; /* of the bucket, or of those that are free; counted from 1 */
  uint32_t count, skipped;
  uint64_t overflow;
  struct stored_call calls[CALLS];
};

/* The interpreter's lock protects all of it. Untouched pages take no memory. */
static struct stored_stack *stacks;
int insitu_has_greenlets;
static uint32_t buckets[BUCKETS], stacks_used, first_free;

static uint32_t *bucket_of(const void *greenlet) {
  return &buckets[((uintptr_t)greenlet >> 4) * 0x9E3779B1u >> 12 & (BUCKETS - 1)];
}

static struct stored_stack *new_stack(const void *greenlet) {
  if (!stacks) {
    void *memory =
        mmap(NULL, STACKS * sizeof *stacks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    stacks = memory;
  }
  uint32_t number = first_free;
  if (number) first_free = stacks[number - 1].next;
  else if (stacks_used < STACKS) number = ++stacks_used;
  else return NULL;

  struct stored_stack *stack = &stacks[number - 1];
  uint32_t *bucket = bucket_of(greenlet);
  stack->greenlet = greenlet;
  stack->next = *bucket;
  *bucket = number;
  return stack;
}

static void store_calls(struct insitu_thread *self, const void *origin, uint64_t now) {
  struct insitu_frame *base = self->frames;
  int has_calls = self->depth > 1 || base->skipped || self->overflow;
  struct stored_stack *stack = has_calls ? new_stack(origin) : NULL; /* a greenlet that has ended has none */
  if (stack) {
    uint32_t count = self->depth - 1;
    stack->skipped = base->skipped;
    stack->overflow = self->overflow + (count > CALLS ? count - CALLS : 0);
    stack->count = count < CALLS ? count : CALLS;
    for (uint32_t i = 0; i < stack->count; i++) {
      const struct insitu_frame *frame = &base[i + 1];
      stack->calls[i] = (struct stored_call){frame->row, frame->flags & ~(uint32_t)INSITU_FOLDED, frame->skipped};
    }
  } else if (has_calls) {
    insitu_table->header->frames_refused++;
  }
  base->skipped = 0;
  self->overflow = 0;
  while (self->depth > 1) insitu_pop(self, now);
}

static void restore_calls(struct insitu_thread *self, const void *target, uint64_t now) {
  uint32_t *link = bucket_of(target);
  while (*link && stacks[*link - 1].greenlet != target) link = &stacks[*link - 1].next;
  if (!*link) return; /* it begins */

  uint32_t number = *link;
  struct stored_stack *stack = &stacks[number - 1];
  self->frames->skipped = stack->skipped;
  for (uint32_t i = 0; i < stack->count; i++) {
    insitu_push(self, stack->calls[i].row, stack->calls[i].flags, now);
    insitu_top(self)->skipped = stack->calls[i].skipped;
  }
  self->overflow = stack->overflow;
  *link = stack->next;
  stack->next = first_free;
  first_free = number;
}

void insitu_greenlet_switch(struct insitu_thread *self, const void *origin, const void *target) {
  uint64_t now = insitu_ticks();
  if (!self->depth) return;
  store_calls(self, origin, now);
  restore_calls(self, target, now);
}
