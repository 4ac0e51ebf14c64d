/* Call paths of programs that were not built for it: the functions that are open at an MPI call, read from the stack.
 *
 * A thread keeps the rules of the instructions that it has seen (eh_frame.h), and the stacks that it has read: where a
 * stack leads depends on nothing but the registers and the words that were read, so if they are the same, its row is
 * the same. A call takes some nanoseconds: no lock, no allocation, no system call. Every word of the stack is known to
 * be mapped before it is read: the stack of the thread is contiguous, and other stacks, those of coroutines and of
 * signal handlers, are read by the kernel.
 *
 * A row stands for a function, not for a call site. Functions of the C and C++ runtime get no row: what they call
 * counts for their caller, as library code does in Python. Recursion is folded as in compiled.c.
 *
 * Regions (regions.c) are rows between functions: below the function that began the region, above those called since.
 * A region may begin in a function that returns before it ends, such as a `start_timer` of the program. So the rows of
 * a stack are found from the outermost function inwards: at each open region, the functions that were open when it
 * began and still are come first, then the row of the region, then the rest. */
#define _GNU_SOURCE
#include "unwind.h"

#include "compiled.h"
#include "eh_frame.h"
#include "object_kinds.h"
#include "stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define STACKS 64u   /* remembered stacks of a thread; a power of two */
#define WORDS 40u    /* words of a remembered stack: deeper ones are read again at every call */
#define RULES 2048u  /* cached rules of a thread; a power of two */
#define FRAMES 1024u /* a deeper stack is not read */

int insitu_is_unwinding;
/* The function that evaluates Python, 0 in other programs; where the object that contains it is loaded. */
static uintptr_t evaluator, interpreter;
_Atomic uint32_t insitu_objects_unloaded;

/* A register that functions keep for their callers: where on the stack it is stored, else its value; 0 if unknown. */
struct kept {
  uintptr_t at, value;
};

struct registers {
  uintptr_t pc, sp;
  uintptr_t link;     /* the return address of a function that has not stored it; aarch64 only */
  struct kept fp, bx; /* the frame pointer, and rbx; x86-64 only, and unknown at calls */
};

/* A stack that was read, from the registers to the row of its innermost function. */
struct stack {
  uintptr_t pc, sp, fp;
  int uses_fp; /* whether it depends on `fp`, which most functions use for other purposes */
  uint32_t row, words;
  uint32_t outer;     /* the row of the innermost open frame */
  uint32_t functions; /* that have a row, on the stack */
  struct {
    const uintptr_t *at;
    uintptr_t value;
  } word[WORDS];
};

/* What a thread needs to read its stack. The next owner of its area in the table takes it over. */
struct unwinder {
  pthread_t owner;
  uintptr_t stack_from, stack_to; /* the stack of the thread; empty if it is unknown */
  uint32_t unloaded;              /* insitu_objects_unloaded when the cache was emptied */
  uint32_t frames;
  int ends_in_main, ends_in_python;
  uintptr_t wrapper; /* a function that gets no row; 0 if there is none */
  uintptr_t reader;  /* frame of the call that is reading the stack, 0 if there is none; it takes no sample meanwhile */
  uintptr_t chunk_at, chunk_bytes; /* of `chunk` */
  uintptr_t chunk[512];            /* words of another stack */
  uintptr_t pcs[FRAMES];           /* of the frames that have a row, innermost first */
  uint64_t keys[FRAMES];
  struct stack reading; /* the stack that is being read */
  struct stack stacks[STACKS];
  struct insitu_rule rules[RULES];
};
static struct unwinder *unwinders[INSITU_THREADS];

