/* Counting what the program maps by itself, with mmap, as heap memory. */
#ifndef INSITU_MAPS_H
#define INSITU_MAPS_H

/* Count from here on. */
void insitu_maps_start(void);
/* Count in newly loaded objects too; nothing where counting was not started. */
void insitu_maps_patch(void);

#endif
