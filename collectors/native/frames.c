/* Library code is recorded only at its boundary: what a library calls inside itself is its own time. */
#include "frames.h"

#include <string.h>

#define CODES 16384u /* code objects whose flags are remembered; a power of two */
#define PREFIXES 64

struct code_entry {
  PyObject *code;
  unsigned flags;
};
static struct code_entry codes[CODES];
static unsigned codes_used;
static char prefix_pool[16384];
static const char *library_prefixes[PREFIXES + 1], *user_prefixes[PREFIXES + 1];

static int keep_prefixes(PyObject *text, const char **into, size_t *pool_used) {
  /* One string, prefixes separated by newlines. */
  Py_ssize_t bytes = 0;
  const char *at = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (!at) return -1;
  size_t count = 0;
  const char *end = at + bytes;
  while (at < end && count < PREFIXES) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    if (*pool_used + length + 1 > sizeof prefix_pool) break;
    if (length) {
      into[count++] = memcpy(prefix_pool + *pool_used, at, length);
      prefix_pool[*pool_used + length] = 0;
      *pool_used += length + 1;
    }
    at += length + 1;
  }
  into[count] = NULL;
  return 0;
}

int insitu_frames_configure(PyObject *library, PyObject *user) {
  size_t pool_used = 0;
  if (keep_prefixes(library, library_prefixes, &pool_used)) return -1;
  return keep_prefixes(user, user_prefixes, &pool_used);
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

static unsigned ask_flags(PyObject *code) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  unsigned flags = CODE_IS_LIBRARY;
  PyObject *file = PyObject_GetAttrString(code, "co_filename");
  PyObject *name = PyObject_GetAttrString(code, "co_name");
  const char *text = file ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
  if (text) flags = is_library_file(text) ? CODE_IS_LIBRARY : 0;
  text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  if (text && strcmp(text, "<module>") == 0) flags |= CODE_IS_MODULE;
  if (attribute_number(code, "co_flags") & (0x20 | 0x80 | 0x200)) flags |= CODE_IS_GENERATOR; /* also coroutines */
  if (file) Py_DecRef(file);
  if (name) Py_DecRef(name);
  PyErr_Restore(type, value, traceback);
  return flags;
}

unsigned insitu_code_flags(PyObject *code) {
  unsigned at = (unsigned)(((uintptr_t)code >> 4) * 0x9E3779B1u) & (CODES - 1);
  while (codes[at].code) {
    if (codes[at].code == code) return codes[at].flags;
    at = (at + 1) & (CODES - 1);
  }
  unsigned flags = ask_flags(code);
  if (codes_used < CODES * 3 / 4) {
    Py_IncRef(code); /* an address that is remembered must not be used again */
    codes[at].flags = flags;
    codes[at].code = code;
    codes_used++;
  }
  return flags;
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
    if (!(flags & CODE_IS_MODULE)) name[used++] = '.';
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

static uint32_t add_row(uint32_t parent, PyObject *code, PyObject *globals, unsigned flags) {
  char name[1024];
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  size_t name_bytes = row_name(code, globals, flags, name, sizeof name);
  PyObject *file = PyObject_GetAttrString(code, "co_filename");
  Py_ssize_t file_bytes = 0;
  const char *text = file ? PyUnicode_AsUTF8AndSize(file, &file_bytes) : NULL;
  uint32_t row = insitu_row_add(
      parent, (uint64_t)(uintptr_t)code, flags & CODE_IS_LIBRARY ? INSITU_LIBRARY : INSITU_PYTHON, name, name_bytes,
      text ? text : "", text ? (size_t)file_bytes : 0, (uint32_t)attribute_number(code, "co_firstlineno"));
  if (row) Py_IncRef(code);
  if (file) Py_DecRef(file);
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
  return how == INSITU_CALL && flags & CODE_IS_GENERATOR;
}

/* The slow path: this code was never seen below this row. */
static int enter_unknown(struct insitu_thread *self, PyObject *code, PyObject *globals, enum insitu_begin how,
                         uint64_t now) {
  struct insitu_frame *top = insitu_top(self);
  unsigned flags = insitu_code_flags(code);
  enum insitu_kind kind = insitu_table->rows[top->row].kind;
  if (only_makes_generator(flags, how)) return 0;
  if (flags & CODE_IS_MODULE && top == self->frames && is_main_module(globals)) {
    insitu_push(self, top->row, INSITU_FOLDED, now); /* the body of __main__ is the program itself */
    insitu_table->rows[top->row].key = (uint64_t)(uintptr_t)code;
    Py_IncRef(code);
    return 1;
  }
  /* What the interpreter, runpy and threading do below the program's own functions is nobody's row. */
  if (flags & CODE_IS_LIBRARY && (kind == INSITU_LIBRARY || top == self->frames)) {
    top->skipped++;
    return 1;
  }
  uint32_t row = add_row(top->row, code, globals, flags);
  if (!row) {
    insitu_push(self, top->row, INSITU_FOLDED, now); /* no room: its time stays with the caller */
    return 1;
  }
  insitu_table->rows[row].flags = flags;
  insitu_table->rows[row].visits += how & 1;
  insitu_push(self, row, 0, insitu_ticks()); /* what it took to make the row is the caller's */
  return 1;
}

int insitu_python_enter(struct insitu_thread *self, PyObject *code, PyObject *globals, enum insitu_begin how,
                        uint64_t now) {
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_table->rows;
  uint64_t key = (uint64_t)(uintptr_t)code;
  if (__builtin_expect(top->skipped != 0, 0)) {
    unsigned flags = insitu_code_flags(code);
    if (flags & CODE_IS_LIBRARY) {
      if (only_makes_generator(flags, how)) return 0;
      top->skipped++;
      return 1;
    }
  }
  uint32_t row = top->row, fold = INSITU_FOLDED; /* direct recursion: one row, time counted once */
  if (__builtin_expect(rows[row].key != key || rows[row].kind == INSITU_LIBRARY, 1)) {
    row = insitu_child(row, key);
    fold = 0;
    if (__builtin_expect(!row, 0)) return enter_unknown(self, code, globals ? globals : PyEval_GetGlobals(), how, now);
  }
  if (only_makes_generator(rows[row].flags, how)) return 0;
  rows[row].visits += how & 1;
  insitu_push(self, row, fold, now);
  return 1;
}

void insitu_python_leave(struct insitu_thread *self, PyObject *code, uint64_t now) {
  if (__builtin_expect(self->overflow != 0, 0)) {
    self->overflow--;
    return;
  }
  struct insitu_frame *top = insitu_top(self);
  struct insitu_row *rows = insitu_table->rows;
  uint64_t key = (uint64_t)(uintptr_t)code;
  if (__builtin_expect(top->skipped != 0, 0) && insitu_code_flags(code) & CODE_IS_LIBRARY) {
    top->skipped--;
    return;
  }
  if (__builtin_expect(rows[top->row].key == key, 1) && self->depth > 1) {
    insitu_pop(self, now);
    return;
  }
  /* An end that does not match: close everything above its frame, or ignore it if it was entered before the start. */
  for (uint32_t depth = self->depth; depth > 1; depth--) {
    if (rows[self->frames[depth - 1].row].key != key) continue;
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
}
