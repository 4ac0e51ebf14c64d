/* Rows of compiled functions. */
#ifndef INSITU_COMPILED_H
#define INSITU_COMPILED_H

#include "table.h"

/* Functions that the compiler calls around every function. What they take is sampled, by their section. */
#define INSITU_TIMING __attribute__((section("insitu_timing")))

/* A compiled function, for which the agent looks up the symbol. */
struct insitu_function {
  uint64_t address;   /* within its object */
  const char *object; /* as the linker knows it, "" for the program itself */
  const char *hint;   /* its name if it has no symbol, "" if that is unknown */
};

/* Append a row of a function below `parent`. Returns 0 if there is no room. */
uint32_t insitu_function_row(uint32_t parent, uint64_t key, enum insitu_kind kind,
                             const struct insitu_function *function);

/* An object was unloaded. */
void insitu_compiled_unloaded(void);

#endif
