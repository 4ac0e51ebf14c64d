/* Calls of Python functions: the row of each call path, and the frames of open calls.
 *
 * Library code is recorded only where the program calls it: calls inside a library count as its own time. */
#include "frames.h"

#include "greenlets.h"
#include "loop.h"

#include <string.h>

static unsigned deepest = ~0u;
int insitu_keeps_recursion;
uint64_t insitu_slow_ticks;
const PyObject *insitu_ignored[INSITU_IGNORED_CACHE];

void insitu_frames_limit(unsigned depth, int keeps) {
  deepest = depth;
  insitu_keeps_recursion = keeps;
}

static unsigned level_of(uint32_t row) {
  return insitu_table->rows[row].flags / ROW_LEVEL;
}

static uint32_t add_row(uint32_t parent, PyObject *code, PyObject *globals, unsigned flags) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);

  char name[1024];
  size_t name_bytes = insitu_code_name(code, globals, flags, name, sizeof name);
  PyObject *file = PyObject_GetAttrString(code, "co_filename");
  Py_ssize_t file_bytes = 0;
  const char *text = file ? PyUnicode_AsUTF8AndSize(file, &file_bytes) : NULL;
  enum insitu_kind kind = flags & ROW_IS_LIBRARY ? INSITU_LIBRARY : INSITU_PYTHON;
  uint32_t line = (uint32_t)insitu_attribute_number(code, "co_firstlineno");
  uint32_t row = insitu_row_add(parent, (uint64_t)(uintptr_t)code, kind, name, name_bytes, text ? text : "",
                                text ? (size_t)file_bytes : 0, line);
  if (row) {
    Py_IncRef(code); /* the key of a row must not become the address of another object */
    insitu_table->rows[row].flags = flags + (level_of(parent) + 1) * ROW_LEVEL;
  }

  if (file) Py_DecRef(file);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return row;
}

static int is_main_module(PyObject *globals) {
  PyObject *module = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
  const char *text = module ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
  return text && strcmp(text, "__main__") == 0;
}

/* Whether this call only creates a generator, whose body begins when it is resumed. */
static inline int only_makes_generator(unsigned flags, enum insitu_begin how) {
  return how == INSITU_CALL && flags & ROW_IS_GENERATOR;
}

/* Below the program itself, too, library code gets no row: it is that of the interpreter, runpy and threading. */
static inline int is_inside_library(struct insitu_thread *self, const struct insitu_frame *top) {
  return insitu_table->rows[top->row].kind == INSITU_LIBRARY || top == self->frames;
}

/* A library function that is called inside another one has no row: that of the outermost counts its calls. */
static inline void skip_library_call(struct insitu_frame *top, struct insitu_code *info, enum insitu_begin how) {
  struct insitu_row *row = &insitu_table->rows[top->row];
  info->skipped++;
  top->skipped++;
  if (row->kind == INSITU_LIBRARY) row->bytes_sent += how & 1; /* library_calls */
}

int insitu_is_deepest(const struct insitu_frame *top) {
  return level_of(top->row) >= deepest;
}

/* Only for a code object that is kept alive: the address of another one may return. */
static void remember_ignored(const struct insitu_code *info, PyObject *code) {
  if (info->code == code) *insitu_ignored_at(code) = code;
}

/* The slow path: there is no row for this code below the current one. */
static enum insitu_began enter_unknown(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                       enum insitu_begin how) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_code *info = insitu_code_find(code, globals);
  unsigned flags = info->flags;
  if (only_makes_generator(flags, how)) return INSITU_NOT_BEGUN;

  /* The body of __main__ is the program itself: it shares the row of the program. */
  if (flags & ROW_IS_MODULE && top == self->frames && is_main_module(globals ? globals : PyEval_GetGlobals())) {
    insitu_push(self, top->row, INSITU_FOLDED, insitu_ticks());
    insitu_table->rows[top->row].key = (uint64_t)(uintptr_t)code;
    info->flags |= ROW_IS_PROGRAM;
    Py_IncRef(code);
    return INSITU_BEGUN;
  }

  if (flags & ROW_IS_IGNORED) {
    remember_ignored(info, code);
    return INSITU_IGNORED;
  }
  if (insitu_is_deepest(top)) {
    if (flags & ROW_IS_GENERATOR) return INSITU_NOT_BEGUN; /* not every end of a generator is reported */
    top->skipped++;
    return INSITU_BEGUN;
  }
  if (flags & ROW_IS_LIBRARY && is_inside_library(self, top)) {
    skip_library_call(top, info, how);
    return INSITU_BEGUN;
  }

  PyObject *kept = info->code ? info->code : code;
  uint32_t row = 0;
  if (!(flags & ROW_IS_LIBRARY) && !insitu_keeps_recursion) row = insitu_row_fold(top->row, (uint64_t)(uintptr_t)kept);
  if (row) {
    insitu_table->rows[row].visits += how & 1;
    insitu_push(self, row, INSITU_FOLDED, insitu_ticks());
    return INSITU_BEGUN;
  }
  row = add_row(top->row, kept, globals ? globals : PyEval_GetGlobals(), flags);
  if (!row) {
    insitu_push(self, top->row, INSITU_FOLDED, insitu_ticks()); /* no room: its time stays with the caller */
    return INSITU_BEGUN;
  }
  insitu_table->rows[row].visits += how & 1;
  insitu_push(self, row, 0, insitu_ticks()); /* a later reading of the clock: creating the row is the caller's time */
  return INSITU_BEGUN;
}

