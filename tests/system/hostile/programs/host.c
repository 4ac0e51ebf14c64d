/* Not linked with MPI: the library of its command line is, as R's extensions are. A child sees what the program sees.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (!library) return puts(dlerror()), 2;
  void (*run)(void) = (void (*)(void))dlsym(library, "run_steps");
  run();
  return system("env | grep -e INSITU_RUN -e libinsitu; true");
}