/* ---- the stack of a thread ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) struct unwinder *prepare(struct insitu_thread *self) {
  int saved = errno;
  struct insitu_interrupts before = insitu_block_interrupts();
  struct unwinder **mine = &unwinders[self - insitu_table->threads];
  if (!*mine) {
    void *fresh = mmap(NULL, sizeof **mine, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh != MAP_FAILED) *mine = fresh;
  }
  if (*mine) {
    (*mine)->owner = pthread_self();
    memset((*mine)->stacks, 0, sizeof(*mine)->stacks);
    insitu_stack_find(&(*mine)->stack_from, &(*mine)->stack_to);
  }
  insitu_restore_interrupts(&before);
  errno = saved;
  return *mine;
}

/* Let the kernel read a word, which may not be mapped. It copies up to the end of the page. */
static __attribute__((noinline)) int read_other_stack(struct unwinder *mine, uintptr_t at, uintptr_t *word) {
  if (at - mine->chunk_at >= mine->chunk_bytes) {
    int saved = errno;
    size_t bytes = sizeof mine->chunk - at % sizeof mine->chunk;
    struct iovec here = {mine->chunk, bytes}, there = {(void *)at, bytes};
    ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    errno = saved;
    mine->chunk_at = at;
    mine->chunk_bytes = got == (ssize_t)bytes ? bytes : 0;
    if (!mine->chunk_bytes) return 0;
  }
  mine->reading.words = WORDS + 1; /* it is not remembered */
  *word = mine->chunk[(at - mine->chunk_at) / sizeof *word];
  return 1;
}

/* Read a word of the stack. Returns 0 if it is not part of it. */
static inline int read_word(struct unwinder *mine, uintptr_t at, uintptr_t *word) {
  if (__builtin_expect(at % sizeof *word != 0, 0)) return 0;
  if (__builtin_expect(at < mine->stack_from || at >= mine->stack_to, 0)) return read_other_stack(mine, at, word);
  *word = *(const uintptr_t *)at;
  struct stack *reading = &mine->reading;
  if (reading->words < WORDS) {
    reading->word[reading->words].at = (const uintptr_t *)at;
    reading->word[reading->words].value = *word;
  }
  reading->words++;
  return 1;
}

/* ---- one frame ------------------------------------------------------------------------------------------------ */

/* The key of the rows of a function. Objects may be loaded where others were before, so it also depends on the path of
 * the object. Addresses have 48 bits. */
static uint64_t key_of(uintptr_t function, const char *path) {
  uint64_t hash = 5381;
  for (const char *at = path; *at; at++) hash = hash * 33 + (unsigned char)*at;
  return (uint64_t)function ^ hash << 48;
}

static __attribute__((noinline)) int read_rule(uintptr_t pc, struct insitu_rule *rule) {
  struct insitu_object object;
  if (!insitu_object_find(pc, &object) || !insitu_rule_read(&object, pc, rule)) {
    rule->pc = 0;
    return 0;
  }
  rule->key = key_of(rule->function, object.name);
  int is_interpreter = evaluator && object.base == interpreter;
  rule->object = is_interpreter ? OBJECT_OF_RUNTIME : insitu_object_kind(object.name);
  return 1;
}

/* Return the rule for an instruction, NULL if there is none. */
static inline const struct insitu_rule *find_rule(struct unwinder *mine, uintptr_t pc) {
  struct insitu_rule *rule = &mine->rules[pc * 0x9E3779B97F4A7C15u >> 53 & (RULES - 1)];
  if (__builtin_expect(rule->pc == pc, 1) || read_rule(pc, rule)) return rule;
  return NULL;
}

/* Addresses that were signed (aarch64, pointer authentication) without their signature. */
static inline uintptr_t strip(uintptr_t address) {
#if defined(__aarch64__)
  register uintptr_t link __asm__("x30") = address;
  __asm__("hint #7" : "+r"(link)); /* xpaclri; no operation on older processors */
  return link;
#else
  return address;
#endif
}

