/* Output through two aggregators: the first rank of each half of the ranks collects the blocks of its half. Repaired:
 * an aggregator for every four ranks. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { VALUES = 20000, STEPS = 25 };
typedef struct {
  MPI_Comm group;
  int rank, size, file;
  long first;
} Output;
static double field[VALUES];
static Output open_output(int members, const char *name) {
  Output out;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank / members, rank, &out.group);
  MPI_Comm_rank(out.group, &out.rank);
  MPI_Comm_size(out.group, &out.size);
  out.first = rank;
  out.file = out.rank == 0 ? open(name, O_CREAT | O_WRONLY, 0600) : -1;
  return out;
}
__attribute__((noinline)) static void compute(void) {
  for (int k = 0; k < 30; k++)
    for (int i = 1; i < VALUES - 1; i++) field[i] = 0.5 * field[i] + 0.25 * (field[i - 1] + field[i + 1]) + 1e-3;
}
__attribute__((noinline)) static void collect(Output *out) {
  static double block[VALUES];
  if (out->rank > 0) {
    MPI_Send(field, VALUES, MPI_DOUBLE, 0, 7, out->group);
    return;
  }
  for (int member = 0; member < out->size; member++) {
    double *data = field;
    if (member > 0) {
      MPI_Recv(block, VALUES, MPI_DOUBLE, member, 7, out->group, MPI_STATUS_IGNORE);
      data = block;
    }
    long at = (out->first + member) * (long)sizeof field;
    if (pwrite(out->file, data, sizeof field, at) < 0) MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
int main(int argc, char **argv) {
  int size, rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char name[200] = "";
  if (rank == 0) {
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/aggregators.%d", folder ? folder : "/tmp", (int)getpid());
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  Output out = open_output(argc > 1 ? 4 : (size + 1) / 2, name);
  for (int step = 0; step < STEPS; step++) {
    compute();
    collect(&out);
  }
  if (out.file >= 0) close(out.file);
  MPI_Comm_free(&out.group);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(name);
  MPI_Finalize();
  return 0;
}
