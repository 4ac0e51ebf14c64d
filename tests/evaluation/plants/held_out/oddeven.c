/* Keys are sorted by odd-even transposition: as many rounds as ranks. Repaired: buckets by splitters
 * that all ranks know, one exchange with the neighbours. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 4000, STEPS = 20 };

static int compare_keys(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

void keep_half(int *mine, const int *theirs, int *merged, int low) {
  int i = low ? 0 : KEYS - 1, j = i;
  if (low) {
    for (int k = 0; k < KEYS; k++) merged[k] = mine[i] <= theirs[j] ? mine[i++] : theirs[j++];
  } else {
    for (int k = KEYS - 1; k >= 0; k--) merged[k] = mine[i] > theirs[j] ? mine[i--] : theirs[j--];
  }
  memcpy(mine, merged, KEYS * sizeof(int));
}

void sort_blocks(int *mine, int *theirs, int *merged, int rank, int size) {
  qsort(mine, KEYS, sizeof(int), compare_keys);
  for (int round = 0; round < size; round++) {
    int partner = (round + rank) % 2 ? rank - 1 : rank + 1;
    if (partner < 0 || partner >= size) continue;
    MPI_Sendrecv(mine, KEYS, MPI_INT, partner, round, theirs, KEYS, MPI_INT, partner, round, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    keep_half(mine, theirs, merged, rank < partner);
  }
}

void sort_nearby(int *mine, int *theirs, int rank, int size) {
  int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  qsort(mine, KEYS, sizeof(int), compare_keys);
  MPI_Sendrecv(mine, KEYS, MPI_INT, right, 0, theirs, KEYS, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

double deposit(const int *keys, double *cells, int n) {
  double sum = 0;
  for (int sweep = 0; sweep < 60; sweep++)
    for (int i = 0; i < n; i++) cells[i] = 0.5 * cells[i] + (keys[i] & 1023) * 1e-3;
  for (int i = 0; i < n; i++) sum += cells[i];
  return sum;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, repaired = argc > 1 && !strcmp(argv[1], "repaired");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int *mine = malloc(KEYS * sizeof(int)), *theirs = malloc(KEYS * sizeof(int));
  int *merged = malloc(KEYS * sizeof(int));
  double *cells = calloc(KEYS, sizeof(double)), sum = 0, total;
  unsigned state = 17u * rank + 3;
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < KEYS; i++) {
      state = state * 1664525u + 1013904223u;
      mine[i] = state >> 8;
    }
    if (repaired) sort_nearby(mine, theirs, rank, size);
    else sort_blocks(mine, theirs, merged, rank, size);
    for (int k = 0; k < 10; k++) sum += deposit(mine, cells, KEYS);
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return total < 0;
}
