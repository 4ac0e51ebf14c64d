/* A program that a rank executes: what it was given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(void) {
  int files = 0;
  for (int i = 0; i < 64; i++) files += lseek(i, 0, SEEK_CUR) >= 0 || i < 3;
  printf("bits %d files %d\n", (int)sizeof(void *) * 8, files);
  for (char **entry = environ; *entry; entry++)
    if (strncmp(*entry, "PM", 2) && strncmp(*entry, "OMPI", 4) && strncmp(*entry, "PRTE", 4) && strncmp(*entry, "WITNESS", 7) &&
        strncmp(*entry, "HYD", 3) && strncmp(*entry, "UCX", 3) && strncmp(*entry, "MPI", 3))
      printf("variable %s\n", *entry);
  return 3;
}
