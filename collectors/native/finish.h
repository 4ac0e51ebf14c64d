/* The end of a rank's measurement. */
#ifndef INSITU_FINISH_H
#define INSITU_FINISH_H

#include "table.h"

/* Stop recording, close all open frames of this thread and write the final values of every collector. */
void insitu_finish_values(void);
/* The same, and mark the table as ended. Later calls do nothing. */
void insitu_finish(enum insitu_state state, int exit_status);

#endif
