/* Children of fork, vfork, clone and posix_spawn that end in every way, while threads work. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile int stop;
static int leaf(int n) { return n + 1; }
static void *work(void *unused) {
  while (!stop) free(malloc((size_t)leaf(10)));
  return unused;
}
static int child(void *unused) {
  for (int i = 0; i < 1000; i++) free(malloc((size_t)leaf(i)));
  return 5;
}
static int status_of(pid_t pid, int options) {
  int status = 0;
  waitpid(pid, &status, options);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  char *const words[] = {"sh", "-c", "exit 6", NULL};
  for (int i = 0; i < 5; i++) {
    pid_t pid = fork();
    if (!pid) {
      if (i == 0) exit(child(NULL));
      if (i == 1) _exit(3);
      if (i == 2) execv("/bin/sh", words);
      if (i == 3) abort();
      quick_exit(4);
    }
    printf("fork %d\n", status_of(pid, 0));
  }
  pid_t pid = vfork();
  if (!pid) _exit(7);
  printf("vfork %d\n", status_of(pid, 0));
  pid = vfork();
  if (!pid) execve("/bin/sh", words, environ), _exit(9);
  printf("vfork exec %d\n", status_of(pid, 0));
  char *stack = malloc(1 << 18);
  pid = clone(child, stack + (1 << 18), SIGCHLD, NULL);
  printf("clone %d\n", status_of(pid, 0));
  pid = clone(child, stack + (1 << 18), CLONE_VM | SIGCHLD, NULL);
  printf("clone vm %d\n", status_of(pid, __WALL));
  posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ);
  printf("spawn %d\n", status_of(pid, 0));
  printf("system %d\n", WEXITSTATUS(system("exit 8")));
  FILE *pipe = popen("env | grep -c -e ^INSITU_[^T] -e libinsitu", "r");
  char line[64] = "";
  printf("left %s", fgets(line, sizeof line, pipe));
  pclose(pipe);
  stop = 1;
  pthread_join(thread, NULL);
  printf("leaf %d\n", leaf(1));
  MPI_Finalize();
  return 0;
}