/* Go on with the code that a signal interrupted. */
static int leave_signal(struct unwinder *mine, struct registers *at) {
  uintptr_t context = at->sp;
#if defined(__x86_64__)
  const size_t registers = offsetof(ucontext_t, uc_mcontext.gregs);
  const size_t pc = registers + 8 * REG_RIP, sp = registers + 8 * REG_RSP, fp = registers + 8 * REG_RBP;
  at->bx.at = context + registers + 8 * REG_RBX;
#elif defined(__aarch64__)
  const size_t registers = offsetof(ucontext_t, uc_mcontext);
  const size_t pc = registers + offsetof(mcontext_t, pc), sp = registers + offsetof(mcontext_t, sp);
  const size_t fp = registers + offsetof(mcontext_t, regs) + 8 * 29;
  context += 128; /* behind siginfo_t */
  if (!read_word(mine, context + fp + 8, &at->link)) return 0;
#else
  const size_t pc = 0, sp = 0, fp = 0;
#endif
  at->fp.at = context + fp;
  return read_word(mine, context + pc, &at->pc) && read_word(mine, context + sp, &at->sp);
}

/* Read a register of a frame. Returns 0 if it is unknown. */
static inline int read_kept(struct unwinder *mine, const struct kept *kept, uintptr_t *value) {
  if (kept->at) return read_word(mine, kept->at, value);
  mine->reading.uses_fp = 1; /* no other register is known where stacks are remembered */
  *value = kept->value;
  return *value != 0;
}

/* Go on with the value of a register in the caller. */
static inline void leave_kept(struct kept *kept, uint8_t saved, uintptr_t offset, uintptr_t cfa, uintptr_t fp) {
  if (saved == INSITU_SAVED_AT_CFA) kept->at = cfa + offset;
  else if (saved == INSITU_SAVED_AT_FP) kept->at = fp + offset;
  else if (saved == INSITU_SAVED_UNKNOWN) *kept = (struct kept){0};
}

/* Go on with the caller. Returns 0 if it cannot be found. */
static inline int leave_frame(struct unwinder *mine, const struct insitu_rule *rule, struct registers *at) {
  uintptr_t cfa, fp = 0, address = at->link;
  if (__builtin_expect(rule->needs_fp, 0) && !read_kept(mine, &at->fp, &fp)) return 0;

  uintptr_t base = at->sp, offset = (uintptr_t)(intptr_t)rule->cfa_offset;
  if (__builtin_expect(rule->cfa == INSITU_CFA_BX, 0) && !read_kept(mine, &at->bx, &base)) return 0;
  cfa = (rule->cfa == INSITU_CFA_FP ? fp : base) + offset;
  if (__builtin_expect(rule->cfa == INSITU_CFA_AT_FP, 0) && !read_word(mine, fp + offset, &cfa)) return 0;
  /* The stack grows downwards: only a leaf of aarch64 has no frame at all. */
  if (cfa < at->sp || (cfa == at->sp && !at->link)) return 0;

  uintptr_t stored = (rule->return_saved == INSITU_SAVED_AT_FP ? fp : cfa) + (uintptr_t)(intptr_t)rule->return_offset;
  if (rule->return_saved == INSITU_SAVED_NOWHERE ? !address : !read_word(mine, stored, &address)) return 0;
  leave_kept(&at->fp, rule->fp_saved, (uintptr_t)(intptr_t)rule->fp_offset, cfa, fp);
  leave_kept(&at->bx, rule->bx_saved, (uintptr_t)(intptr_t)rule->bx_offset, cfa, fp);
  at->pc = strip(address);
  at->sp = cfa;
  at->link = 0;
  return 1;
}

/* ---- a stack -------------------------------------------------------------------------------------------------- */

/* Whether a function begins here. */
static int is_first_instruction(struct unwinder *mine, uintptr_t pc) {
  const struct insitu_rule *rule = find_rule(mine, pc);
  return rule && rule->function == pc;
}

/* Whether this is the code of the dynamic linker that runs the constructors of a program: it is called by nothing and
 * has no entry. */
static __attribute__((noinline)) int is_start_of_linker(uintptr_t pc) {
  struct insitu_object object;
  struct insitu_rule rule;
  return insitu_object_find(pc, &object) && object.base == getauxval(AT_BASE) &&
         !insitu_rule_read(&object, pc, &rule) && !rule.function;
}

