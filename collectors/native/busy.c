/* The union of intervals: its length, and the latest gaps, which a late interval may fill. */
#include "busy.h"

#include <string.h>

/* Let go of the oldest gap if there is no room for another one: nothing was busy there. */
static void make_room(struct insitu_busy *all) {
  if (all->used < INSITU_GAPS) return;
  memmove(all->gaps, all->gaps + 1, (INSITU_GAPS - 1) * sizeof *all->gaps);
  all->used--;
}

/* Fill what an interval covers of the gaps, the latest first: few intervals are late by more than some gaps. */
static void fill_gaps(struct insitu_busy *all, uint64_t from, uint64_t to) {
  for (uint32_t i = all->used; i-- > 0 && all->gaps[i].to > from;) {
    struct insitu_gap gap = all->gaps[i];
    if (gap.from >= to) continue;
    uint64_t begin = from > gap.from ? from : gap.from, end = to < gap.to ? to : gap.to;
    all->busy += end - begin;

    if (begin > gap.from && end < gap.to) { /* two gaps are left of it */
      if (all->used == INSITU_GAPS && !i) {
        all->gaps[0].from = end;
        continue;
      }
      if (all->used == INSITU_GAPS) i--, make_room(all);
      memmove(all->gaps + i + 2, all->gaps + i + 1, (all->used - i - 1) * sizeof *all->gaps);
      all->gaps[i].to = begin;
      all->gaps[i + 1] = (struct insitu_gap){end, gap.to};
      all->used++;
    } else if (begin > gap.from) {
      all->gaps[i].to = begin;
    } else if (end < gap.to) {
      all->gaps[i].from = end;
    } else {
      memmove(all->gaps + i, all->gaps + i + 1, (all->used - i - 1) * sizeof *all->gaps);
      all->used--;
    }
  }
}

void insitu_busy_add(struct insitu_busy *all, uint64_t from, uint64_t to) {
  if (to <= from) return;
  if (!all->until) { /* the first one */
    all->first = from;
    all->until = to;
    all->busy = to - from;
    return;
  }
  if (from > all->until) {
    make_room(all);
    all->gaps[all->used++] = (struct insitu_gap){all->until, from};
    all->busy += to - from;
    all->until = to;
    return;
  }

  uint64_t until = all->until;
  if (to > until) {
    all->busy += to - until;
    all->until = to;
    to = until;
  }
  if (from < all->first) {
    all->busy += (to < all->first ? to : all->first) - from;
    if (to < all->first) {
      make_room(all);
      memmove(all->gaps + 1, all->gaps, all->used++ * sizeof *all->gaps);
      all->gaps[0] = (struct insitu_gap){to, all->first};
    }
    all->first = from;
  }
  fill_gaps(all, from, to);
}
