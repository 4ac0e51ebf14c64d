/* MPI in C: a line cut into pieces, halos of some width, sums, a table for all.

params: p=1,2,3 n=600,1200,1800 w=8,16,24 t=3,6,9
launch: {p}
command: {n} {w} {t}
main: t
relax: n * p * t
exchange: w * t
total: n * p
spread: n
pack: w * t
main->exchange->MPI_Sendrecv: w * t
main->spread->MPI_Bcast: n * p
main->total->MPI_Allreduce: p
*/
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define NO __attribute__((noinline)) static

NO void pack(double *to, const double *from, int w) {
  for (int i = 0; i < w; i++) to[i] = from[i];
}
NO void exchange(double *u, int w, int rank, int size) {
  double out[w], in[w];
  pack(out, u, w);
  MPI_Sendrecv(out, w, MPI_DOUBLE, (rank + 1) % size, 0, in, w, MPI_DOUBLE,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  memcpy(u, in, w * sizeof *u);
}
NO void relax(double *u, int here) {
  for (int i = 1; i < here - 1; i++) u[i] = 0.5 * (u[i - 1] + u[i + 1]);
}
NO double total(const double *u, int here) {
  double own = 0, all = 0;
  for (int i = 0; i < here; i++) own += u[i];
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}
NO void spread(int n) {
  double *table = malloc(n * sizeof *table);
  for (int i = 0; i < n; i++) table[i] = i;
  MPI_Bcast(table, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  free(table);
}
int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int n = atoi(argv[1]), w = atoi(argv[2]), t = atoi(argv[3]), here = n / size;
  double *u = calloc(here, sizeof *u);
  for (int i = 0; i < t; i++) {
    exchange(u, w, rank, size);
    relax(u, here);
  }
  double all = total(u, here);
  spread(n);
  free(u);
  MPI_Finalize();
  return all != 0;
}
