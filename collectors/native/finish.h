/* The end of a rank's measurement. */
#ifndef INSITU_FINISH_H
#define INSITU_FINISH_H

#include "table.h"

/* Close all open frames of this thread, write the final values and mark the table as ended. Later calls do nothing. */
void insitu_finish(enum insitu_state state, int exit_status);

#endif
