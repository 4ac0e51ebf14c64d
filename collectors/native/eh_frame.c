/* Unwind rules from .eh_frame, whose format is that of .debug_frame [DWARF 5 §6.4] with the changes of the Linux
 * Standard Base [LSB 5.0 Core §10.6].
 *
 * The return address, the frame pointer and rbx are followed: no compiler addresses its frames by another register once
 * the prologue of a function is over, and the dynamic linker of x86-64 addresses those of its lazy binding by rbx. A
 * rule that needs more is no rule. */
#define _GNU_SOURCE
#include "eh_frame.h"

#include "table.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
enum { SP = 7, FP = 6, BX = 3, RETURN = 16 };
#elif defined(__aarch64__)
enum { SP = 31, FP = 29, BX = -2, RETURN = 30 };
#else
enum { SP = -1, FP = -2, BX = -3, RETURN = -4 };
#endif

/* ---- the object that contains an address ---------------------------------------------------------------------- */

/* struct dl_find_object of glibc 2.35, declared here because older headers lack it. */
struct found_object {
  unsigned long long flags;
  void *start, *end;
  struct link_map *map;
  void *index;
  unsigned long long reserved[8];
};
typedef int (*Find)(void *, struct found_object *);

struct search {
  uintptr_t address;
  struct insitu_object *object;
};

static int visit(struct dl_phdr_info *info, size_t bytes, void *context) {
  (void)bytes;
  const struct search *search = context;
  struct insitu_object found = {.start = UINTPTR_MAX, .base = info->dlpi_addr, .name = info->dlpi_name};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t from = found.base + segment->p_vaddr, to = from + segment->p_memsz;
    if (segment->p_type == PT_GNU_EH_FRAME) found.index = (const uint8_t *)from;
    if (segment->p_type != PT_LOAD) continue;
    if (from < found.start) found.start = from;
    if (to > found.end) found.end = to;
  }
  if (search->address < found.start || search->address >= found.end) return 0;
  *search->object = found;
  return 1;
}

/* Return _dl_find_object, NULL if the C library has none. */
static Find find_quickly(void) {
  static _Atomic(Find) find; /* relaxed: every thread finds the same function */
  static _Atomic int is_resolved;
  if (!atomic_load_explicit(&is_resolved, memory_order_acquire)) {
    struct insitu_interrupts before = insitu_block_interrupts();
    atomic_store_explicit(&find, (Find)dlsym(RTLD_DEFAULT, "_dl_find_object"), memory_order_relaxed);
    /* Release: whoever sees the flag sees the function. */
    atomic_store_explicit(&is_resolved, 1, memory_order_release);
    insitu_restore_interrupts(&before);
  }
  return atomic_load_explicit(&find, memory_order_relaxed);
}

int insitu_object_finds_in_handlers(void) {
  return find_quickly() != NULL;
}

/* The linker's list is read with its lock held. The program itself, which is never unloaded, is found without. */
static int find_slowly(uintptr_t address, struct insitu_object *object) {
  static struct insitu_object program;
  static _Atomic int is_known; /* acquire and release order the object, which is always the same */
  if (atomic_load_explicit(&is_known, memory_order_acquire) && address >= program.start && address < program.end) {
    *object = program;
    return 1;
  }
  struct search search = {address, object};
  struct insitu_interrupts before = insitu_block_interrupts();
  int is_found = dl_iterate_phdr(visit, &search);
  if (is_found && !*object->name && !atomic_load_explicit(&is_known, memory_order_relaxed)) {
    program = *object;
    atomic_store_explicit(&is_known, 1, memory_order_release);
  }
  insitu_restore_interrupts(&before);
  return is_found;
}

