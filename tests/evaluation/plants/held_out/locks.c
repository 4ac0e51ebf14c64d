/* Each rank appends its block to one file under a lock, one after the other. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char block[65536];
__attribute__((noinline)) static void append_block(int fd, int locked) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (locked) fcntl(fd, F_SETLKW, &lock);
  lseek(fd, 0, SEEK_END);
  for (int i = 0; i < 4; i++) {
    write(fd, block, sizeof block);
    usleep(5000);
  }
  lock.l_type = F_UNLCK;
  if (locked) fcntl(fd, F_SETLK, &lock);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char name[64];
  sprintf(name, argc > 1 ? "out.%d" : "out", rank);
  int fd = open(name, O_RDWR | O_CREAT, 0644);
  for (int step = 0; step < 5; step++) {
    usleep(20000);
    append_block(fd, argc == 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  close(fd);
  MPI_Finalize();
  return 0;
}
