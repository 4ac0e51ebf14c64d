/* Programs that a job script starts inherit the measurement. */
#ifndef INSITU_EXEC_H
#define INSITU_EXEC_H

#include <alloca.h>
#include <stddef.h>

/* How much memory a copy of the environment needs that has our library in LD_PRELOAD, or has it not, if `program` (a
 * path, a word that is looked up in PATH, or NULL) could not load it, and our folder in PYTHONPATH; 0 if the
 * environment is passed on unchanged. */
size_t insitu_exec_bytes(const char *program, char *const *environment);
/* Copy an environment into this memory, with our words first in their lists. */
char **insitu_exec_copy(const char *program, char *const *environment, char **copy);

/* The environment to execute with. A copy is on the stack of the caller, because this may be a child of vfork(), which
 * shares the memory of its parent. */
#define INSITU_EXEC_ENVIRONMENT(program, environment)                                       \
  ({                                                                                        \
    size_t bytes_ = insitu_exec_bytes(program, environment);                                \
    bytes_ ? insitu_exec_copy(program, environment, alloca(bytes_)) : (char **)environment; \
  })

#endif
