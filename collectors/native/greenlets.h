/* Greenlets, which exchange the stack of calls inside a call. */
#ifndef INSITU_GREENLETS_H
#define INSITU_GREENLETS_H

#include "table.h"

/* Whether the program has greenlets: then a call that ends below others may be one of a greenlet that took its turn. */
extern int insitu_has_greenlets;

/* The calls of this thread are now those of `target`; those of `origin` are stored until it runs again. */
void insitu_greenlet_switch(struct insitu_thread *self, const void *origin, const void *target);

#endif
