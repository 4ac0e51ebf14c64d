/* Library code is recorded only at its boundary: what a library calls inside itself is its own time. */
#include "frames.h"

#include "budget.h"

#include <fnmatch.h>
#include <string.h>

#define CODES 32768u /* code objects that are remembered; a power of two */
#define WORDS 64

static struct insitu_code codes[CODES];
static uint16_t codes_in_order[CODES];
static unsigned codes_used;
static char pool[32768];
static const char *library_prefixes[WORDS + 1], *user_prefixes[WORDS + 1], *our_prefixes[WORDS + 1];
static const char *only_patterns[WORDS + 1], *skip_patterns[WORDS + 1];
static unsigned deepest = ~0u;
int insitu_keeps_recursion;
const PyObject *insitu_ignored[INSITU_LATELY];

static int keep_words(PyObject *text, const char **into, size_t *pool_used) {
  /* One string, words separated by newlines. */
  Py_ssize_t bytes = 0;
  const char *at = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (!at) return -1;
  size_t count = 0;
  const char *end = at + bytes;
  while (at < end && count < WORDS) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    if (*pool_used + length + 1 > sizeof pool) break;
    if (length) {
      into[count++] = memcpy(pool + *pool_used, at, length);
      pool[*pool_used + length] = 0;
      *pool_used += length + 1;
    }
    at += length + 1;
  }
  into[count] = NULL;
  return 0;
}

int insitu_frames_configure(PyObject *library, PyObject *user, PyObject *ours, PyObject *only, PyObject *skip) {
  size_t used = 0;
  if (insitu_rows) insitu_rows[0].flags |= ROW_IS_PROGRAM;
  return keep_words(library, library_prefixes, &used) || keep_words(user, user_prefixes, &used) ||
         keep_words(ours, our_prefixes, &used) || keep_words(only, only_patterns, &used) ||
         keep_words(skip, skip_patterns, &used);
}

void insitu_frames_limit(unsigned depth, int keeps) {
  deepest = depth;
  insitu_keeps_recursion = keeps;
}

static int starts_with_any(const char *text, const char **prefixes) {
  for (; *prefixes; prefixes++)
    if (strncmp(text, *prefixes, strlen(*prefixes)) == 0) return 1;
  return 0;
}

static int is_library_file(const char *file) {
  if (starts_with_any(file, user_prefixes)) return 0;
  if (file[0] == '<') return 1; /* frozen modules, code that named tuples and data classes generate */
  return starts_with_any(file, library_prefixes) || strstr(file, "/site-packages/") || strstr(file, "/dist-packages/");
}

static long attribute_number(PyObject *object, const char *name) {
  PyObject *value = PyObject_GetAttrString(object, name);
  long number = value ? PyLong_AsLong(value) : 0;
  if (value) Py_DecRef(value);
  return number;
}

static size_t row_name(PyObject *code, PyObject *globals, unsigned flags, char *name, size_t capacity) {
  PyObject *qualname = PyObject_GetAttrString(code, "co_qualname");
  Py_ssize_t qualname_bytes = 0, module_bytes = 0;
  const char *text = qualname ? PyUnicode_AsUTF8AndSize(qualname, &qualname_bytes) : NULL;
  PyObject *module = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
  const char *prefix = module ? PyUnicode_AsUTF8AndSize(module, &module_bytes) : NULL;
  size_t used = 0;
  if (prefix && strcmp(prefix, "__main__") != 0 && (size_t)module_bytes < capacity / 2) {
    memcpy(name, prefix, (size_t)module_bytes);
    used = (size_t)module_bytes;
    if (!(flags & ROW_IS_MODULE)) name[used++] = '.';
    else text = NULL; /* the body of a module is called by the module's name */
  }
  if (text) {
    size_t length = (size_t)qualname_bytes < capacity - used ? (size_t)qualname_bytes : capacity - used;
    memcpy(name + used, text, length);
    used += length;
  }
  PyErr_Clear();
  if (qualname) Py_DecRef(qualname);
  if (!used) {
    name[0] = '?';
    used = 1;
  }
  static const char *const machinery[] = {"importlib._bootstrap", "_frozen_importlib"};
  for (int i = 0; i < 2; i++) {
    if (used <= strlen(machinery[i]) || memcmp(name, machinery[i], strlen(machinery[i]))) continue;
    memcpy(name, "(import)", 8);
    return 8;
  }
  return used;
}

