/* Growth of a rank's table: rows, areas of threads, and the disk space of all sections. */
#define _GNU_SOURCE
#include "growth.h"

#include "image.h"
#include "stack.h"
#include "table.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The table grows without a lock. A signal handler may interrupt a thread there at any instruction, call functions,
 * wait for other threads that add rows, or never return; and blocked signals would be handled by other threads than
 * without us. So each step is one atomic instruction, and any thread can complete what another has begun. */

/* ---- disk space ----------------------------------------------------------------------------------------------- */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define PAGE 4096u /* the smallest */

/* Reserve the pages [from, from + bytes): a full disk is an error here instead of a SIGBUS in the application. The
 * kernel populates the mapping, since the application may have closed any descriptor, and a program in a sandbox may
 * not open files any more. Returns 0 or an errno. */
static int reserve(uint64_t from, uint64_t bytes) {
  uintptr_t at = (uintptr_t)insitu_table->header + from;
  /* The kernel's call: UCX takes a lock in the function of the C library, which a jump out of it would not release. */
  int saved = errno, failed = syscall(SYS_madvise, at, bytes, MADV_POPULATE_WRITE) ? errno : 0;
  errno = saved;
  if (!failed || failed == EFAULT || failed == ENOMEM) return failed;
  for (uint64_t page = 0; page < bytes; page += PAGE)
    if (!insitu_image_is_writable(at + page)) return ENOSPC;
  return 0;
}

static _Atomic uint64_t rows_reserved, names_reserved, threads_reserved, collectives_reserved, partners_reserved,
    messages_reserved, intervals_reserved; /* bytes */

/* Reserve `needed` bytes of the section at `at`, in chunks. Returns 0 if the disk is full. */
static int reserve_section(_Atomic uint64_t *reserved, uint64_t at, uint64_t needed) {
  /* Relaxed: reserving a chunk twice does no harm. */
  uint64_t bytes = atomic_load_explicit(reserved, memory_order_relaxed);
  while (bytes < needed) {
    if (reserve(at + bytes, INSITU_CHUNK)) return 0;
    if (atomic_compare_exchange_strong_explicit(reserved, &bytes, bytes + INSITU_CHUNK, memory_order_relaxed,
                                                memory_order_relaxed))
      bytes += INSITU_CHUNK;
  }
  return 1;
}

int insitu_growth_reserve(void) {
  const struct insitu_header *header = insitu_table->header;
  return reserve_section(&rows_reserved, header->rows_at, 1) && reserve_section(&names_reserved, header->names_at, 1) &&
         reserve_section(&threads_reserved, header->threads_at, sizeof(struct insitu_thread));
}

int insitu_phases_reserve(void) {
  static int is_reserved;
  return is_reserved =
             is_reserved || !reserve(insitu_table->header->phases_at, INSITU_PHASES * sizeof *insitu_table->phases);
}

int insitu_opened_reserve(void) {
  static int is_reserved;
  return is_reserved =
             is_reserved || !reserve(insitu_table->header->opened_at, INSITU_OPENED * sizeof *insitu_table->opened);
}

int insitu_listed_reserve(void) {
  static int is_reserved;
  return is_reserved = is_reserved || !reserve(insitu_table->header->listed_at, INSITU_LISTED * sizeof(uint32_t));
}

int insitu_collectives_reserve(uint32_t count) {
  return reserve_section(&collectives_reserved, insitu_table->header->collectives_at,
                         count * sizeof *insitu_table->collectives);
}

int insitu_messages_reserve(uint32_t count) {
  return reserve_section(&messages_reserved, insitu_table->header->messages_at, count * sizeof *insitu_table->messages);
}

int insitu_intervals_reserve(uint32_t count) {
  return reserve_section(&intervals_reserved, insitu_table->header->intervals_at,
                         count * sizeof *insitu_table->intervals);
}

int insitu_partners_reserve(uint32_t row) {
  return reserve_section(&partners_reserved, insitu_table->header->partners_at,
                         (row + 1ul) * sizeof *insitu_table->partners);
}

/* ---- threads -------------------------------------------------------------------------------------------------- */

static pthread_key_t thread_key;
static int has_thread_key;       /* the program may have taken all keys: then the ends of threads go unnoticed */
static __thread int has_no_area; /* the thread was refused an area, or has released it: it does not try again */

