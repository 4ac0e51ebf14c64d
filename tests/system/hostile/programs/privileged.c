/* A helper that runs with the rights of another user: prints what it was given. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  printf("helper %d %d %s\n", getuid() == geteuid(), getenv("INSITU_RUN") != NULL,
         getenv("LD_PRELOAD") ? "preloaded" : "plain");
  return 3;
}