/* Return the row of a function below `parent`; `fold` says whether the call is folded into one that is open. If there
 * is no row, both are 0. Row 0 is that of the program, whose own code may call itself. */
static uint32_t find_row(uint32_t parent, uint64_t key, uint32_t *fold) {
  const struct insitu_row *rows = insitu_rows;
  *fold = 0;
  if (rows[parent].key == key && rows[parent].kind != INSITU_LIBRARY && !insitu_keeps_recursion) {
    *fold = INSITU_FOLDED;
    return parent;
  }
  uint32_t row = insitu_find_child(parent, key);
  if (row && rows[row].parent != parent) *fold = INSITU_FOLDED;
  return row;
}

enum insitu_began insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                      enum insitu_begin how) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_rows;
  uint64_t key = (uint64_t)(uintptr_t)code;

  /* Library code inside library code has no frame: only the number of its open calls is kept. */
  if (top->skipped && is_inside_library(self, top)) {
    struct insitu_code *info = insitu_code_find(code, globals);
    if (info->flags & ROW_IS_LIBRARY) {
      if (info->flags & ROW_IS_IGNORED) return INSITU_IGNORED;
      if (only_makes_generator(info->flags, how)) return INSITU_NOT_BEGUN;
      skip_library_call(top, info, how);
      return INSITU_BEGUN;
    }
  }

  uint32_t fold, row = find_row(top->row, key, &fold);
  if (!row && !fold) {
    uint64_t began = insitu_ticks();
    struct insitu_code *info = insitu_code_find(code, globals);
    if (info->code && info->code != code) row = find_row(top->row, (uint64_t)(uintptr_t)info->code, &fold);
    enum insitu_began outcome = INSITU_BEGUN;
    if (!row && !fold) outcome = enter_unknown(self, code, globals, how);
    insitu_slow_ticks += insitu_ticks() - began;
    if (!row && !fold) return outcome;
  }
  unsigned flags = rows[row].flags;
  if (only_makes_generator(flags, how)) return INSITU_NOT_BEGUN;
  if (flags & ROW_IS_IGNORED) {
    remember_ignored(insitu_code_find(code, globals), code);
    return INSITU_IGNORED;
  }

  uint64_t now = insitu_ticks();
  if (flags & ROW_IS_LOOP && how & 1 && !fold) insitu_loop_iteration(self, now);
  rows[row].visits += how & 1;
  insitu_push(self, row, fold, now);
  if (now >= insitu_budget_check_at) insitu_budget_check(now);
  return INSITU_BEGUN;
}

/* The function that ends is not on top: close everything above its frame, or ignore an end whose beginning was before
 * the start of the measurement. If these are regions of regions.c, which may outlast it, its frame stays until they
 * end. */
static void leave_below(struct insitu_thread *self, uint64_t key, uint64_t now) {
  struct insitu_row *rows = insitu_table->rows;
  insitu_table->header->calls_misplaced += (unsigned)insitu_has_greenlets;
  uint32_t marked = INSITU_MARKED; /* or 0: not all frames above are such regions */
  for (uint32_t depth = self->depth; depth > 1; depth--) {
    struct insitu_frame *frame = &self->frames[depth - 1];
    if (rows[frame->row].key != key || frame->flags & INSITU_LEFT) {
      marked &= frame->flags;
      continue;
    }
    if (marked && depth < self->depth) {
      frame->flags |= INSITU_LEFT;
      return;
    }
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
}

enum insitu_began insitu_python_leave(struct insitu_thread *self, PyObject *code) {
  uint64_t now = insitu_ticks();
  if (self->overflow) {
    self->overflow--;
    return INSITU_BEGUN;
  }

  struct insitu_frame *top = insitu_top(self);
  const struct insitu_code *info = insitu_code_find(code, NULL);
  uint64_t key = (uint64_t)(uintptr_t)(info->code ? info->code : code);
  unsigned flags = info->flags;
  if (top->skipped && is_inside_library(self, top) && flags & ROW_IS_LIBRARY) {
    if (flags & ROW_IS_IGNORED) return INSITU_IGNORED;
    top->skipped--;
    return INSITU_BEGUN;
  }

  if (insitu_rows[top->row].key == key && self->depth > 1) insitu_pop(self, now);
  else if (flags & ROW_IS_IGNORED) return INSITU_IGNORED; /* it was throttled before this call began */
  else if (insitu_is_deepest(top) && top->skipped) top->skipped -= !(flags & ROW_IS_GENERATOR);
  else leave_below(self, key, now);
  return flags & ROW_IS_IGNORED ? INSITU_IGNORED : INSITU_BEGUN;
}
