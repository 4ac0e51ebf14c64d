/* Plants: a file per rank and step, a barrier per rank, a funnel whose data rank 0 writes,
   iterations that grow as sqrt(p), a broadcast by p - 1 messages. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
static int r, p;
__attribute__((noinline)) void own_file(int step) {
    char name[100]; snprintf(name, 100, "plant_own.%d.%d", r, step);
    FILE *f = fopen(name, "w"); fputs("hello\n", f); fclose(f);
}
__attribute__((noinline)) void in_turn(void) {
    for (int q = 0; q < p; q++) { MPI_Barrier(MPI_COMM_WORLD); }
}
__attribute__((noinline)) void gather_write(double *x, int n) {
    if (r) { MPI_Send(x, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD); return; }
    FILE *f = fopen("plant_all", "w");
    for (int q = 1; q < p; q++) { MPI_Recv(x, n, MPI_DOUBLE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); fwrite(x, 8, n, f); fflush(f); }
    fclose(f);
}
__attribute__((noinline)) double solve(double *x, int n) {
    double g = 0;
    for (int k = 0; k < (int)(12 * sqrt(p)); k++) {
        double s = 0; for (int i = 0; i < n; i++) s += x[i] * x[i];
        MPI_Allreduce(&s, &g, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    return g;
}
__attribute__((noinline)) void broadcast_by_hand(double *x, int n) {
    if (r == 0) for (int q = 1; q < p; q++) MPI_Send(x, n, MPI_DOUBLE, q, 5, MPI_COMM_WORLD);
    else MPI_Recv(x, n, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int c, char **v) {
    MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &p);
    int n = 3000; double *x = calloc(n, 8);
    for (int i = 0; i < 10; i++) { own_file(i); in_turn(); gather_write(x, n); x[0] = solve(x, n); broadcast_by_hand(x, n); }
    MPI_Finalize(); return 0;
}
