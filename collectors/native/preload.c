/* Measure a compiled MPI program that was started with this library in LD_PRELOAD.
 *
 * Before main, the process executes collectors/attach.py, which creates the table, starts the agent of the node and
 * executes the program again, with the path of the table in its environment. So that logic exists once, in Python, and
 * this file only decides whether the process is a rank. */
#define _GNU_SOURCE
#include "budget.h"
#include "counters.h"
#include "finish.h"
#include "heap.h"
#include "maps.h"
#include "mpi_wrapper.h"
#include "python_abi.h"
#include "table.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTACH \
  "import sys; sys.path.insert(0, sys.argv[1]); from insitu.collectors.attach import main; main(sys.argv[2:])"

static int is_mpi_library(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  const char *name = strrchr(object->dlpi_name, '/');
  return strncmp(name ? name + 1 : object->dlpi_name, "libmpi", 6) == 0;
}

/* Write the path of the program, "" if it is unknown. */
static void read_program_path(char itself[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", itself, PATH_MAX - 1);
  itself[length > 0 ? length : 0] = 0;
}

/* Whether this is a Python interpreter, which measures itself. A program that embeds Python, such as LAMMPS, is not. */
static int is_python(void) {
  char itself[PATH_MAX];
  read_program_path(itself);
  const char *name = strrchr(itself, '/');
  return PyModule_Create2 && name && (!strncmp(name, "/python", 7) || !strncmp(name, "/pypy", 5));
}

/* Whether this is a rank of a compiled program. Shells and launchers are not: they only pass the environment on. */
static int is_compiled_rank(void) {
  static const char *const ranks[] = {"PMIX_RANK",           "PMI_RANK",    "OMPI_COMM_WORLD_RANK",
                                      "MV2_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_STEP_ID"};
  if (!secure_getenv("INSITU_RUN") || !getenv("INSITU_PYTHON") || !getenv("INSITU_HOME")) return 0;
  if (getenv("PMI_SPAWNED") || getenv("OMPI_PARENT_PORT")) return 0; /* started by MPI_Comm_spawn; see rank.py */
  if (is_python() || !dl_iterate_phdr(is_mpi_library, NULL)) return 0;
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
    if (getenv(ranks[i])) return 1;
  return 0;
}

static void execute_attach(int argc, char **argv) {
  char itself[PATH_MAX];
  read_program_path(itself);
  /* -S: without site-packages, which take a third of the start-up time. */
  char *head[] = {getenv("INSITU_PYTHON"), "-I", "-S", "-c", ATTACH, getenv("INSITU_HOME"), itself};
  const size_t heads = sizeof head / sizeof *head;
  char **words = malloc((heads + (size_t)argc + 1) * sizeof *words);
  if (!*itself || !words) return;
  memcpy(words, head, sizeof head);
  memcpy(words + heads, argv, (size_t)(argc + 1) * sizeof *words);
  const char *path = getenv("INSITU_PYTHONPATH"); /* attach.py itself is not measured */
  if (path) setenv("PYTHONPATH", path, 1);
  else unsetenv("PYTHONPATH");
  execv(words[0], words);
  free(words); /* Python cannot be started: the program runs unmeasured */
}

/* Create the table of the program that this process is going to execute. attach.py calls this function with ctypes:
 * unlike the module in module.c it works in any Python, whatever the layout of its objects. Returns 0 or an errno. */
__attribute__((visibility("default"))) int insitu_create_table(const char *path, int rank, int size,
                                                               const char *program, const char *meta, size_t meta_bytes,
                                                               double budget) {
  int failed = insitu_table_create(path, rank, size, program, meta, meta_bytes);
  if (!failed) insitu_budget_begin(0.0, budget);
  return failed;
}

static void at_exit(int status, void *unused) {
  (void)unused;
  insitu_finish(INSITU_ENDED, status);
}

__attribute__((constructor)) static void before_main(int argc, char **argv) {
  /* secure_getenv: a program that runs with the rights of another user (setuid) is not measured. */
  const char *table = secure_getenv("INSITU_ATTACH"), *heap = secure_getenv("INSITU_HEAP");
  if (heap && strcmp(heap, "off") == 0) insitu_heap_stop();
  if (heap && strcmp(heap, "mmap") == 0) insitu_maps_start();
  if (!table) {
    if (is_compiled_rank()) execute_attach(argc, argv);
    return;
  }
  int failed = insitu_table_attach(table);
  unsetenv("INSITU_ATTACH");
  unsetenv("INSITU_HEAP");
  const char *preload = getenv("INSITU_LD_PRELOAD"); /* restored, since children of the program are not measured */
  if (preload) setenv("LD_PRELOAD", preload, 1);
  else unsetenv("LD_PRELOAD");
  unsetenv("INSITU_LD_PRELOAD");
  if (failed) return;
  strcpy(insitu_table->header->hook, "preload");
  insitu_counters_start();
  insitu_is_on = 1;
  insitu_mpi_patch();
  on_exit(at_exit, NULL);
}
