/* Inexact results are looked for, and then end the program, as tests of interval arithmetic set it, while it calls
 * functions and MPI. */
#define _GNU_SOURCE
#include <fenv.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static volatile long sum;
__attribute__((noinline)) static void step(long i) {
  sum += i;
}

static void work(void) {
  for (int round = 0; round < 40; round++) {
    for (long i = 0; i < 200000; i++) step(i);
    usleep(5000);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  feclearexcept(FE_ALL_EXCEPT);
  work();
  int raised = fetestexcept(FE_ALL_EXCEPT);
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INEXACT);
  work();
  int traps = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && traps == FE_INEXACT) printf("traps as set, raised %d\n", raised);
  MPI_Finalize();
  return 0;
}
