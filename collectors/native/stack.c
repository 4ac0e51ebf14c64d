/* Where the stack of a thread is. Nothing is allocated: that would count for the program. */
#define _GNU_SOURCE
#include "stack.h"

#include "interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOM 4096u /* to add a row took 2.5 KiB; a stack of SIGSTKSZ (8 KiB) has room besides the frame of a signal */
#define MAIN_STACK_BYTES (64u << 20) /* the kernel maps nothing else this close to the stack of the main thread */

static int is_main_thread(void) {
  return syscall(SYS_gettid) == getpid();
}

/* Read a number in base 16. Returns what follows it. */
static const char *read_hex(const char *text, uintptr_t *value) {
  for (*value = 0;; text++) {
    unsigned digit = (unsigned)*text - '0';
    if (digit > 9) digit = (unsigned)*text - 'a' + 10;
    if (digit > 15 || (digit > 9 && *text < 'a')) return text;
    *value = *value << 4 | digit;
  }
}

/* Use a line of the memory map if it describes the stack of this thread. */
static void use_mapping(const char *line, int is_main, uintptr_t *stack_from, uintptr_t *stack_to) {
  uintptr_t from, to, self = (uintptr_t)pthread_self();
  line = read_hex(line, &from);
  if (*line != '-') return;
  line = read_hex(line + 1, &to);
  if (is_main && strstr(line, "[stack]")) {
    *stack_from = to - MAIN_STACK_BYTES;
    *stack_to = to;
  } else if (!is_main && self >= from && self < to) {
    /* The C library stores what it knows of a thread at the upper end of its stack. */
    *stack_from = from;
    *stack_to = self;
  }
}

/* Find the stack of this thread in a file of memory mappings. */
static void find_in(const char *maps, uintptr_t *stack_from, uintptr_t *stack_to) {
  char text[1024];
  size_t used = 0;
  int is_main = is_main_thread();
  int file = insitu_open_hidden(maps, O_RDONLY);
  while (file >= 0 && !*stack_to) {
    ssize_t got = syscall(SYS_read, file, text + used, sizeof text - 1 - used);
    if (got <= 0) break;
    used += (size_t)got;
    text[used] = 0;
    char *line = text, *end;
    while ((end = strchr(line, '\n'))) {
      *end = 0;
      use_mapping(line, is_main, stack_from, stack_to);
      line = end + 1;
    }
    used -= (size_t)(line - text);
    if (used >= sizeof text - 1) used = 0; /* the rest of a long path */
    memmove(text, line, used);
  }
  if (file >= 0) insitu_close_hidden(file);
}

void insitu_stack_find(uintptr_t *stack_from, uintptr_t *stack_to) {
  *stack_from = *stack_to = 0;
  find_in("/proc/self/maps", stack_from, stack_to);
  if (!*stack_to) find_in("/proc/thread-self/maps", stack_from, stack_to); /* the main thread has ended */
}

/* Query the kernel directly: sample.c answers programs that query the C library. */
int insitu_is_on_alternate_stack(void) {
  stack_t now;
  int saved = errno, is_on = !syscall(SYS_sigaltstack, NULL, &now) && now.ss_flags & SS_ONSTACK;
  errno = saved;
  return is_on;
}

int insitu_is_on_small_stack(void) {
  stack_t now;
  int saved = errno, is_on = !syscall(SYS_sigaltstack, NULL, &now) && now.ss_flags & SS_ONSTACK;
  errno = saved;
  return is_on && (uintptr_t)__builtin_frame_address(0) - (uintptr_t)now.ss_sp < ROOM;
}
