/* Where the stack of a thread is. */
#ifndef INSITU_STACK_H
#define INSITU_STACK_H

#include <stdint.h>

/* Find the stack of the calling thread; both are 0 if it is unknown. */
void insitu_stack_find(uintptr_t *from, uintptr_t *to);
/* Whether this thread is on its alternate signal stack. */
int insitu_is_on_alternate_stack(void);
/* Whether this thread is on an alternate signal stack with too little room for what is done once: rows, checks of the
 * budget. A program may give its handlers just what they need. Makes a system call. */
int insitu_is_on_small_stack(void);

#endif