/* Record the first object whose functions have no rules. */
static __attribute__((noinline)) void report_gap(uintptr_t pc) {
  static atomic_flag is_reported = ATOMIC_FLAG_INIT; /* acquire and release by default; nothing depends on it */
  struct insitu_object object;
  if (atomic_flag_test_and_set(&is_reported) || !insitu_object_find(pc, &object)) return;
  const char *name = strrchr(object.name, '/');
  char *reported = insitu_table->header->unread_object;
  strncpy(reported, name ? name + 1 : object.name, sizeof insitu_table->header->unread_object - 1);
}

/* Read the frames from `at` outwards. Returns 1 if the outermost was reached. */
static int read_stack(struct unwinder *mine, struct registers at, int is_call) {
  unsigned frames = 0;
  int was_runtime = 0;
  mine->chunk_bytes = 0;
  mine->ends_in_main = mine->ends_in_python = 0;
  for (unsigned steps = 1;; steps++) {
    /* A return address may be behind the last instruction of its function: the call is in front of it. */
    const struct insitu_rule *rule = find_rule(mine, at.pc - (uintptr_t)is_call);
    if (!rule && is_call && is_first_instruction(mine, at.pc)) break; /* code that runs when a coroutine returns */
    if (!rule && is_start_of_linker(at.pc)) break;
    if (!rule) {
      report_gap(at.pc);
      return 0;
    }
    if (__builtin_expect(evaluator && rule->function == evaluator, 0)) {
      mine->ends_in_python = 1;
      break;
    }
    /* The MPI library itself gets no row: a Fortran program calls its binding, which calls the C function. */
    int has_row = rule->object == OBJECT_OF_PROGRAM || (rule->object == OBJECT_OF_MPI && frames);
    if (has_row && (frames || !mine->wrapper || rule->function != mine->wrapper)) {
      mine->pcs[frames] = rule->pc;
      mine->keys[frames++] = rule->key;
    }
    if (rule->cfa == INSITU_CFA_OUTERMOST) {
      /* _start, which called the C library, which called main. */
      mine->ends_in_main = was_runtime && rule->object == OBJECT_OF_PROGRAM;
      if (mine->ends_in_main) frames--;
      break;
    }
    was_runtime = rule->object == OBJECT_OF_RUNTIME;
    is_call = rule->cfa != INSITU_CFA_SIGNAL;
    if (steps == FRAMES || !(is_call ? leave_frame(mine, rule, &at) : leave_signal(mine, &at))) return 0;
    if (__builtin_expect(!at.pc, 0)) break; /* the first function of a coroutine */
  }
  mine->frames = frames;
  return 1;
}

static __attribute__((noinline)) uint32_t add_row(uint32_t parent, uint64_t key, uintptr_t pc, int is_main) {
  struct insitu_object object;
  struct insitu_rule rule;
  uint32_t row = insitu_row_fold(parent, key);
  if (row) return row;
  if (!insitu_object_find(pc, &object) || !insitu_rule_read(&object, pc, &rule)) return 0;
  const struct insitu_function function = {
      .address = rule.function - object.base, .object = object.name, .hint = is_main ? "main" : ""};
  int saved = errno;
  row = insitu_function_row(parent, key, INSITU_STACK, &function);
  errno = saved;
  return row;
}

/* Return the row of function `i` of the stack below `parent`, 0 if there is none. */
static inline uint32_t find_row(const struct insitu_thread *self, const struct unwinder *mine, uint32_t i,
                                uint32_t parent) {
  uint64_t key = mine->keys[i];
  if (insitu_rows[parent].key == key && parent != self->root) return parent; /* direct recursion */
  return insitu_find_child(parent, key);
}

static int is_at_or_above(uint32_t row, uint32_t other) {
  while (other && other != row) other = insitu_rows[other].parent;
  return other == row;
}

