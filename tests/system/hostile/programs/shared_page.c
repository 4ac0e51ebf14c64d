/* Data right behind the range that is read-only after relocation. tests/system/hostile/relro.py makes that range end
 * inside a page, as in objects that were linked for smaller pages. */
#include <mpi.h>
#include <stdio.h>

int counter[200000] = {1};

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 200000; i++) counter[i] += i;
  printf("counted to %d\n", counter[5]);
  MPI_Finalize();
  return 0;
}
