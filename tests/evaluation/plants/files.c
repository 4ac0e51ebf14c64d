/* Reads and writes files in every way that is counted. The names of the files begin with `piece`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
static char data[4096];
static void __attribute__((noinline)) positioned(int file) {
  for (int i = 0; i < 13; i++)
    if (pwrite(file, data, 200 + i, i * 300) < 0 || pread(file, data, 150, i * 300) < 0) abort();
}
static void __attribute__((noinline)) vectors(int file) {
  struct iovec two[2] = {{data, 70}, {data + 70, 30}};
  for (int i = 0; i < 9; i++)
    if (writev(file, two, 2) < 0) abort();
  lseek(file, 0, SEEK_SET);
  for (int i = 0; i < 5; i++)
    if (readv(file, two, 2) < 0) abort();
}
static void __attribute__((noinline)) plain(int file) {
  for (int i = 0; i < 17; i++)
    if (write(file, data, 64) < 0) abort();
  lseek(file, 0, SEEK_SET);
  for (int i = 0; i < 6; i++)
    if (read(file, data, 1000) < 0) abort(); /* the last are short */
  fsync(file);
}
static void __attribute__((noinline)) streams(void) {
  FILE *stream = fopen("piece.stream", "w+");
  for (int i = 0; i < 1000; i++) fwrite(data, 24, 1, stream);
  rewind(stream);
  for (int i = 0; i < 1100; i++)
    if (fread(data, 24, 1, stream) != 1) break;
  fclose(stream);
}
int main(void) {
  int is_initialised; /* a program without calls of MPI is not measured */
  MPI_Initialized(&is_initialised);
  int file = open("piece", O_RDWR | O_CREAT | O_TRUNC, 0600);
  positioned(file), vectors(file), plain(file), streams();
  return close(file);
}