/* Return the row of the innermost of `count` functions, which are called below this row; 0 if there is no room. */
static uint32_t append_rows(const struct insitu_thread *self, const struct unwinder *mine, uint32_t count,
                            uint32_t row) {
  while (count-- > 0) {
    uint32_t parent = row;
    row = find_row(self, mine, count, parent);
    int is_main = mine->ends_in_main && count + 1 == mine->frames;
    if (__builtin_expect(!row, 0) && !(row = add_row(parent, mine->keys[count], mine->pcs[count], is_main))) return 0;
  }
  return row;
}

/* Return the row of the innermost function, below the outermost frame of the thread. Returns 0 if there is no room. */
static uint32_t find_rows(struct insitu_thread *self, const struct unwinder *mine) {
  uint32_t row = self->root, i = mine->frames;
  for (uint32_t depth = 1; depth < self->depth && depth < INSITU_DEPTH; depth++) {
    const struct insitu_frame *region = &self->frames[depth];
    uint32_t caller = insitu_rows[region->row].parent, next;
    /* The functions that were open when the region began lead to its caller. Others have taken the place of those that
     * have returned. */
    while (i > 0 && mine->frames - i < region->skipped && (next = find_row(self, mine, i - 1, row)) &&
           is_at_or_above(next, caller)) {
      row = next;
      i--;
    }
    row = region->row;
  }
  return append_rows(self, mine, i, row);
}

/* The registers of the caller of the wrapper with this frame. Returns whether `pc` is a return address. */
static inline __attribute__((always_inline)) int read_registers(const uintptr_t *frame, struct registers *at) {
#if defined(__x86_64__)
  *at = (struct registers){.pc = frame[1], .sp = (uintptr_t)(frame + 2), .fp.value = frame[0]};
  return 1;
#elif defined(__aarch64__)
  /* Start at this instruction: a frame does not contain the stack pointer of the caller. */
  (void)frame;
  *at = (struct registers){0};
  __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29" : "=r"(at->pc), "=r"(at->sp), "=r"(at->fp.value));
  return 0;
#else
  (void)frame;
  *at = (struct registers){0};
  return 0;
#endif
}

static inline int is_same(const struct stack *known, const struct registers *at, uint32_t outer) {
  if (known->pc != at->pc || known->sp != at->sp || known->outer != outer || !known->row) return 0;
  if (known->uses_fp && known->fp != at->fp.value) return 0;
  uintptr_t difference = 0;
  for (uint32_t i = 0; i < known->words; i++) difference |= *known->word[i].at ^ known->word[i].value;
  return !difference;
}

static __attribute__((noinline)) uint32_t read_caller(struct insitu_thread *self, struct unwinder *mine,
                                                      const struct registers *at, int is_call, struct stack *known,
                                                      struct insitu_region_call *call) {
  uint32_t row = 0, functions = 0;
  mine->reading.words = 0;
  mine->reading.uses_fp = 0;
  mine->wrapper = call ? call->wrapper : 0;
  if (read_stack(mine, *at, is_call)) {
    row = find_rows(self, mine);
    functions = mine->frames;
  } else if (!call) {
    /* Relaxed: only a count. */
    __atomic_fetch_add(&insitu_table->header->stacks_unread, 1, __ATOMIC_RELAXED);
  }
  mine->wrapper = 0;
  if (call) call->functions = functions;
  if (row && mine->reading.words <= WORDS) {
    *known = mine->reading;
    known->pc = at->pc;
    known->sp = at->sp;
    known->fp = at->fp.value;
    known->row = row;
    known->outer = insitu_top(self)->row;
    known->functions = functions;
  }
  return row;
}

/* Empty the caches if objects were unloaded. */
static inline void forget_unloaded(struct unwinder *mine) {
  /* Relaxed, as unwind.h explains. */
  uint32_t unloaded = atomic_load_explicit(&insitu_objects_unloaded, memory_order_relaxed);
  if (__builtin_expect(mine->unloaded == unloaded, 1)) return;
  memset(mine->rules, 0, sizeof mine->rules);
  memset(mine->stacks, 0, sizeof mine->stacks);
  mine->unloaded = unloaded;
}

