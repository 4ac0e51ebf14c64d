/* Unwind rules: how to find the caller of a function from the tables of loaded objects (.eh_frame).
 *
 * The tables are those that C++ exceptions use; stripping keeps them. They are read where they are mapped, so an object
 * that was loaded a moment ago has rules, and no preparation is needed. */
#ifndef INSITU_EH_FRAME_H
#define INSITU_EH_FRAME_H

#include <stdint.h>

/* A loaded object. */
struct insitu_object {
  uintptr_t start, end; /* of the mapping that contains its rules */
  uintptr_t base;       /* what the linker added to its addresses */
  const char *name;     /* as the linker knows it, "" for the program itself */
  const uint8_t *index; /* .eh_frame_hdr; NULL if it has none */
};

/* Find the object that contains an address. Returns 0 if there is none. With glibc 2.35 or newer this takes no lock. */
int insitu_object_find(uintptr_t address, struct insitu_object *object);
/* Whether insitu_object_find may be called in a signal handler. */
int insitu_object_finds_in_handlers(void);

/* The canonical frame address (CFA) is the value of the stack pointer before the call of the function. */
enum insitu_cfa {
  INSITU_CFA_NONE,      /* there is no rule */
  INSITU_CFA_SP,        /* stack pointer + offset */
  INSITU_CFA_FP,        /* frame pointer + offset */
  INSITU_CFA_AT_FP,     /* the word at frame pointer + offset */
  INSITU_CFA_BX,        /* base register + offset; x86-64 only */
  INSITU_CFA_SIGNAL,    /* the kernel called this code: all registers are in a ucontext at the stack pointer */
  INSITU_CFA_OUTERMOST, /* there is no caller */
};
enum insitu_saved {
  INSITU_SAVED_NOWHERE, /* the register keeps its value */
  INSITU_SAVED_AT_CFA,  /* in the word at CFA + offset */
  INSITU_SAVED_AT_FP,   /* in the word at frame pointer + offset */
  INSITU_SAVED_UNKNOWN,
};

/* How to find the caller from one instruction. */
struct insitu_rule {
  uintptr_t pc;       /* of the instruction */
  uintptr_t function; /* the beginning of its function */
  uint64_t key;       /* of rows of the function; unwind.c sets it */
  int32_t cfa_offset;
  int32_t return_offset;
  int32_t fp_offset;
  int32_t bx_offset;
  uint8_t cfa;          /* enum insitu_cfa */
  uint8_t return_saved; /* enum insitu_saved */
  uint8_t fp_saved;     /* likewise, as the next one */
  uint8_t bx_saved;
  uint8_t needs_fp; /* whether one of them depends on the frame pointer */
  uint8_t object;   /* what kind of object it is; unwind.c sets it */
};

/* Read the rule for the instruction at `pc`, which is in `object`. Returns 0 if there is none that can be followed. */
int insitu_rule_read(const struct insitu_object *object, uintptr_t pc, struct insitu_rule *rule);

#endif
