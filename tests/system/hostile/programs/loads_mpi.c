/* Loads the MPI library of its command line, and looks its functions up, as Julia and ctypes do. */
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  int (*init)(int *, char ***) = dlsym(library, "MPI_Init"), (*finalize)(void) = dlsym(library, "MPI_Finalize");
  init(&argc, &argv);
  finalize();
  puts("loaded");
  return 0;
}