/* A pattern names functions, `solver.*` or `Solver.step`, whole modules, `solver`, or with a slash files. */
static int matches_any(const char **patterns, const char *name, const char *file) {
  for (; *patterns; patterns++) {
    if (strchr(*patterns, '/')) {
      if (fnmatch(*patterns, file, 0) == 0) return 1;
      continue;
    }
    if (fnmatch(*patterns, name, 0) == 0) return 1;
    size_t length = strlen(*patterns);
    if (strncmp(*patterns, name, length) == 0 && name[length] == '.') return 1;
  }
  return 0;
}

static int is_ignored(PyObject *code, PyObject *globals, unsigned flags, const char *file) {
  if (starts_with_any(file, our_prefixes)) return 1;
  if (!*only_patterns && !*skip_patterns) return 0;
  char name[1024];
  name[row_name(code, globals, flags, name, sizeof name - 1)] = 0;
  if (*only_patterns && !matches_any(only_patterns, name, file)) return 1;
  return matches_any(skip_patterns, name, file);
}

/* Where the body of a generator starts: its first RESUME. */
static uint32_t find_first_resume(PyObject *code) {
  PyObject *bytecode = PyObject_GetAttrString(code, "co_code");
  char *at = NULL;
  Py_ssize_t bytes = 0, i = 0;
  if (bytecode && PyBytes_AsStringAndSize(bytecode, &at, &bytes) == 0)
    while (i < bytes && (unsigned char)at[i] != (Py_Version < 0x030D0000 ? RESUME_311 : RESUME_313)) i += 2;
  if (bytecode) Py_DecRef(bytecode);
  return (uint32_t)i;
}

static void ask(struct insitu_code *entry, PyObject *code, PyObject *globals) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  unsigned flags = ROW_IS_LIBRARY;
  PyObject *file = PyObject_GetAttrString(code, "co_filename");
  PyObject *name = PyObject_GetAttrString(code, "co_name");
  const char *file_text = file ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
  if (file_text) flags = is_library_file(file_text) ? ROW_IS_LIBRARY : 0;
  const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  if (text && strcmp(text, "<module>") == 0) flags |= ROW_IS_MODULE;
  if (attribute_number(code, "co_flags") & (0x20 | 0x80 | 0x200)) { /* also coroutines */
    flags |= ROW_IS_GENERATOR;
    entry->first_resume = find_first_resume(code);
  }
  if (is_ignored(code, globals ? globals : PyEval_GetGlobals(), flags, file_text ? file_text : ""))
    flags |= ROW_IS_IGNORED;
  if (file) Py_DecRef(file);
  if (name) Py_DecRef(name);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  entry->flags = flags;
}

struct insitu_code *insitu_code_find(PyObject *code, PyObject *globals) {
  unsigned at = (unsigned)(((uintptr_t)code >> 4) * 0x9E3779B1u) & (CODES - 1);
  while (codes[at].code) {
    if (codes[at].code == code) return &codes[at];
    at = (at + 1) & (CODES - 1);
  }
  ask(&codes[at], code, globals);
  if (codes_used < CODES * 3 / 4) {
    Py_IncRef(code); /* an address that is remembered must not be used again */
    codes[at].code = code;
    codes_in_order[codes_used++] = (uint16_t)at;
  }
  return &codes[at];
}

struct insitu_code *insitu_code_at(unsigned index) {
  return index < codes_used ? &codes[codes_in_order[index]] : NULL;
}

static unsigned level_of(uint32_t row) {
  return insitu_table->rows[row].flags / ROW_LEVEL;
}