int insitu_object_find(uintptr_t address, struct insitu_object *object) {
  Find quickly = find_quickly();
  if (!quickly) { return find_slowly(address, object); }

  struct found_object found;
  if (quickly((void *)address, &found)) return 0;
  /* Of a program with a gap between its segments this found one segment only: the one with the code. */
  int is_elsewhere = found.index && (found.index < found.start || found.index >= found.end);
  if (is_elsewhere && quickly(found.index, &found)) return 0;
  *object = (struct insitu_object){.start = (uintptr_t)found.start,
                                   .end = (uintptr_t)found.end,
                                   .base = found.map->l_addr,
                                   .name = found.map->l_name ? found.map->l_name : "",
                                   .index = found.index};
  return 1;
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* Bytes of a table. Reading behind the end gives 0 and sets `at` to NULL. */
struct bytes {
  const uint8_t *at, *end;
};

static uint64_t read_fixed(struct bytes *bytes, unsigned size) {
  uint64_t value = 0;
  if (!bytes->at || (size_t)(bytes->end - bytes->at) < size) {
    bytes->at = NULL;
    return 0;
  }
  memcpy(&value, bytes->at, size); /* both architectures are little endian */
  bytes->at += size;
  return value;
}

static int64_t read_signed(struct bytes *bytes, unsigned size) {
  uint64_t value = read_fixed(bytes, size);
  unsigned shift = 64 - 8 * size;
  return (int64_t)(value << shift) >> shift;
}

static uint64_t read_uleb(struct bytes *bytes) {
  uint64_t value = 0, byte = 0x80;
  for (unsigned shift = 0; byte & 0x80 && bytes->at; shift += 7) {
    byte = read_fixed(bytes, 1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
  }
  return value;
}

static int64_t read_sleb(struct bytes *bytes) {
  uint64_t value = 0, byte = 0x80;
  unsigned shift = 0;
  for (; byte & 0x80 && bytes->at; shift += 7) {
    byte = read_fixed(bytes, 1);
    if (shift < 64) value |= (byte & 0x7f) << shift;
  }
  if (shift < 64 && byte & 0x40) value |= ~0ull << shift;
  return (int64_t)value;
}

static void skip(struct bytes *bytes, uint64_t count) {
  if (bytes->at && count <= (uint64_t)(bytes->end - bytes->at)) bytes->at += count;
  else bytes->at = NULL;
}

/* Pointer encodings (DW_EH_PE_...): a format, and what the value is relative to. */
enum { FORMAT = 0x0f, ABSOLUTE = 0x00, UDATA2 = 0x02, UDATA4 = 0x03, UDATA8 = 0x04 };
enum { SDATA2 = 0x0a, SDATA4 = 0x0b, SDATA8 = 0x0c, RELATIVE = 0x70, PC_RELATIVE = 0x10, OMITTED = 0xff };

static uintptr_t read_pointer(struct bytes *bytes, unsigned encoding) {
  uintptr_t here = (uintptr_t)bytes->at, value = 0;
  switch (encoding & FORMAT) {
    case ABSOLUTE:
    case UDATA8:
    case SDATA8: value = read_fixed(bytes, 8); break;
    case UDATA4: value = read_fixed(bytes, 4); break;
    case SDATA4: value = (uintptr_t)read_signed(bytes, 4); break;
    case UDATA2: value = read_fixed(bytes, 2); break;
    case SDATA2: value = (uintptr_t)read_signed(bytes, 2); break;
    default: bytes->at = NULL;
  }
  if ((encoding & RELATIVE) == PC_RELATIVE) value += here;
  else if (encoding & RELATIVE) bytes->at = NULL;
  return value;
}

/* ---- the entry of a function ---------------------------------------------------------------------------------- */

/* A frame description entry (FDE) with the fields of its common information entry (CIE). */
struct entry {
  uintptr_t function;
  uint64_t code_factor;
  int64_t data_factor;
  int is_signal;
  struct bytes common, own; /* instructions */
};

/* Begin to read the entry at an address. Returns 0 at the end of the table. */
static int open_entry(const struct insitu_object *object, uintptr_t at, struct bytes *bytes) {
  if (at < object->start || at >= object->end) return 0;
  *bytes = (struct bytes){(const uint8_t *)at, (const uint8_t *)object->end};
  uint64_t length = read_fixed(bytes, 4);
  if (length == 0xffffffff) length = read_fixed(bytes, 8);
  if (!bytes->at || !length || length > (uint64_t)(bytes->end - bytes->at)) return 0;
  bytes->end = bytes->at + length;
  return 1;
}

/* Read a CIE. Returns 0 if it is of an unknown kind. */
static int read_common(const struct insitu_object *object, uintptr_t at, struct entry *entry, unsigned *encoding) {
  struct bytes bytes;
  if (!open_entry(object, at, &bytes) || read_fixed(&bytes, 4)) return 0;
  uint64_t version = read_fixed(&bytes, 1);
  const char *augmentation = (const char *)bytes.at;
  while (bytes.at && read_fixed(&bytes, 1)) continue;
  entry->code_factor = read_uleb(&bytes);
  entry->data_factor = read_sleb(&bytes);
  uint64_t return_register = version == 1 ? read_fixed(&bytes, 1) : read_uleb(&bytes);
  if (!bytes.at || (version != 1 && version != 3) || return_register != RETURN) return 0;

  *encoding = ABSOLUTE;
  if (*augmentation == 'z') {
    uint64_t length = read_uleb(&bytes);
    struct bytes data = bytes;
    skip(&bytes, length);
    for (const char *letter = augmentation + 1; *letter; letter++) {
      if (*letter == 'R') *encoding = (unsigned)read_fixed(&data, 1);
      else if (*letter == 'P') read_pointer(&data, (unsigned)read_fixed(&data, 1) & FORMAT);
      else if (*letter == 'L') read_fixed(&data, 1);
      else if (*letter == 'S') entry->is_signal = 1;
      else if (*letter != 'B') return 0; /* B: return addresses are signed with the second key */
    }
    if (!data.at) return 0;
  } else if (*augmentation) {
    return 0;
  }
  entry->common = bytes;
  return bytes.at != NULL;
}

/* Find the entry of the function that contains `pc` by the sorted index of the object. */
static int find_entry(const struct insitu_object *object, uintptr_t pc, struct entry *entry) {
  struct bytes bytes = {object->index, (const uint8_t *)object->end};
  if (read_fixed(&bytes, 1) != 1) return 0;
  unsigned first = (unsigned)read_fixed(&bytes, 1), count = (unsigned)read_fixed(&bytes, 1);
  unsigned kind = (unsigned)read_fixed(&bytes, 1);
  read_pointer(&bytes, first & FORMAT);
  if (count != UDATA4 || kind != (0x30 | SDATA4)) return 0; /* offsets from the index, as all linkers write them */
  uint64_t rows = read_fixed(&bytes, 4);
  if (!bytes.at || !rows || rows > (uint64_t)(bytes.end - bytes.at) / 8) return 0;

  const int32_t *table = (const int32_t *)bytes.at;
  intptr_t offset = (intptr_t)(pc - (uintptr_t)object->index);
  uint64_t low = 0, high = rows;
  if (offset < table[0]) return 0;
  while (high - low > 1) {
    uint64_t middle = (low + high) / 2;
    if (table[2 * middle] <= offset) low = middle;
    else high = middle;
  }

  uintptr_t at = (uintptr_t)object->index + (uintptr_t)(intptr_t)table[2 * low + 1];
  if (!open_entry(object, at, &bytes)) return 0;
  uintptr_t here = (uintptr_t)bytes.at;
  uint64_t distance = read_fixed(&bytes, 4);
  unsigned encoding;
  if (!distance || !read_common(object, here - distance, entry, &encoding)) return 0;
  entry->function = read_pointer(&bytes, encoding);
  uintptr_t size = read_pointer(&bytes, encoding & FORMAT);
  skip(&bytes, read_uleb(&bytes));
  entry->own = bytes;
  return bytes.at && pc - entry->function < size;
}

/* ---- the instructions of an entry ----------------------------------------------------------------------------- */

struct saved {
  uint8_t where; /* enum insitu_saved */
  int64_t offset;
};

struct state {
  uint8_t cfa; /* enum insitu_cfa */
  int64_t offset;
  struct saved address, fp, bx;
  int is_outermost;
};

#define STATES 8 /* remembered states; compilers nest them once or twice */
struct program {
  const struct entry *entry;
  uintptr_t location, pc;
  struct state state, initial, stack[STATES];
  unsigned depth;
  int is_known;
};

static void set_cfa(struct state *state, uint64_t number) {
  state->cfa = INSITU_CFA_NONE;
  if (number == SP) state->cfa = INSITU_CFA_SP;
  else if (number == FP) state->cfa = INSITU_CFA_FP;
  else if (number == (uint64_t)BX) state->cfa = INSITU_CFA_BX;
}

static struct saved *saved_of(struct state *state, uint64_t number) {
  if (number == RETURN) return &state->address;
  if (number == FP) return &state->fp;
  return number == (uint64_t)BX ? &state->bx : NULL;
}

static void save(struct state *state, uint64_t number, uint8_t where, int64_t offset) {
  struct saved *saved = saved_of(state, number);
  if (number == RETURN) state->is_outermost = 0;
  if (saved) *saved = (struct saved){where, offset};
}

/* Operations of DWARF expressions (DW_OP_...) that occur in such tables. */
enum { DEREFERENCE = 0x06, BASE_REGISTER = 0x70 };

/* The CFA of a function that aligned its stack is in a word of its frame. That of the procedure linkage table depends
 * on the position within its entries of 16 bytes: register 7 + 8 + (register 16 & 15 >= literal) * 8. */
static void evaluate_cfa(struct program *program, struct bytes bytes) {
  static const uint8_t linkage[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22};
  struct state *state = &program->state;
  state->cfa = INSITU_CFA_NONE;
  if (bytes.end - bytes.at == sizeof linkage && !memcmp(bytes.at, linkage, 6) &&
      !memcmp(bytes.at + 7, linkage + 7, 4)) {
    state->cfa = INSITU_CFA_SP;
    state->offset = 8 + 8 * ((program->pc & 15) >= (uintptr_t)(bytes.at[6] - linkage[6]));
    return;
  }
  if (read_fixed(&bytes, 1) != BASE_REGISTER + FP) return;
  int64_t offset = read_sleb(&bytes);
  if (read_fixed(&bytes, 1) != DEREFERENCE || !bytes.at || bytes.at != bytes.end) return;
  state->cfa = INSITU_CFA_AT_FP;
  state->offset = offset;
}

/* A register that is saved at a constant distance from the frame pointer. */
static void save_by_expression(struct state *state, uint64_t number, struct bytes bytes) {
  int is_simple = read_fixed(&bytes, 1) == BASE_REGISTER + FP;
  int64_t offset = read_sleb(&bytes);
  if (is_simple && bytes.at && bytes.at == bytes.end) save(state, number, INSITU_SAVED_AT_FP, offset);
  else save(state, number, INSITU_SAVED_UNKNOWN, 0);
}

static void restore(struct program *program, uint64_t number) {
  struct saved *saved = saved_of(&program->state, number);
  if (saved) *saved = *saved_of(&program->initial, number);
}

/* An expression: a length and as many bytes. */
static struct bytes read_block(struct bytes *bytes) {
  uint64_t length = read_uleb(bytes);
  struct bytes block = *bytes;
  skip(bytes, length);
  block.end = bytes->at ? bytes->at : block.at;
  return block;
}

/* One instruction of the extended kind (DW_CFA_...), whose operands follow. */
static void run_extended(struct program *program, unsigned operation, struct bytes *bytes) {
  struct state *state = &program->state;
  int64_t factor = program->entry->data_factor;
  uint64_t number;
  switch (operation) {
    case 0x00: break;                                                                          /* nop */
    case 0x01: program->location = read_pointer(bytes, ABSOLUTE); break;                       /* set_loc */
    case 0x02: program->location += read_fixed(bytes, 1) * program->entry->code_factor; break; /* advance */
    case 0x03: program->location += read_fixed(bytes, 2) * program->entry->code_factor; break;
    case 0x04: program->location += read_fixed(bytes, 4) * program->entry->code_factor; break;
    case 0x05: /* offset_extended */
      number = read_uleb(bytes);
      save(state, number, INSITU_SAVED_AT_CFA, (int64_t)read_uleb(bytes) * factor);
      break;
    case 0x06: restore(program, read_uleb(bytes)); break; /* restore_extended */
    case 0x07:                                            /* undefined */
      number = read_uleb(bytes);
      save(state, number, INSITU_SAVED_UNKNOWN, 0);
      if (number == RETURN) state->is_outermost = 1;
      break;
    case 0x08: save(state, read_uleb(bytes), INSITU_SAVED_NOWHERE, 0); break; /* same_value */
    case 0x09:                                                                /* register */
      save(state, read_uleb(bytes), INSITU_SAVED_UNKNOWN, 0);
      read_uleb(bytes);
      break;
    case 0x0a: /* remember_state */
      if (program->depth < STATES) program->stack[program->depth++] = *state;
      else program->is_known = 0;
      break;
    case 0x0b: /* restore_state */
      if (program->depth) *state = program->stack[--program->depth];
      else program->is_known = 0;
      break;
    case 0x0c: /* def_cfa */
      set_cfa(state, read_uleb(bytes));
      state->offset = (int64_t)read_uleb(bytes);
      break;
    case 0x0d: set_cfa(state, read_uleb(bytes)); break;          /* def_cfa_register */
    case 0x0e: state->offset = (int64_t)read_uleb(bytes); break; /* def_cfa_offset */
    case 0x0f: evaluate_cfa(program, read_block(bytes)); break;  /* def_cfa_expression */
    case 0x10:                                                   /* expression */
      number = read_uleb(bytes);
      save_by_expression(state, number, read_block(bytes));
      break;
    case 0x11: /* offset_extended_sf */
      number = read_uleb(bytes);
      save(state, number, INSITU_SAVED_AT_CFA, read_sleb(bytes) * factor);
      break;
    case 0x12: /* def_cfa_sf */
      set_cfa(state, read_uleb(bytes));
      state->offset = read_sleb(bytes) * factor;
      break;
    case 0x13: state->offset = read_sleb(bytes) * factor; break; /* def_cfa_offset_sf */
    case 0x14:                                                   /* val_offset, val_offset_sf */
    case 0x15:
      save(state, read_uleb(bytes), INSITU_SAVED_UNKNOWN, 0);
      read_uleb(bytes);
      break;
    case 0x16: /* val_expression */
      save(state, read_uleb(bytes), INSITU_SAVED_UNKNOWN, 0);
      read_block(bytes);
      break;
    case 0x2d: break;                   /* GNU_window_save, on aarch64 negate_ra_state: unwind.c strips signatures */
    case 0x2e: read_uleb(bytes); break; /* GNU_args_size */
    default: program->is_known = 0;
  }
}

/* Run instructions up to those that describe code behind `pc`. */
static void run(struct program *program, struct bytes bytes) {
  const struct entry *entry = program->entry;
  while (program->is_known && bytes.at && bytes.at < bytes.end && program->location <= program->pc) {
    unsigned operation = (unsigned)read_fixed(&bytes, 1), operand = operation & 0x3f;
    if (operation >> 6 == 1) program->location += operand * entry->code_factor; /* advance_loc */
    else if (operation >> 6 == 2)                                               /* offset */
      save(&program->state, operand, INSITU_SAVED_AT_CFA, (int64_t)read_uleb(&bytes) * entry->data_factor);
    else if (operation >> 6 == 3) restore(program, operand);
    else run_extended(program, operation, &bytes);
  }
  if (!bytes.at) program->is_known = 0;
}

int insitu_rule_read(const struct insitu_object *object, uintptr_t pc, struct insitu_rule *rule) {
  struct entry entry = {0};
  *rule = (struct insitu_rule){.pc = pc};
  if (!object->index || !find_entry(object, pc, &entry)) return 0;
  rule->function = entry.function;
  if (entry.is_signal) {
    rule->cfa = INSITU_CFA_SIGNAL;
    return 1;
  }

  struct program program = {.entry = &entry, .location = entry.function, .pc = pc, .is_known = 1};
  run(&program, entry.common);
  program.initial = program.state;
  run(&program, entry.own);
  const struct state *state = &program.state;
  if (!program.is_known) return 0;
  if (state->is_outermost) {
    rule->cfa = INSITU_CFA_OUTERMOST;
    return 1;
  }
  int32_t cfa = (int32_t)state->offset, address = (int32_t)state->address.offset;
  int32_t fp = (int32_t)state->fp.offset, bx = (int32_t)state->bx.offset;
  if (cfa != state->offset || address != state->address.offset) return 0;
  if (fp != state->fp.offset || bx != state->bx.offset) return 0;
  if (state->cfa == INSITU_CFA_NONE || state->address.where == INSITU_SAVED_UNKNOWN) return 0;
  rule->cfa = state->cfa;
  rule->cfa_offset = cfa;
  rule->return_saved = state->address.where;
  rule->return_offset = address;
  rule->fp_saved = state->fp.where;
  rule->fp_offset = fp;
  rule->bx_saved = state->bx.where;
  rule->bx_offset = bx;
  rule->needs_fp = state->cfa == INSITU_CFA_FP || state->cfa == INSITU_CFA_AT_FP;
  rule->needs_fp |= state->address.where == INSITU_SAVED_AT_FP || state->fp.where == INSITU_SAVED_AT_FP;
  rule->needs_fp |= state->bx.where == INSITU_SAVED_AT_FP;
  return 1;
}
