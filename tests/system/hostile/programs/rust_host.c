/* Loads a library in Rust, the first word, which calls back into MPI. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int call_mpi(int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return printf("%s\n", dlerror()), 1;
  int (*run)(int (*)(int)) = (int (*)(int (*)(int)))dlsym(library, "run");
  printf("run %d\n", run(call_mpi));
  MPI_Finalize();
  return 0;
}