static uint32_t add_row(uint32_t parent, PyObject *code, PyObject *globals, unsigned flags) {
  char name[1024];
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  size_t name_bytes = row_name(code, globals, flags, name, sizeof name);
  PyObject *file = PyObject_GetAttrString(code, "co_filename");
  Py_ssize_t file_bytes = 0;
  const char *text = file ? PyUnicode_AsUTF8AndSize(file, &file_bytes) : NULL;
  uint32_t row = insitu_row_add(
      parent, (uint64_t)(uintptr_t)code, flags & ROW_IS_LIBRARY ? INSITU_LIBRARY : INSITU_PYTHON, name, name_bytes,
      text ? text : "", text ? (size_t)file_bytes : 0, (uint32_t)attribute_number(code, "co_firstlineno"));
  if (row) {
    Py_IncRef(code);
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

/* Whether this call only makes a generator, whose body begins when it is resumed. */
static inline int only_makes_generator(unsigned flags, enum insitu_begin how) {
  return how == INSITU_CALL && flags & ROW_IS_GENERATOR;
}

/* What the interpreter, runpy and threading do below the program's own functions is nobody's row. */
static inline int is_inside_library(struct insitu_thread *self, const struct insitu_frame *top) {
  return insitu_table->rows[top->row].kind == INSITU_LIBRARY || top == self->frames;
}

int insitu_is_deepest(const struct insitu_frame *top) {
  return level_of(top->row) >= deepest;
}

/* The slow path: this code was never seen below this row. */
static enum insitu_began enter_unknown(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                       enum insitu_begin how) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_code *known = insitu_code_find(code, globals);
  unsigned flags = known->flags;
  if (only_makes_generator(flags, how)) return INSITU_NOT_BEGUN;
  if (flags & ROW_IS_MODULE && top == self->frames && is_main_module(globals ? globals : PyEval_GetGlobals())) {
    insitu_push(self, top->row, INSITU_FOLDED, insitu_ticks()); /* the body of __main__ is the program itself */
    insitu_table->rows[top->row].key = (uint64_t)(uintptr_t)code;
    Py_IncRef(code);
    return INSITU_BEGUN;
  }
  if (flags & ROW_IS_IGNORED) {
    if (known->code) *insitu_ignored_at(code) = code; /* else its address may be used again */
    return INSITU_IGNORED;
  }
  if (insitu_is_deepest(top)) {
    if (flags & ROW_IS_GENERATOR) return INSITU_NOT_BEGUN; /* not every end of one is told */
    top->skipped++;
    return INSITU_BEGUN;
  }
  if (flags & ROW_IS_LIBRARY && is_inside_library(self, top)) {
    known->skipped++;
    top->skipped++;
    return INSITU_BEGUN;
  }
  uint32_t row = add_row(top->row, code, globals ? globals : PyEval_GetGlobals(), flags);
  if (!row) {
    insitu_push(self, top->row, INSITU_FOLDED, insitu_ticks()); /* no room: its time stays with the caller */
    return INSITU_BEGUN;
  }
  insitu_table->rows[row].visits += how & 1;
  insitu_push(self, row, 0, insitu_ticks()); /* what it took to make the row is the caller's */
  return INSITU_BEGUN;
}

enum insitu_began insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals,
                                      enum insitu_begin how) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_rows;
  uint64_t key = (uint64_t)(uintptr_t)code;
  if (top->skipped && is_inside_library(self, top)) {
    struct insitu_code *known = insitu_code_find(code, globals);
    if (known->flags & ROW_IS_LIBRARY) {
      if (known->flags & ROW_IS_IGNORED) return INSITU_IGNORED;
      if (only_makes_generator(known->flags, how)) return INSITU_NOT_BEGUN;
      known->skipped++;
      top->skipped++;
      return INSITU_BEGUN;
    }
  }
  uint32_t row = top->row, fold = INSITU_FOLDED;
  if (rows[row].key != key || rows[row].kind == INSITU_LIBRARY || insitu_keeps_recursion) {
    row = insitu_find_child(row, key);
    fold = 0;
    if (!row) return enter_unknown(self, code, globals, how);
  }
  unsigned flags = rows[row].flags;
  if (only_makes_generator(flags, how)) return INSITU_NOT_BEGUN;
  if (flags & ROW_IS_IGNORED) return *insitu_ignored_at(code) = code, INSITU_IGNORED;
  uint64_t now = insitu_ticks();
  if (flags & ROW_IS_LOOP && how & 1 && !fold) insitu_loop_turn(self, now);
  rows[row].visits += how & 1;
  insitu_push(self, row, fold, now);
  if (now >= insitu_look_at) insitu_budget_look(now);
  return INSITU_BEGUN;
}

/* An end that does not match: close everything above its frame, or ignore it if it was entered before the start. */
static void leave_below(struct insitu_thread *self, uint64_t key, uint64_t now) {
  struct insitu_row *rows = insitu_table->rows;
  for (uint32_t depth = self->depth; depth > 1; depth--) {
    if (rows[self->frames[depth - 1].row].key != key) continue;
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
  uint64_t key = (uint64_t)(uintptr_t)code;
  unsigned flags = insitu_code_find(code, NULL)->flags;
  if (top->skipped && is_inside_library(self, top) && flags & ROW_IS_LIBRARY) {
    if (flags & ROW_IS_IGNORED) return INSITU_IGNORED;
    top->skipped--;
    return INSITU_BEGUN;
  }
  if (insitu_rows[top->row].key == key && self->depth > 1) insitu_pop(self, now);
  else if (flags & ROW_IS_IGNORED) return INSITU_IGNORED; /* entered when it was throttled already */
  else if (insitu_is_deepest(top) && top->skipped) top->skipped -= !(flags & ROW_IS_GENERATOR);
  else leave_below(self, key, now);
  return flags & ROW_IS_IGNORED ? INSITU_IGNORED : INSITU_BEGUN;
}
