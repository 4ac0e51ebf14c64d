/* Programs that a job script starts inherit the measurement. */
#ifndef INSITU_EXEC_H
#define INSITU_EXEC_H

#include <alloca.h>
#include <stddef.h>

/* How much memory a copy of the environment with our library needs; 0 if it is passed on unchanged. */
size_t insitu_exec_bytes(char *const *environment);
/* Copy an environment into this memory, with our library first in LD_PRELOAD. */
char **insitu_exec_copy(char *const *environment, char **copy);

/* The environment to execute with. A copy is on the stack of the caller, because this may be a child of vfork(), which
 * shares the memory of its parent. */
#define INSITU_WITH_LIBRARY(environment)                                                                           \
  (insitu_exec_bytes(environment) ? insitu_exec_copy(environment, (char **)alloca(insitu_exec_bytes(environment))) \
                                  : (char **)(environment))

#endif
