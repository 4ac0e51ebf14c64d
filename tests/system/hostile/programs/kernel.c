/* What programs ask of the kernel and of the C library that few others do, named by the first argument. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int is_over;

static int count_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

/* ---- children --------------------------------------------------------------------------------------------------- */

static FILE *shared;

static void *write_once(void *unused) {
  fputs("line\n", shared);
  fflush(shared);
  return unused;
}
static void *starts_threads(void *unused) {
  while (!is_over) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, write_once, NULL)) pthread_join(thread, NULL);
  }
  return unused;
}
/* A child has the descriptors of its parent, also while other threads call functions for the first time. */
static void forks_beside_threads(void) {
  pthread_t threads[2];
  shared = fopen("lines", "w");
  int before = count_files(), others = 0;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, starts_threads, NULL);
  for (int i = 0; i < 300; i++) {
    pid_t child = fork();
    if (!child) _exit(count_files() != before);
    int status = 0;
    waitpid(child, &status, 0);
    others += status != 0;
  }
  is_over = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("children with other descriptors: %d\n", others);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*run)(void);
} words[] = {
    {"forks-beside-threads", forks_beside_threads},
};

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  int provided, sum = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].name, word)) words[i].run();
  MPI_Allreduce(&provided, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  printf("sum %d\n", sum);
  MPI_Finalize();
  return 0;
}
