/* Parallel regions of OpenMP runtimes with the interface for tools of OpenMP 5.0 (OMPT): LLVM's libomp and what is
 * derived from it, such as Intel's.
 *
 * The runtime looks for a function ompt_start_tool before its first region and finds the one here, because this library
 * is preloaded. It is as if there were none if the process is not measured, if the user has named a tool in
 * OMP_TOOL_LIBRARIES, or if the program or another library has one. With OMP_TOOL=disabled the runtime does not look.
 *
 * A region is named by its outlined function, as with libgomp. OMPT does not tell it, but the compiler passes it to
 * __kmpc_fork_call, whose slots lead to code here that notes it. Where that is not known, the region is named by the
 * call that begins it.
 *
 * The declarations are those of the specification [OpenMP 5.0, chapter 4], so that no header is needed. */
#define _GNU_SOURCE
#include "ompt.h"

#include "table.h"
#include "teams.h"
#include "wrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

union data {
  uint64_t value;
  void *ptr;
};
typedef void (*Callback)(void);
typedef Callback (*Lookup)(const char *);
struct start_tool_result {
  int (*initialize)(Lookup lookup, int device, union data *tool);
  void (*finalize)(union data *tool);
  union data tool;
};

enum {
  PARALLEL_BEGIN = 3,
  PARALLEL_END = 4,
  TASK_SCHEDULE = 6,
  IMPLICIT_TASK = 7,
  CONTROL_TOOL = 11,
  SYNC_REGION_WAIT = 16,
};
enum { SCOPE_BEGIN = 1 };
enum { SYNC_REGION_REDUCTION = 7 };
enum { TASK_IMPLICIT = 2, PARALLEL_TEAM = (int)0x80000000 };
enum { CONTROL_TOOL_NO_TOOL = -2 };
/* What the data of a task holds. Those of explicit tasks are 0 at first. */
enum { IS_IMPLICIT = 1, BEGAN_WHILE_WAITING = 2 };

/* ---- outlined functions --------------------------------------------------------------------------------------- */

/* The function that the calling thread has passed to __kmpc_fork_call. Not static, since assembly refers to them. */
__attribute__((visibility("hidden"))) __thread uintptr_t insitu_ompt_outlined;
__attribute__((visibility("hidden"))) void *insitu_ompt_fork_call, *insitu_ompt_fork_call_if;
void insitu_ompt_note_fork_call(void);
void insitu_ompt_note_fork_call_if(void);

/* void __kmpc_fork_call(ident_t *, int32_t, void (*outlined)(...), ...): with any number of arguments it can only be
 * passed on by a jump, which changes no argument. */
#if defined(__x86_64__)
#define NOTE(name, real)                                                    \
  __asm__(".text\n.hidden " name "\n.type " name ", @function\n" name ":\n" \
          "  endbr64\n"                                                     \
          "  movq insitu_ompt_outlined@gottpoff(%rip), %r11\n"              \
          "  movq %rdx, %fs:(%r11)\n"                                       \
          "  jmpq *" real "(%rip)\n"                                        \
          ".size " name ", .-" name "\n")
#elif defined(__aarch64__)
#define NOTE(name, real)                                                    \
  __asm__(".text\n.hidden " name "\n.type " name ", %function\n" name ":\n" \
          "  hint #34\n" /* bti c */                                        \
          "  mrs x16, tpidr_el0\n"                                          \
          "  adrp x17, :gottprel:insitu_ompt_outlined\n"                    \
          "  ldr x17, [x17, :gottprel_lo12:insitu_ompt_outlined]\n"         \
          "  str x2, [x16, x17]\n"                                          \
          "  adrp x17, " real "\n"                                          \
          "  ldr x17, [x17, :lo12:" real "]\n"                              \
          "  br x17\n"                                                      \
          ".size " name ", .-" name "\n")
#endif

#ifdef NOTE
NOTE("insitu_ompt_note_fork_call", "insitu_ompt_fork_call");
NOTE("insitu_ompt_note_fork_call_if", "insitu_ompt_fork_call_if");
static const struct insitu_wrapper wrappers[] = {
    {"__kmpc_fork_call", &insitu_ompt_fork_call, (void *)insitu_ompt_note_fork_call},
    {"__kmpc_fork_call_if", &insitu_ompt_fork_call_if, (void *)insitu_ompt_note_fork_call_if},
};
#endif

