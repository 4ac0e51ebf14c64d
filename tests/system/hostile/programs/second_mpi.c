/* Loads the MPI library into a second namespace, and uses it there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int find(struct dl_phdr_info *object, size_t bytes, void *path) {
  if (!strstr(object->dlpi_name, "/libmpi.so")) return 0;
  strcpy(path, object->dlpi_name);
  return 1;
}

int main(int argc, char **argv) {
  int version, unused;
  MPI_Get_version(&version, &unused); /* linked, and never initialised */
  char path[4096] = "";
  dl_iterate_phdr(find, path);
  void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  if (!library) return printf("%s\n", dlerror()), 1;
  int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(library, "MPI_Init");
  int (*finalize)(void) = (int (*)(void))dlsym(library, "MPI_Finalize");
  int (*query)(int *) = (int (*)(int *))dlsym(library, "MPI_Initialized");
  int first = 0, second = 0;
  init(&argc, &argv);
  query(&second);
  MPI_Initialized(&first);
  printf("first %d second %d\n", first, second);
  finalize();
  return 0;
}