static void give_back_area(struct insitu_thread *area) {
  /* Release: the next owner of the area finds its frames closed. */
  atomic_store_explicit(&area->is_live, 0, memory_order_release);
}

/* Runs when a thread ends. */
static void release_thread(void *value) {
  struct insitu_thread *self = value;
  if (!insitu_table || insitu_is_stopped()) return;
  uint64_t now = insitu_ticks();
  while (self->depth) insitu_pop(self, now);
  insitu_self = NULL;
  has_no_area = 1;
  if (insitu_before_thread_ends) insitu_before_thread_ends();
  give_back_area(self);
}

void insitu_growth_start(void) {
  has_thread_key = !pthread_key_create(&thread_key, release_thread);
}

/* The row of the threads that the function of row `creator` creates. A row has one writer, so each area has its own. No
 * function has such a key. */
static uint32_t root_row(const struct insitu_thread *self, uint32_t creator) {
  uint64_t key = 1 + (uint64_t)(self - insitu_table->threads);
  uint32_t row = insitu_find_child(creator, key);
  return row ? row : insitu_row_add(creator, key, INSITU_THREAD, "(thread)", 8, "", 0, 0);
}

/* Take an area whose owner has ended, or a new one. Returns NULL if there is none. */
static struct insitu_thread *claim_area(void) {
  struct insitu_header *header = insitu_table->header;
  for (uint32_t i = 1; i < INSITU_THREADS; i++) {
    /* Acquire: areas below threads_used are reserved. */
    uint32_t free = 0, used = atomic_load_explicit(&header->threads_used, memory_order_acquire);
    if (i >= used &&
        !reserve_section(&threads_reserved, header->threads_at, (uint64_t)(i + 1) * sizeof(struct insitu_thread)))
      return NULL;
    /* Acquire: pairs with the release of the previous owner. */
    int is_mine = atomic_compare_exchange_strong_explicit(&insitu_table->threads[i].is_live, &free, 1,
                                                          memory_order_acquire, memory_order_relaxed);
    /* Release: readers find the area reserved. If this fails, another thread has done it. */
    if (i >= used)
      atomic_compare_exchange_strong_explicit(&header->threads_used, &used, i + 1, memory_order_release,
                                              memory_order_relaxed);
    if (is_mine) return &insitu_table->threads[i];
  }
  return NULL;
}

struct insitu_thread *insitu_thread_enter(void) {
  struct insitu_thread *none = NULL;
  if (has_no_area || insitu_is_on_small_stack()) return NULL;
  int is_held = insitu_hold_cancellation(); /* a thread that ended here would keep its area */
  struct insitu_thread *area = claim_area();
  uint32_t root = area ? root_row(area, insitu_thread_creator) : 0;
  /* Relaxed: only a count. */
  if (!area) __atomic_fetch_add(&insitu_table->header->threads_refused, 1, __ATOMIC_RELAXED);
  if (area && !root) give_back_area(area);
  has_no_area = !root;
  if (!root) {
    insitu_release_cancellation(is_held);
    return NULL;
  }

