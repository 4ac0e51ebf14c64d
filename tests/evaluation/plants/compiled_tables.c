/* Plants: a block per peer, a window of p slots, a communicator per rank, a search over all data,
   volume of an all-to-all, a funnel of Isend and Irecv. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
static int r, p;
struct peer { char *buffer; };
__attribute__((noinline)) struct peer *make_peers(void) {
    struct peer *all = malloc(p * sizeof *all);
    for (int q = 0; q < p; q++) { all[q].buffer = malloc(100000); memset(all[q].buffer, 1, 100000); }
    return all;
}
__attribute__((noinline)) void split_levels(void) {
    for (int q = 0; q < p; q++) { MPI_Comm c; MPI_Comm_dup(MPI_COMM_WORLD, &c); MPI_Comm_free(&c); }
}
__attribute__((noinline)) void exchange_counts(void) {
    int *s = calloc(p, 4), *t = calloc(p, 4);
    MPI_Alltoall(s, 1, MPI_INT, t, 1, MPI_INT, MPI_COMM_WORLD);
    free(s); free(t);
}
__attribute__((noinline)) void shuffle(void) {
    int *n = malloc(4 * p), *d = malloc(4 * p);
    for (int q = 0; q < p; q++) { n[q] = 500; d[q] = 500 * q; }
    double *a = calloc(500 * p, 8), *b = calloc(500 * p, 8);
    MPI_Alltoallv(a, n, d, MPI_DOUBLE, b, n, d, MPI_DOUBLE, MPI_COMM_WORLD);
    free(a); free(b); free(n); free(d);
}
__attribute__((noinline)) double search(double *x, int n) {
    double near = 0;
    for (int i = 0; i < n; i++) for (int j = 0; j < n * p; j++) near += fabs(x[i] - x[j % n]) < 0.1;
    return near;
}
__attribute__((noinline)) void collect(double *x, int n) {
    if (r == 0) {
        MPI_Request *q = malloc(p * sizeof *q); double *all = malloc(8L * n * p);
        for (int s = 1; s < p; s++) MPI_Irecv(all + (long)s * n, n, MPI_DOUBLE, s, 3, MPI_COMM_WORLD, &q[s]);
        MPI_Waitall(p - 1, q + 1, MPI_STATUSES_IGNORE);
        free(q); free(all);
    } else { MPI_Request q; MPI_Isend(x, n, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, &q); MPI_Wait(&q, MPI_STATUS_IGNORE); }
}
__attribute__((noinline)) void halo(double *x, int n) {
    MPI_Sendrecv(x, n / 2, MPI_DOUBLE, (r + 1) % p, 1, x + n / 2, n / 2, MPI_DOUBLE, (r + p - 1) % p, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
__attribute__((noinline)) double *allocate_window(MPI_Win *w) {
    double *slots;
    MPI_Win_allocate(8L * 2000 * p, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &slots, w);
    return slots;
}
int main(int c, char **v) {
    MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &p);
    int n = 2000; double *x = calloc(n, 8), s = 0;
    struct peer *peers = make_peers();
    MPI_Win w; double *slots = allocate_window(&w); slots[0] = 0;
    for (int i = 0; i < 10; i++) { s += search(x, n); halo(x, n); shuffle(); exchange_counts(); split_levels(); collect(x, n); }
    MPI_Win_free(&w); x[0] = s + peers[0].buffer[0];
    MPI_Finalize(); return x[0] < 0;
}
