/* Cells of a mesh have different numbers of unknowns; each rank needs that of its first unknown. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 20000

static int rank, size, repaired;

/* Degree of the polynomial in a cell: known to all ranks by a formula. */
static inline int degree(long cell, int step) {
  double s = sin(0.013 * cell + 0.1 * step);
  return 1 + (int)(3 * s * s);
}

static __attribute__((noinline)) long count_unknowns(long first, long last, int step) {
  long unknowns = 0;
  for (long cell = first; cell < last; cell++) unknowns += degree(cell, step) + 1;
  return unknowns;
}

static __attribute__((noinline)) long first_unknown(int step) {
  if (repaired) {
    long mine = count_unknowns((long)rank * CELLS, (long)(rank + 1) * CELLS, step), before = 0;
    MPI_Exscan(&mine, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return rank ? before : 0;
  }
  return count_unknowns(0, (long)rank * CELLS, step);
}

static __attribute__((noinline)) void assemble(double *diagonal, double *load, int step) {
  for (int c = 0; c < CELLS; c++) {
    int d = degree((long)rank * CELLS + c, step);
    diagonal[c] = 2.0 + d;
    load[c] = cos(0.01 * c) * d;
  }
}

static __attribute__((noinline)) double solve(double *u, const double *diagonal,
                                              const double *load) {
  double change = 0;
  for (int sweep = 0; sweep < 15; sweep++) {
    double ghost = 0;
    MPI_Sendrecv(&u[CELLS - 1], 1, MPI_DOUBLE, (rank + 1) % size, 3, &ghost, 1, MPI_DOUBLE,
                 (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    change = 0;
    for (int c = 0; c < CELLS; c++) {
      double before = c ? u[c - 1] : ghost, after = c < CELLS - 1 ? u[c + 1] : 0;
      double value = (load[c] + before + after) / diagonal[c];
      change += fabs(value - u[c]);
      u[c] = value;
    }
  }
  return change;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  repaired = argc > 1 && !strcmp(argv[argc - 1], "repaired");
  double *u = calloc(CELLS, sizeof *u), *diagonal = calloc(CELLS, sizeof *u);
  double *load = calloc(CELLS, sizeof *u);
  double change = 0;
  long offset = 0;
  for (int step = 0; step < 60; step++) {
    offset = first_unknown(step);
    assemble(diagonal, load, step);
    change = solve(u, diagonal, load);
    MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == size - 1) printf("offset %ld change %.3e\n", offset, change);
  MPI_Finalize();
}
