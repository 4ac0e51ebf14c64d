#ifndef INSITU_GROWTH_H
#define INSITU_GROWTH_H

#define INSITU_CHUNK 65536u /* bytes that are reserved at a time */

/* Reserve the beginnings of the sections of a new table. Returns 0 if the disk is full. */
int insitu_growth_reserve(void);
/* Notice the ends of threads from now on. */
void insitu_growth_start(void);

#endif
