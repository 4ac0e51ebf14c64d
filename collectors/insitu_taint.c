/* Follows the parameters of a C or C++ program into its branches, for `insitu detect --taint-program`.
 *
 * Compile this file with the program, with clang 14 or newer, in one command:
 *
 *   clang -g -O1 -fno-inline -fsanitize=dataflow -mllvm -dfsan-conditional-callbacks \
 *     -fsanitize-ignorelist=insitu_taint.txt program.c insitu_taint.c
 *
 * DataFlowSanitizer carries labels of values through computations and memory. The words of the command line that
 * contain a parameter are labelled before main, and what MPI_Comm_size returns if the number of ranks is a parameter.
 * Whenever a branch depends on a labelled value, the function with the branch depends on its parameters [DET §2.1].
 *
 * INSITU_TAINT holds the labels: words `BIT:INDEX:NAME` with an index from the end of the command line, or `ranks`. At
 * the end of the program, each process writes them into $INSITU_COUNTS/PID.taint, and then for each branch a set of
 * labels, and address and object of the functions around it, the innermost first. Outside `insitu detect` nothing
 * happens. */
#define _GNU_SOURCE
#include <sanitizer/dfsan_interface.h>

#include <dlfcn.h>
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BRANCHES 65536u /* distinct pairs of a branch and its labels; a power of two */
#define FRAMES 6        /* the first are of DataFlowSanitizer itself */

void *_Unwind_FindEnclosingFunction(void *address);

static const char *labels_text, *directory;
static dfsan_label ranks_label;

/* Branches that were taken, as the addresses of the functions around them. Entries are only added; two threads that add
 * the same one at the same time write it twice. */
static struct branch {
  dfsan_label label;
  void *frames[FRAMES];
} branches[BRANCHES];

static void insitu_taint_on_branch(dfsan_label label, dfsan_origin origin) {
  void *frames[FRAMES] = {0};
  (void)origin;
  int count = backtrace(frames, FRAMES);
  uintptr_t hash = label;
  for (int i = 0; i < count; i++) {
    frames[i] = _Unwind_FindEnclosingFunction((char *)frames[i] - 1);
    hash = (hash ^ (uintptr_t)frames[i]) * 0x9E3779B97F4A7C15u;
  }
  for (unsigned tries = 0; tries < 64; tries++) {
    struct branch *branch = &branches[(hash / 65536 + tries) & (BRANCHES - 1)];
    if (branch->label == label && !memcmp(branch->frames, frames, sizeof frames)) return;
    if (branch->label) continue;
    memcpy(branch->frames, frames, sizeof frames);
    branch->label = label;
    return;
  }
}

/* Label the words of the command line and the number of ranks as INSITU_TAINT says. */
__attribute__((constructor)) static void insitu_taint_begin(int count, char **words) {
  labels_text = getenv("INSITU_TAINT");
  directory = getenv("INSITU_COUNTS");
  if (!labels_text || !directory) return;
  for (const char *at = labels_text; at && *at; at = strchr(at, ' '), at += at != NULL) {
    char index[32];
    unsigned label;
    if (sscanf(at, "%u:%31[^:]", &label, index) != 2) continue;
    if (!strcmp(index, "ranks")) ranks_label |= (dfsan_label)label;
    else if (count + atoi(index) > 0 && atoi(index) < 0)
      dfsan_add_label((dfsan_label)label, words[count + atoi(index)], strlen(words[count + atoi(index)]));
  }
  dfsan_set_conditional_callback(insitu_taint_on_branch);
}

__attribute__((destructor)) static void insitu_taint_end(void) {
  char path[4096], itself[4096] = "";
  Dl_info program = {0}, object;
  if (!labels_text || !directory) return;
  snprintf(path, sizeof path, "%s/%d.taint", directory, (int)getpid());
  FILE *file = fopen(path, "w");
  if (!file) return;
  fprintf(file, "%s\n", labels_text);
  /* The linker knows the program itself only by the first word of its command line. */
  if (readlink("/proc/self/exe", itself, sizeof itself - 1) > 0) dladdr(branches, &program);
  for (struct branch *branch = branches; branch < branches + BRANCHES; branch++) {
    if (!branch->label) continue;
    fprintf(file, "%u", branch->label);
    for (int i = 0; i < FRAMES && branch->frames[i] && dladdr(branch->frames[i], &object); i++) {
      unsigned long address = (unsigned long)((char *)branch->frames[i] - (char *)object.dli_fbase);
      fprintf(file, "\t%lx %s", address, object.dli_fbase == program.dli_fbase ? itself : object.dli_fname);
    }
    fputc('\n', file);
  }
  fclose(file);
}

/* ---- functions of libraries, which are not compiled with labels ------------------------------------------------- */

/* The result depends on the characters. */
#define FROM_TEXT(type, function)                                                    \
  type __dfsw_##function(const char *text, dfsan_label label, dfsan_label *result) { \
    *result = label | dfsan_read_label(text, strlen(text) + 1);                      \
    return function(text);                                                           \
  }
FROM_TEXT(int, atoi)
FROM_TEXT(long, atol)
FROM_TEXT(long long, atoll)
FROM_TEXT(double, atof)

#if __has_include(<mpi.h>)
#include <mpi.h>
/* Weak: a program that does not use MPI has no such function. */
extern int MPI_Comm_size(MPI_Comm comm, int *size) __attribute__((weak));
int __dfsw_MPI_Comm_size(MPI_Comm comm, int *size, dfsan_label of_comm, dfsan_label of_size, dfsan_label *result) {
  (void)of_comm, (void)of_size;
  *result = 0;
  int failed = MPI_Comm_size(comm, size);
  dfsan_set_label(ranks_label, size, sizeof *size);
  return failed;
}
#endif