static inline __attribute__((always_inline)) uint32_t find_caller(struct insitu_thread *self, const uintptr_t *frame,
                                                                  struct insitu_region_call *call) {
  struct unwinder *mine = unwinders[self - insitu_table->threads];
  uint32_t outer = insitu_top(self)->row;
  if (__builtin_expect(!mine || mine->owner != pthread_self(), 0) && !(mine = prepare(self))) return outer;
  forget_unloaded(mine);

  struct registers at;
  int is_call = read_registers(frame, &at);
  struct stack *known = &mine->stacks[(at.pc ^ at.sp * 31) * 0x9E3779B97F4A7C15u >> 58 & (STACKS - 1)];
  if (__builtin_expect(is_same(known, &at, outer), 1)) {
    if (call) call->functions = known->functions;
    return known->row;
  }
  /* A signal handler interrupted this function: its own calls must not change what is being read. If longjmp left the
   * reader, its frame is further down than that of this call. */
  if (__builtin_expect(mine->reader && (uintptr_t)frame < mine->reader, 0)) return outer;
  mine->reader = (uintptr_t)frame;
  atomic_signal_fence(memory_order_acq_rel);
  uint32_t row = read_caller(self, mine, &at, is_call, known, call);
  atomic_signal_fence(memory_order_acq_rel);
  mine->reader = 0;
  return row ? row : outer;
}

uint32_t insitu_unwind_caller(struct insitu_thread *self, const uintptr_t *frame) {
  return find_caller(self, frame, NULL);
}

uint32_t insitu_unwind_region(struct insitu_thread *self, const uintptr_t *frame, struct insitu_region_call *call) {
  return find_caller(self, frame, call);
}

int insitu_unwind_python(uintptr_t function) {
  struct insitu_object object;
  if (!function || !insitu_object_find(function, &object)) return 0;
  evaluator = function;
  interpreter = object.base;
  return 1;
}

int insitu_unwind_prepare(struct insitu_thread *self) {
  const struct unwinder *mine = unwinders[self - insitu_table->threads];
  return (mine && mine->owner == pthread_self()) || prepare(self);
}

void insitu_unwind_sample(struct insitu_thread *self, const void *context, uint64_t weight) {
  struct unwinder *mine = unwinders[self - insitu_table->threads];
  struct registers at = {0};
  const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
  if (!mine || mine->owner != pthread_self() || mine->reader || !(evaluator || insitu_is_unwound(self))) return;
#if defined(__x86_64__)
  at.pc = (uintptr_t)machine->gregs[REG_RIP];
  at.sp = (uintptr_t)machine->gregs[REG_RSP];
  at.fp.value = (uintptr_t)machine->gregs[REG_RBP];
  at.bx.value = (uintptr_t)machine->gregs[REG_RBX];
#elif defined(__aarch64__)
  at.pc = machine->pc;
  at.sp = machine->sp;
  at.fp.value = machine->regs[29];
  at.link = machine->regs[30];
#else
  (void)machine;
#endif
  /* The handler blocks all signals, so nothing interrupts it. */
  forget_unloaded(mine);
  mine->reading.words = WORDS; /* it is not remembered */
  uint32_t row = 0;
  int is_read = read_stack(mine, at, 0);
  if (is_read && mine->ends_in_python) row = append_rows(self, mine, mine->frames, insitu_top(self)->row);
  else if (is_read && mine->frames && insitu_is_unwound(self)) row = find_rows(self, mine);
  if (row && insitu_rows[row].kind == INSITU_STACK) {
    insitu_touch(self, row);
    insitu_rows[row].visits += weight;
  }
  /* Relaxed: only counts. */
  __atomic_fetch_add(&insitu_table->header->samples, weight, __ATOMIC_RELAXED);
  if (!is_read) __atomic_fetch_add(&insitu_table->header->samples_unread, weight, __ATOMIC_RELAXED);
}