void insitu_ompt_patch(void) {
#ifdef NOTE
  static const char *const prefixes[] = {"libomp.", "libomp-", "libiomp5"};
  static struct insitu_wrapped wrapped = {.patches = INSITU_WRAP_PATCHES,
                                          .prefixes = prefixes,
                                          .prefixes_count = sizeof prefixes / sizeof *prefixes,
                                          .names = "__kmpc_fork_",
                                          .wrappers = wrappers,
                                          .count = sizeof wrappers / sizeof *wrappers};
  insitu_wrap(&wrapped);
#endif
}

/* ---- events --------------------------------------------------------------------------------------------------- */

static void on_parallel_begin(union data *task, const void *frame, union data *region, unsigned requested, int flags,
                              const void *call) {
  (void)task, (void)frame, (void)requested;
  region->ptr = NULL;
  if (!(flags & PARALLEL_TEAM)) return; /* a league of teams */
  uintptr_t outlined = insitu_ompt_outlined;
  insitu_ompt_outlined = 0;
  region->ptr =
      insitu_team_begin(outlined ? outlined : (uintptr_t)call, outlined ? "" : "parallel", __builtin_frame_address(0));
}

static void on_parallel_end(union data *region, union data *task, int flags, const void *call) {
  (void)task, (void)flags, (void)call;
  insitu_team_end(region->ptr);
}

/* The ends of workers come when the next region begins. Their work ended at the last barrier. */
static void on_implicit_task(int scope, union data *region, union data *task, unsigned threads, unsigned number,
                             int flags) {
  (void)threads, (void)number;
  if (!(flags & TASK_IMPLICIT)) return;
  if (scope != SCOPE_BEGIN) {
    insitu_team_wait();
    return;
  }
  task->value = IS_IMPLICIT;
  insitu_team_join(region ? region->ptr : NULL);
}

static void on_wait(int kind, int scope, union data *region, union data *task, const void *call) {
  (void)task, (void)call;
  if (kind == SYNC_REGION_REDUCTION) return;
  if (scope == SCOPE_BEGIN) insitu_team_wait();
  else if (region) insitu_team_work();
}

/* Tasks run in threads that wait, and may wait themselves. */
static void on_schedule(union data *prior, int status, union data *next) {
  (void)status;
  if (prior && prior->value == BEGAN_WHILE_WAITING) {
    insitu_team_wait();
    prior->value = 0;
  }
  if (next && next->value == 0 && insitu_team_work()) next->value = BEGAN_WHILE_WAITING;
}

/* What omp_control_tool returns to the program. */
static int on_control(uint64_t command, uint64_t modifier, void *argument, const void *call) {
  (void)command, (void)modifier, (void)argument, (void)call;
  return CONTROL_TOOL_NO_TOOL;
}

/* ---- the tool ------------------------------------------------------------------------------------------------- */

static int initialize(Lookup lookup, int device, union data *tool) {
  (void)device, (void)tool;
  static const struct {
    int event;
    Callback call;
  } callbacks[] = {
      {PARALLEL_BEGIN, (Callback)on_parallel_begin}, {PARALLEL_END, (Callback)on_parallel_end},
      {TASK_SCHEDULE, (Callback)on_schedule},        {IMPLICIT_TASK, (Callback)on_implicit_task},
      {CONTROL_TOOL, (Callback)on_control},          {SYNC_REGION_WAIT, (Callback)on_wait},
  };
  int (*set_callback)(int, Callback) = (int (*)(int, Callback))lookup("ompt_set_callback");
  if (!set_callback) return 0;
  for (unsigned i = 0; i < sizeof callbacks / sizeof *callbacks; i++)
    set_callback(callbacks[i].event, callbacks[i].call);
  return 1; /* stay active */
}

static void finalize(union data *tool) {
  (void)tool;
}

EXPORT struct start_tool_result *ompt_start_tool(unsigned version, const char *runtime) {
  static struct start_tool_result result = {.initialize = initialize, .finalize = finalize};
  typedef struct start_tool_result *(*Start)(unsigned, const char *);
  /* The tool of another library, or the function of the runtime itself, which finds none. */
  Start next = (Start)dlsym(RTLD_NEXT, "ompt_start_tool");
  struct start_tool_result *other = next ? next(version, runtime) : NULL;
  const char *libraries = getenv("OMP_TOOL_LIBRARIES");
  if (other || !insitu_is_on || (libraries && *libraries)) return other;
  return &result;
}