  area->root = root;
  area->overflow = 0;
  area->in_mpi = 0;
  insitu_push(area, root, 0, insitu_ticks());
  /* One instruction, which no signal divides: a handler may have entered meanwhile. Relaxed: only this thread reads it.
   */
  if (__atomic_compare_exchange_n(&insitu_self, &none, area, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    insitu_table->rows[root].visits++;
    if (has_thread_key) pthread_setspecific(thread_key, area);
  } else {
    insitu_pop(area, area->frames[0].start);
    give_back_area(area);
  }
  insitu_release_cancellation(is_held);
  return insitu_self;
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* Rows and folds take at most five eighths of the entries. Adding an entry again changes nothing. */
static void add_to_index(uint32_t parent, uint64_t key, uint32_t entry) {
  for (uint32_t at = insitu_index_at(parent, key);; at = (at + 1) & (INSITU_INDEX - 1)) {
    uint32_t present = 0;
    /* Release: whoever finds the entry finds the row or fold complete. */
    if (atomic_compare_exchange_strong_explicit(&insitu_index[at], &present, entry, memory_order_release,
                                                memory_order_relaxed) ||
        present == entry)
      return;
  }
}

uint32_t insitu_row_fold(uint32_t parent, uint64_t key) {
  static _Atomic uint32_t used;
  uint32_t row = parent;
  /* Calls of the thread that created this one are no calls of it, and their rows have another writer. */
  while (row && insitu_table->rows[row].key != key)
    row = insitu_table->rows[row].kind == INSITU_THREAD ? 0 : insitu_table->rows[row].parent;
  /* Relaxed: each number is used once. */
  if (!row || insitu_find_child(parent, key) || atomic_load_explicit(&used, memory_order_relaxed) >= INSITU_FOLDS)
    return row;

  uint32_t fold = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
  if (fold < INSITU_FOLDS) {
    insitu_folds[fold] = (struct insitu_fold){key, parent, row};
    add_to_index(parent, key, fold | INSITU_IS_FOLD);
  }
  return row;
}

#define NO_ROW UINT32_MAX

/* What a new row will be, in the name pool before its name. */
struct description {
  uint64_t key;
  uint32_t parent, kind;
};

/* Write the description of a new row and its name, which no other thread knows yet. Returns the offset of the name, 0
 * if there is no room. */
static uint32_t describe_row(const struct description *description, const char *name, size_t name_bytes,
                             const char *file, size_t file_bytes, uint32_t line) {
  struct insitu_header *header = insitu_table->header;
  uint64_t bytes = (sizeof *description + sizeof(struct insitu_name) + name_bytes + file_bytes + 7) & ~7ul;
  /* Relaxed: readers see it through rows_used. */
  uint64_t at = atomic_load_explicit(&header->names_used, memory_order_relaxed);
  do {
    if (at + bytes > INSITU_NAMES_BYTES || !reserve_section(&names_reserved, header->names_at, at + bytes)) return 0;
  } while (!atomic_compare_exchange_strong_explicit(&header->names_used, &at, at + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
  memcpy(insitu_table->names + at, description, sizeof *description);
  struct insitu_name *entry = (struct insitu_name *)(insitu_table->names + at + sizeof *description);
  entry->line = line;
  entry->name_bytes = (uint16_t)name_bytes;
  entry->file_bytes = (uint16_t)file_bytes;
  memcpy(entry->text, name, name_bytes);
  memcpy(entry->text + name_bytes, file, file_bytes);
  return (uint32_t)(at + sizeof *description);
}

/* Only the first thread writes, into memory that is 0. Release, and acquire of the others: they read what it wrote. The
 * thread sanitizer takes what the others do for writing. */
__attribute__((no_sanitize("thread"))) static void set_once(uint32_t *field, uint32_t value) {
  uint32_t none = 0;
  if (value) __atomic_compare_exchange_n(field, &none, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

__attribute__((no_sanitize("thread"))) static void set_once_64(uint64_t *field, uint64_t value) {
  uint64_t none = 0;
  if (value) __atomic_compare_exchange_n(field, &none, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Complete the next row, which has a name. Several threads may do so, and one that was interrupted may go on later. */
static void complete_row(uint32_t row, uint32_t name) {
  struct description of;
  /* Acquire: a row below rows_used is complete. */
  if (atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire) > row) return;
  struct insitu_row *fresh = &insitu_table->rows[row];
  memcpy(&of, insitu_table->names + name - sizeof of, sizeof of);
  set_once_64(&fresh->key, of.key);
  set_once(&fresh->parent, of.parent);
  set_once(&fresh->kind, of.kind);
  /* Phases are never looked up by key. */
  if (of.kind != INSITU_PHASE && row) add_to_index(of.parent, of.key, row);
  /* Release: readers take the rows below rows_used as complete. If this fails, another thread has done it. */
  atomic_compare_exchange_strong_explicit(&insitu_table->header->rows_used, &(uint32_t){row}, row + 1,
                                          memory_order_release, memory_order_relaxed);
}

/* Give a described row the next number. Returns NO_ROW if there is no room. */
static uint32_t append_row(const struct description *description, uint32_t name) {
  struct insitu_header *header = insitu_table->header;
  for (;;) {
    /* Acquire: pairs with the release above. */
    uint32_t present = 0, row = atomic_load_explicit(&header->rows_used, memory_order_acquire);
    uint64_t bytes = (uint64_t)(row + 1) * sizeof(struct insitu_row);
    if (row >= INSITU_ROWS || !reserve_section(&rows_reserved, header->rows_at, bytes)) return NO_ROW;
    /* Only a signal handler in this thread may have added the same function below the same caller. If it does so after
     * this, it takes the number. */
    uint32_t twin = description->key ? insitu_find_child(description->parent, description->key) : 0;
    if (twin) return twin;
    /* Release: whoever completes the row finds its description. Acquire: of the row that has the number. */
    int is_mine = atomic_compare_exchange_strong_explicit(&insitu_table->rows[row].name, &present, name,
                                                          memory_order_acq_rel, memory_order_acquire);
    complete_row(row, is_mine ? name : present);
    if (!is_mine) continue;
    /* Threads are not looked up by a function that is called. */
    if (row && description->kind != INSITU_THREAD && description->kind != INSITU_PHASE)
      insitu_table->rows[description->parent].first_child = row;
    return row;
  }
}

uint32_t insitu_row_add(uint32_t parent, uint64_t key, enum insitu_kind kind, const char *name, size_t name_bytes,
                        const char *file, size_t file_bytes, uint32_t line) {
  const struct description description = {.key = key, .parent = parent, .kind = kind};
  if (name_bytes > INSITU_NAME_BYTES) name_bytes = INSITU_NAME_BYTES;
  if (file_bytes > 1000) file += file_bytes - 1000, file_bytes = 1000;
  uint32_t at = describe_row(&description, name, name_bytes, file, file_bytes, line);
  uint32_t row = at ? append_row(&description, at) : NO_ROW;
  if (row == NO_ROW) {
    /* Relaxed: only a count. */
    __atomic_fetch_add(&insitu_table->header->rows_refused, 1, __ATOMIC_RELAXED);
    return 0;
  }
  insitu_pair_clocks();
  return row;
}

/* ---- functions that are unloaded ------------------------------------------------------------------------------ */

/* Added to the key of a row whose function is no longer loaded: another one may be loaded at its address. */
#define IS_UNLOADED (1ull << 63)

void insitu_rows_forget(int (*is_loaded)(uint64_t key)) {
  /* Acquire: rows below rows_used are complete. */
  uint32_t used = atomic_load_explicit(&insitu_table->header->rows_used, memory_order_acquire);
  for (uint32_t i = 1; i < used; i++) {
    struct insitu_row *row = &insitu_table->rows[i];
    /* Relaxed: no thread is in a function that is not loaded. */
    if (row->kind == INSITU_COMPILED && !(row->key & IS_UNLOADED) && !is_loaded(row->key))
      __atomic_store_n(&row->key, row->key | IS_UNLOADED, __ATOMIC_RELAXED);
  }
  for (uint32_t i = 0; i < INSITU_FOLDS && insitu_folds[i].row; i++)
    if (insitu_table->rows[insitu_folds[i].row].key == (insitu_folds[i].key | IS_UNLOADED))
      __atomic_store_n(&insitu_folds[i].key, insitu_folds[i].key | IS_UNLOADED, __ATOMIC_RELAXED);
}

uint32_t insitu_row_again(uint32_t parent, uint64_t key, const char *name, size_t name_bytes, const char *file,
                          size_t file_bytes) {
  for (uint32_t at = insitu_index_at(parent, key);; at = (at + 1) & (INSITU_INDEX - 1)) {
    /* Acquire: the row is complete. */
    uint32_t entry = atomic_load_explicit(&insitu_index[at], memory_order_acquire);
    if (!entry) return 0;
    struct insitu_row *row = entry & INSITU_IS_FOLD ? NULL : &insitu_table->rows[entry];
    if (!row || row->key != (key | IS_UNLOADED) || row->parent != parent) continue;
    /* Relaxed: the name was complete before the row was. */
    uint32_t offset = atomic_load_explicit(&row->name, memory_order_relaxed);
    const struct insitu_name *known = (const struct insitu_name *)(insitu_table->names + offset);
    if (known->name_bytes != name_bytes || known->file_bytes != file_bytes) continue;
    if (memcmp(known->text, name, name_bytes) || memcmp(known->text + name_bytes, file, file_bytes)) continue;
    __atomic_store_n(&row->key, key, __ATOMIC_RELAXED); /* Relaxed: only this thread enters the row. */
    return entry;
  }
}
