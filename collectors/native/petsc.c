/* Stages and events of PETSc are regions.
 *
 * Up to PETSc 3.19 events are reported to two functions, which PetscLogSet sets. Those of the user's own logging
 * (-log_view) are called after those here. Names are noted where stages and events are registered. */
#define _GNU_SOURCE
#include "annotations.h"
#include "regions.h"
#include "wrap.h"

#include <stddef.h>
#include <string.h>

typedef int (*Report)(int event, int type, void *a, void *b, void *c, void *d);

#define EVENTS 2048u
#define STAGES 256u
#define NAME_BYTES 256u
static const char *events[EVENTS];
static const char *stages[STAGES]; /* without stage 0, which PETSc itself begins: it lasts as long as the program */
static uint64_t stages_pushed;     /* a bit for each open stage, the lowest for the innermost: whether it is a region */
static int open_events[EVENTS];    /* an event inside of itself is no other event, as in PETSc's own log */
static Report user_begin, user_end;

static int (*real_set)(Report begin, Report end);
static int (*real_event_register)(const char *name, int class, int *event);
static int (*real_stage_register)(const char *name, int *stage);
static int (*real_stage_push)(int stage);
static int (*real_stage_pop)(void);
static int (*real_gpu_begin)(void);
static int (*real_gpu_end)(void);

/* Keep a name without the blanks at its end, with which PETSc aligns some. */
static const char *keep(const char *name) {
  char text[NAME_BYTES];
  size_t bytes = strnlen(name, NAME_BYTES - 1);
  while (bytes && name[bytes - 1] == ' ') bytes--;
  memcpy(text, name, bytes);
  text[bytes] = 0;
  return insitu_annotations_keep(text);
}

/* ---- events --------------------------------------------------------------------------------------------------- */

static int begin_event(int event, int type, void *a, void *b, void *c, void *d) {
  const char *name = (unsigned)event < EVENTS ? events[event] : NULL;
  if (name && !open_events[event]++) insitu_region_begin_at(name, __builtin_frame_address(0));
  return user_begin ? user_begin(event, type, a, b, c, d) : 0;
}

static int end_event(int event, int type, void *a, void *b, void *c, void *d) {
  int failed = user_end ? user_end(event, type, a, b, c, d) : 0;
  if ((unsigned)event < EVENTS && events[event] && open_events[event] > 0 && !--open_events[event]) insitu_region_end();
  return failed;
}

/* The program or PETSc sets functions, or none. */
static int set(Report begin, Report end) {
  user_begin = begin;
  user_end = end;
  return real_set(begin_event, end_event);
}

static int event_register(const char *name, int class, int *event) {
  int failed = real_event_register(name, class, event);
  if (failed) return failed;
  if (name && (unsigned)*event < EVENTS) events[*event] = keep(name);
  if (real_set && !user_begin && !user_end) real_set(begin_event, end_event);
  return failed;
}

/* PETSc waits for the device at these calls while events are reported to somebody. */
static int gpu_begin(void) {
  return user_begin ? real_gpu_begin() : 0;
}

static int gpu_end(void) {
  return user_end ? real_gpu_end() : 0;
}

/* ---- stages --------------------------------------------------------------------------------------------------- */

static int stage_register(const char *name, int *stage) {
  int failed = real_stage_register(name, stage);
  if (!failed && name && (unsigned)*stage < STAGES) stages[*stage] = keep(name);
  return failed;
}

static int stage_push(int stage) {
  const char *name = (unsigned)stage < STAGES ? stages[stage] : NULL;
  int failed = real_stage_push(stage);
  if (failed) return failed;
  stages_pushed = stages_pushed << 1 | (name != NULL);
  if (name) insitu_region_begin_at(name, __builtin_frame_address(0));
  return failed;
}

static int stage_pop(void) {
  int failed = real_stage_pop();
  if (failed) return failed;
  if (stages_pushed & 1) insitu_region_end();
  stages_pushed >>= 1;
  return failed;
}

void insitu_petsc_patch(void) {
  static const char *const prefixes[] = {"libpetsc"};
  static const struct insitu_wrapper wrappers[] = {
      {"PetscLogSet", &real_set, (void *)set},
      {"PetscLogEventRegister", &real_event_register, (void *)event_register},
      {"PetscLogStageRegister", &real_stage_register, (void *)stage_register},
      {"PetscLogStagePush", &real_stage_push, (void *)stage_push},
      {"PetscLogStagePop", &real_stage_pop, (void *)stage_pop},
      {"PetscLogGpuTimeBegin", &real_gpu_begin, (void *)gpu_begin},
      {"PetscLogGpuTimeEnd", &real_gpu_end, (void *)gpu_end},
  };
  static struct insitu_wrapped wrapped = {.patches = INSITU_WRAP_PATCHES,
                                          .prefixes = prefixes,
                                          .prefixes_count = 1,
                                          .names = "PetscLog",
                                          .wrappers = wrappers,
                                          .count = sizeof wrappers / sizeof *wrappers};
  insitu_wrap(&wrapped);
}
