/* No plant: a halo, a reduction, blocks that are freed, a line of rank 0 in each step. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int r, p;
__attribute__((noinline)) void halo(double *x, int n) {
    MPI_Request q[4]; int k = 0;
    if (r > 0) { MPI_Irecv(x, n, MPI_DOUBLE, r - 1, 0, MPI_COMM_WORLD, &q[k++]); MPI_Isend(x + n, n, MPI_DOUBLE, r - 1, 0, MPI_COMM_WORLD, &q[k++]); }
    if (r < p - 1) { MPI_Irecv(x + 2 * n, n, MPI_DOUBLE, r + 1, 0, MPI_COMM_WORLD, &q[k++]); MPI_Isend(x + n, n, MPI_DOUBLE, r + 1, 0, MPI_COMM_WORLD, &q[k++]); }
    MPI_Waitall(k, q, MPI_STATUSES_IGNORE);
}
__attribute__((noinline)) double step(double *x, int n) {
    double *t = malloc(8L * n), s = 0, g;
    for (int k = 0; k < 200; k++) for (int i = 0; i < n; i++) { t[i] = x[i] * 0.5; s += t[i]; }
    free(t);
    MPI_Allreduce(&s, &g, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return g;
}
int main(int c, char **v) {
    MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &p);
    int n = 2000; double *x = calloc(3 * n, 8);
    for (int i = 0; i < 30; i++) { halo(x, n); double g = step(x, n); if (r == 0) { printf("%d %g\n", i, g); fflush(stdout); } }
    MPI_Finalize(); return 0;
}
