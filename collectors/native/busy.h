/* How long something was busy: the union of intervals, which may overlap and come in any order. */
#ifndef INSITU_BUSY_H
#define INSITU_BUSY_H

#include <stdint.h>

struct insitu_gap {
  uint64_t from, to;
};

#define INSITU_GAPS 65536u

/* All zero before the first interval. Intervals that lie before the latest INSITU_GAPS gaps add nothing. */
struct insitu_busy {
  uint64_t busy;           /* the length of the union */
  uint64_t first, until;   /* the beginning of the first interval, the end of the last one */
  struct insitu_gap *gaps; /* between them, ascending; room for INSITU_GAPS */
  uint32_t used;
};

/* Add the interval from `from` to `to`. */
void insitu_busy_add(struct insitu_busy *all, uint64_t from, uint64_t to);

#endif
