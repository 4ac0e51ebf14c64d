/* Tasks of ITT, Intel's interface for marking code, are regions.
 *
 * ITT is linked into programs statically. It finds the functions here by their names (annotations.c). Without a
 * function __itt_api_init it takes this library for one of version 1, and fills its own table of functions. */
#include "annotations.h"
#include "regions.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define DOMAINS 256u
#define HANDLES 4096u

struct id {
  unsigned long long words[3];
};

/* The beginnings of both are read by the program; the names of all members are those of ITT. */
struct domain {
  volatile int flags; /* not 0: enabled */
  const char *name;
  const void *wide;
  int extra1;
  void *extra2;
  struct domain *next;
};

struct string_handle {
  const char *text;
  const void *wide;
  int extra1;
  void *extra2;
  struct string_handle *next;
};

static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
static struct domain domains[DOMAINS];
static struct string_handle handles[HANDLES];

EXPORT const char *__itt_api_version(void) {
  return "3";
}

/* Return the domain with a name, a new one if there is none; NULL if there is no room: ITT ignores its tasks then. */
EXPORT struct domain *__itt_domain_create(const char *name) {
  const char *kept = name ? insitu_annotations_keep(name) : NULL;
  unsigned i = 0;
  if (!kept) return NULL;
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&creating);
  while (i < DOMAINS && domains[i].name && domains[i].name != kept) i++;
  if (i < DOMAINS) domains[i].name = kept, domains[i].flags = 1;
  pthread_mutex_unlock(&creating);
  insitu_restore_interrupts(&before);
  return i < DOMAINS ? &domains[i] : NULL;
}

/* The same for the name of a task. */
EXPORT struct string_handle *__itt_string_handle_create(const char *name) {
  const char *kept = name ? insitu_annotations_keep(name) : NULL;
  unsigned i = 0;
  if (!kept) return NULL;
  struct insitu_interrupts before = insitu_block_interrupts();
  pthread_mutex_lock(&creating);
  while (i < HANDLES && handles[i].text && handles[i].text != kept) i++;
  if (i < HANDLES) handles[i].text = kept;
  pthread_mutex_unlock(&creating);
  insitu_restore_interrupts(&before);
  return i < HANDLES ? &handles[i] : NULL;
}

EXPORT void __itt_task_begin(const struct domain *domain, struct id task, struct id parent,
                             const struct string_handle *name) {
  (void)domain, (void)task, (void)parent;
  insitu_region_begin_at(name ? name->text : "", __builtin_frame_address(0));
}

EXPORT void __itt_task_end(const struct domain *domain) {
  (void)domain;
  insitu_region_end();
}
