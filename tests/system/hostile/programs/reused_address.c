/* Loads two libraries in turn, each at the address that the other one had. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

__attribute__((noinline)) static int use(const char *path, void **address) {
  void *library = dlopen(path, RTLD_NOW);
  int (*enter)(int) = (int (*)(int))dlsym(library, "enter");
  *address = (void *)enter;
  int value = enter(1);
  dlclose(library);
  return value;
}

int main(int argc, char **argv) {
  void *addresses[2];
  int sum = 0;
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 20; i++) sum += use(argv[1 + i % 2], &addresses[i % 2]);
  printf("sum %d same %d\n", sum, addresses[0] == addresses[1]);
  MPI_Finalize();
  return 0;
}
