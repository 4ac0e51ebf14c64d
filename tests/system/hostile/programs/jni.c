/* The native half of Main.java. */
#include <mpi.h>
#include <stddef.h>

int Java_Main_start(void *environment, void *type) {
  int size, provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int Java_Main_sum(void *environment, void *type, int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}
void Java_Main_end(void *environment, void *type) { MPI_Finalize(); }
