/* Rows that are not Python functions: regions marked by the program, and built-in functions. */
#include "marks.h"

#include "loop.h"

#include <string.h>

/* Enter the row of `key` below the current frame. `owner` is the object whose address is the key; it is kept alive for
 * ever, so that the address is not used again. It may be NULL. */
static void begin(struct insitu_thread *self, uint64_t key, enum insitu_kind kind, PyObject *name, PyObject *owner) {
  struct insitu_frame *top = insitu_top(self);
  if (self->depth == INSITU_DEPTH) {
    insitu_push(self, 0, 0, 0); /* only counts it as too deep */
    return;
  }

  uint32_t row = top->row, fold = INSITU_FOLDED;
  if (insitu_table->rows[row].key != key) {
    row = insitu_find_child(top->row, key);
    if (!row) row = insitu_row_fold(top->row, key);
    fold = row && insitu_table->rows[row].parent != top->row ? INSITU_FOLDED : 0;
  }
  if (!row) {
    Py_ssize_t bytes = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &bytes);
    if (!text) {
      PyErr_Clear();
      return;
    }
    row = insitu_row_add(top->row, key, kind, text, (size_t)bytes, "", 0, 0);
    if (!row) return;
    Py_IncRef(owner);
    insitu_table->rows[row].flags = insitu_table->rows[top->row].flags / ROW_LEVEL * ROW_LEVEL + ROW_LEVEL;
  }

  uint64_t now = insitu_ticks();
  if (insitu_table->rows[row].flags & ROW_IS_LOOP && !fold) insitu_loop_iteration(self, now);
  insitu_table->rows[row].visits++;
  insitu_push(self, row, fold, now);
}

/* Leave the row of `key` and close the frames above it. An end without a beginning is ignored. */
static void end(struct insitu_thread *self, uint64_t key) {
  uint64_t now = insitu_ticks();
  if (self->overflow) {
    self->overflow--;
    return;
  }
  for (uint32_t depth = self->depth; depth > 1; depth--) {
    if (insitu_table->rows[self->frames[depth - 1].row].key != key) continue;
    while (self->depth >= depth) insitu_pop(self, now);
    return;
  }
}

void insitu_region_enter(struct insitu_thread *self, PyObject *name) {
  begin(self, (uint64_t)(uintptr_t)name, INSITU_REGION, name, name);
}

void insitu_region_leave(struct insitu_thread *self, PyObject *name) {
  end(self, (uint64_t)(uintptr_t)name);
}

/* Return the key of a built-in function: its C function if each call binds it again, else the object itself. */
static uint64_t builtin_key(PyObject *callable) {
  if (callable->ob_type == &PyCFunction_Type) return (uint64_t)(uintptr_t)PyCFunction_GetFunction(callable);
  return callable->ob_type == &PyMethodDescr_Type ? (uint64_t)(uintptr_t)callable : 0;
}

void insitu_builtin_enter(struct insitu_thread *self, PyObject *callable) {
  struct insitu_frame *top = insitu_top(self);
  uint32_t kind = insitu_table->rows[top->row].kind;
  uint64_t key = builtin_key(callable);
  /* Calls inside library code are not recorded. */
  if (!key || top->skipped || kind == INSITU_LIBRARY || self->depth < 2 || self->depth == INSITU_DEPTH ||
      insitu_is_deepest(top))
    return;
  if (insitu_find_child(top->row, key)) {
    begin(self, key, INSITU_BUILTIN, NULL, NULL);
    return;
  }

  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *name = PyObject_GetAttrString(callable, "__qualname__");
  /* A bound function is not kept alive, since that would keep the object to which it is bound. */
  if (name) begin(self, key, INSITU_BUILTIN, name, callable->ob_type == &PyMethodDescr_Type ? callable : NULL);
  if (name) Py_DecRef(name);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

void insitu_builtin_leave(struct insitu_thread *self, PyObject *callable) {
  uint64_t key = builtin_key(callable);
  if (key && self->depth > 1 && !self->overflow && insitu_table->rows[insitu_top(self)->row].key == key) end(self, key);
}
