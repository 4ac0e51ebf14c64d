/* How a process ends: exit, and the calls that run no exit handlers. */
#ifndef INSITU_ENDINGS_H
#define INSITU_ENDINGS_H

/* Variables in which launchers store the rank of a process. */
#define INSITU_RANK_VARIABLES 6
extern const char *const insitu_rank_variables[INSITU_RANK_VARIABLES];

/* insitu/run/environment.py adds it: the address sanitizer refuses to run behind another library. */
#define INSITU_ASAN_OPTION "verify_asan_link_order=0"

/* From now on the table records how the process ends. Called after the table is created, and before the environment is
 * restored: a program that replaces this one is measured with the same variables. */
void insitu_endings_start(void);

#endif
