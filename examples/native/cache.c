/* Follow a chain of pointers through a table that grows beyond a cache: the case study of [SEG §4.2].
 *
 *     mpicc -O2 -o cache cache.c
 *     for kib in 256 512 640 768 896 1024 1536 2048 2560 3072 3584; do
 *       insitu run --param kib=$kib -- ./cache $kib
 *     done
 *     insitu models cache.insitu --metric cpu_time
 *
 * Argument: size of the table in KiB. Every run makes 8,000,000 accesses, one after the other, to lines in random
 * order, so that no prefetcher knows the next one: counts are constant, and only the time of an access changes. It is
 * that of the second-level cache up to its size, and that of the third level or of memory beyond, so the models of the
 * CPU time have a change point at the size of the second-level cache (`lscpu` prints it, as the sum over all cores).
 * Choose at least five sizes on each side.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES = 64, ACCESSES = 8000000 };

struct line {
  struct line *next;
  char rest[LINE_BYTES - sizeof(struct line *)];
};

/* Link all lines in a random order, which is the same in each run. */
static void link_lines(struct line *lines, size_t count) {
  size_t *order = malloc(count * sizeof *order);
  unsigned long long state = 88172645463325252ull; /* xorshift */
  for (size_t i = 0; i < count; i++) order[i] = i;
  for (size_t i = count - 1; i > 0; i--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    size_t other = state % (i + 1), moved = order[i];
    order[i] = order[other];
    order[other] = moved;
  }
  for (size_t i = 0; i < count; i++) lines[order[i]].next = &lines[order[(i + 1) % count]];
  free(order);
}

static struct line *follow(struct line *line) {
  for (int i = 0; i < ACCESSES; i++) line = line->next;
  return line;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  size_t kib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  size_t count = kib * 1024 / LINE_BYTES;
  struct line *lines = count ? aligned_alloc(LINE_BYTES, count * sizeof *lines) : NULL;
  if (!lines) {
    fprintf(stderr, "usage: cache KIB\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  link_lines(lines, count);
  printf("line %td is the last one\n", follow(lines) - lines);
  free(lines);
  MPI_Finalize();
  return 0;
}
