/* Memory that the program maps itself, with mmap, counted as heap memory. */
#ifndef INSITU_MAPS_H
#define INSITU_MAPS_H

/* Start counting. */
void insitu_maps_start(void);
/* Count in newly loaded objects too. Does nothing if counting was not started. */
void insitu_maps_patch(void);

#endif
