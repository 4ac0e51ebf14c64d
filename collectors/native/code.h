/* Code objects of Python: which are recorded, under which name, and what is known of each. */
#ifndef INSITU_CODE_H
#define INSITU_CODE_H

#include "python_abi.h"
#include "table.h"

#define INSITU_CODES 32768u

/* What is known of a code object. */
struct insitu_code {
  PyObject *code; /* the first object of this name and place: the key of its rows; NULL if it is not remembered */
  unsigned flags; /* the first five of the flags of a row (table.h) */
  uint32_t first_resume; /* of a generator: offset of its first RESUME in the bytecode */
  uint64_t skipped;      /* calls inside libraries, which have no row */
  uint64_t window;       /* events since the last check of the budget */
  uint64_t ticks;        /* inclusive time */
  uint64_t visits;
  unsigned has_callees; /* it calls something that is recorded */
};

/* Set which functions are recorded, as words separated by newlines; at most 64 words each, kept for ever. `library` and
 * `user` are prefixes of files of library code and of exceptions to it, `ours` those of insitu. `only` and `skip` are
 * patterns of names or, with a slash, of files. Returns 0, or -1 with a Python exception set. */
int insitu_code_configure(PyObject *library, PyObject *user, PyObject *ours, PyObject *only, PyObject *skip);

/* Return what is known of a code object; the first call for each object queries Python. `globals` may be NULL if the
 * frame of this code runs. */
struct insitu_code *insitu_code_find(PyObject *code, PyObject *globals);
/* Return the code object found as number `index`, NULL behind the last. */
struct insitu_code *insitu_code_at(unsigned index);

/* Write the name of the row of this code object, not terminated, and return its length. */
size_t insitu_code_name(PyObject *code, PyObject *globals, unsigned flags, char *name, size_t capacity);
/* Return an integer attribute of an object, 0 if there is none. */
long insitu_attribute_number(PyObject *object, const char *name);

#endif
