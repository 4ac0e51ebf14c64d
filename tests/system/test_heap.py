"""Heap memory per call path of real programs: what they allocate is known in closed form."""

import ctypes.util
import math
import subprocess

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.mpi, pytest.mark.native]

ARRAYS = """
    import sys
    import numpy as np
    from mpi4py import MPI

    kept = []

    def keep(cells):
        kept.append(np.zeros(cells))

    def waste(cells):
        sum(np.ones(cells)[:1])

    def copies(number):
        return [MPI.COMM_WORLD.Dup() for _ in range(number)]

    for _ in range(10):
        keep(100_000 * (1 + MPI.COMM_WORLD.rank))
        waste(1_000_000)
    copies(8)
"""
OVERHEAD = 100_000  # Python's own objects, and what the allocator rounds up


def test_arrays_are_counted_where_they_are_made(bench):
    outcome = bench.measure("-n", 2, "--", bench.script(ARRAYS))

    assert outcome.code == 0, outcome.err
    for rank, expected in enumerate((8_000_000, 16_000_000)):
        grown = bench.values("app.py->keep", "heap_growth")[rank]
        assert expected <= grown <= expected + OVERHEAD
        allocated = bench.values("app.py->waste", "bytes_allocated")[rank]
        assert 80_000_000 <= allocated <= 80_000_000 + OVERHEAD
        assert abs(bench.values("app.py->waste", "heap_growth")[rank]) <= OVERHEAD
        peak = bench.values("app.py", "heap_peak")[rank]
        assert expected + 8_000_000 <= peak <= expected + 8_000_000 + (32 << 20)
    dup = next(p for p in bench.table().callpaths if p.name == "MPI_Comm_dup")
    assert min(bench.values(str(dup), "heap_growth")) > 0


MAPS = """
    import mmap
    import numpy as np

    kept = []

    def keep(pages):
        kept.append(mmap.mmap(-1, pages * 4096))

    def waste(pages):
        mmap.mmap(-1, pages * 4096).close()

    def grow():
        kept[0].resize(200 * 4096)

    def objects():
        kept.append([{} for _ in range(100_000)])

    keep(100)
    for _ in range(5):
        waste(1000)
    grow()
    objects()
"""


ARENA = 256 << 10  # bytes: small objects of CPython are mapped in multiples of it


def test_what_a_program_maps_by_itself_is_counted_where_that_is_asked_for(bench):
    script = bench.script(MAPS)

    plain = bench.measure("-n", 1, "--", script)
    assert plain.code == 0, plain.err
    before = bench.values("app.py->objects", "bytes_allocated")[0]
    outcome = bench.measure("-n", 1, "--heap", "mmap", "--", script)

    assert outcome.code == 0, outcome.err
    slack = 16_384  # the blocks of Python's own objects
    assert 0 <= bench.values("app.py->keep", "heap_growth")[0] - 100 * 4096 < slack
    assert 0 <= bench.values("app.py->waste", "bytes_allocated")[0] - 5000 * 4096 < 5 * slack
    assert abs(bench.values("app.py->waste", "heap_growth")[0]) < slack
    assert abs(bench.values("app.py->grow", "heap_growth")[0] - 100 * 4096) < slack
    arenas = bench.values("app.py->objects", "bytes_allocated")[0] - before
    whole = round(arenas / ARENA) * ARENA
    assert whole >= 4 << 20 and abs(arenas - whole) < slack


RANDOM = r"""
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
enum { PAGES = 256, PAGE = 4096 };
static char counted[PAGES], *place, *elsewhere;
static void set(int from, int pages, int is) { while (pages--) counted[from + pages] = is; }
static void maps(void) {
  for (int i = 0; i < 20000; i++) {
    int from = rand() % PAGES, pages = 1 + rand() % (PAGES - from), what = rand() % 5;
    if (pages > 9) pages = 9;
    int how = what == 0 ? PROT_READ : what == 1 ? PROT_NONE : PROT_READ | PROT_WRITE;
    char *at = place + from * PAGE;
    if (what == 4) munmap(at, pages * PAGE), set(from, pages, 0);
    else if (mmap(at, pages * PAGE, how, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at)
      set(from, pages, what > 1);
  }
  for (int from = 0; from < PAGES - 2; from++)
    if (counted[from] && counted[from + 1] && !counted[from + 2]) {
      int how = MREMAP_MAYMOVE | MREMAP_FIXED;
      if (mremap(place + from * PAGE, 2 * PAGE, 3 * PAGE, how, elsewhere) != elsewhere) abort();
      set(from, 2, 0), set(from, 0, 0);
      munmap(elsewhere + PAGE, PAGE);
      void *none = mmap(NULL, 1ul << 60, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (none != MAP_FAILED) abort();
      printf("2 pages elsewhere\n");
      return;
    }
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  place = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  elsewhere = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  maps();
  int pages = 2;
  for (int i = 0; i < PAGES; i++) pages += counted[i];
  printf("%d\n", pages);
  MPI_Finalize();
  return 0;
}
"""


def test_parts_of_mappings_come_and_go_one_by_one(bench):
    (bench.folder / "maps.c").write_text(RANDOM)
    words = ["-w", "-finstrument-functions", "maps.c", "-o", "maps"]
    subprocess.run([str(BINARIES[bench.mpi] / "mpicc"), *words], cwd=bench.folder, check=True)

    outcome = bench.measure("-n", 1, "--heap", "mmap", "--", "./maps")

    assert outcome.code == 0, outcome.err
    elsewhere, pages = outcome.out.splitlines()
    assert elsewhere == "2 pages elsewhere"
    assert abs(bench.values("maps->main->maps", "heap_growth")[0] - int(pages) * 4096) < 4096


def test_without_heap_the_program_has_its_own_allocator(bench):
    script = bench.script("block = bytearray(1 << 20)")

    with_heap, without = (bench.measure(*words, "--", script) for words in ((), ("--heap", "off")))

    assert (with_heap.code, without.code) == (0, 0), without.err
    assert "heap_peak" not in bench.table().values
    assert bench.values("app.py", "visits") == [1]


GROWS = r"""
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *blocks[1000];
static void *work(void *argument) {
  for (int i = 0; i < 1000; i++) blocks[i] = malloc(100);
  return argument;
}
int main(int argc, char **argv) {
  pthread_t thread;
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 3; i++) {
    pthread_create(&thread, NULL, work, NULL), pthread_join(thread, NULL);
    for (int j = 0; j < 1000; j++) free(blocks[j]);
  }
  char *block = malloc(1000000), *kept = malloc(500000);
  memset(block, 1, 1000000), memset(kept, 1, 500000);
  free(realloc(block, 3000000));
  MPI_Finalize();
  return kept[7] != 1;
}
"""
OWN = r"""
#include <stdint.h>
#include <string.h>
static char pool[128 << 20];
static size_t used;
void *aligned_alloc(size_t alignment, size_t bytes) {
  size_t at = __atomic_fetch_add(&used, bytes + alignment + 32, __ATOMIC_RELAXED);
  uintptr_t block = ((uintptr_t)pool + at + 16 + alignment - 1) / alignment * alignment;
  memcpy((void *)(block - 16), &bytes, sizeof bytes);
  return (void *)block;
}
void *malloc(size_t bytes) { return aligned_alloc(16, bytes); }
void *calloc(size_t number, size_t bytes) { return malloc(number * bytes); }
void free(void *block) { (void)block; }
void *realloc(void *block, size_t bytes) {
  size_t before = 0;
  if (block) memcpy(&before, (char *)block - 16, sizeof before);
  void *moved = malloc(bytes);
  return before ? memcpy(moved, block, before < bytes ? before : bytes) : moved;
}
int posix_memalign(void **block, size_t alignment, size_t bytes) {
  *block = aligned_alloc(alignment, bytes);
  return 0;
}
"""
FILL = r"""
#include <string.h>
void *__libc_malloc(size_t);
void *malloc(size_t bytes) {
  void *block = __libc_malloc(bytes);
  return block ? memset(block, 0x7f, bytes) : block;
}
"""


def measured(bench, *words, options=()):
    (bench.folder / "grows.c").write_text(GROWS)
    (bench.folder / "own.c").write_text(OWN)
    compiler = str(BINARIES[bench.mpi] / "mpicc")
    command = [compiler, "-w", "-pthread", "grows.c", *words, "-o", "grows"]
    done = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{words} cannot be linked here: {done.stderr[-200:]}")
    outcome = bench.measure("-n", 1, *options, "--", "./grows")
    assert outcome.code == 0, outcome.err


@plain_and_full("library", ["jemalloc", "tcmalloc_minimal"])
def test_the_programs_own_allocator_is_used_and_counted(bench, library):
    found = ctypes.util.find_library(library)
    if not found:
        pytest.skip(f"no lib{library}: apt install libjemalloc2 libtcmalloc-minimal4")

    measured(bench, f"-l:{found}")

    assert bench.values("grows", "heap_growth")[0] >= 500_000
    assert bench.values("grows", "heap_peak")[0] >= 3_500_000


def test_a_library_that_fills_the_blocks_of_the_allocator_is_used_and_counted(bench):
    """As that of OpenFOAM does."""
    (bench.folder / "fill.c").write_text(FILL)
    command = ["gcc", "-w", "-shared", "-fPIC", "-O2", "fill.c", "-o", "libfill.so"]
    subprocess.run(command, cwd=bench.folder, check=True)

    measured(bench, "-L.", "-Wl,--no-as-needed", "-lfill", "-Wl,-rpath,$ORIGIN")

    assert bench.values("grows", "heap_growth")[0] >= 500_000
    assert bench.values("grows", "heap_peak")[0] >= 3_500_000


@plain_and_full("library", ["jemalloc", "tcmalloc_minimal"])
def test_an_allocator_that_the_user_preloads_is_used_and_counted(bench, monkeypatch, library):
    found = ctypes.util.find_library(library)
    if not found:
        pytest.skip(f"no lib{library}: apt install libjemalloc2 libtcmalloc-minimal4")
    monkeypatch.setenv("LD_PRELOAD", found)

    measured(bench)

    assert bench.values("grows", "heap_growth")[0] >= 500_000
    assert bench.values("grows", "heap_peak")[0] >= 3_500_000


@plain_and_full("library", ["jemalloc", "tcmalloc_minimal"])
def test_an_allocator_that_is_linked_statically_stays_alone(bench, library):
    whole = ("-Wl,--whole-archive", f"-l:lib{library}.a", "-Wl,--no-whole-archive")

    measured(bench, *whole, "-lstdc++", "-lm", "-ldl")

    assert bench.values("grows", "visits") == [1]
    assert "heap_peak" not in bench.table().values


def test_threads_in_which_nothing_else_is_recorded_have_their_heap_and_no_time(bench):
    measured(bench, options=("--sample", "off"))

    assert 3000 <= bench.values("grows->(thread)", "allocations")[0] < 3100
    assert bench.values("grows->(thread)", "bytes_allocated")[0] >= 3000 * 104
    assert math.isnan(bench.values("grows->(thread)", "time")[0])


@pytest.mark.full
def test_an_allocator_inside_the_program_stays_alone(bench):
    measured(bench, "own.c")

    assert bench.values("grows", "visits") == [1]
    assert "heap_peak" not in bench.table().values


@pytest.mark.full
def test_a_program_with_the_address_sanitizer_runs_and_is_counted(bench, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")

    measured(bench, "-fsanitize=address")

    assert bench.values("grows", "heap_peak")[0] >= 3_500_000


UNCHANGED = """
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static char *volatile kept;

__attribute__((noinline)) void keep(size_t bytes) {
  kept = malloc(bytes);
  memset(kept, 1, bytes);
}

__attribute__((noinline)) int waste(size_t bytes) {
  char *volatile block = malloc(bytes);
  memset(block, 1, bytes);
  int last = block[bytes - 1];
  free(block);
  return last;
}

int main(int argc, char **argv) {
  int sum = 0, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  keep(50000 * size);
  for (int i = 0; i < 20; i++) sum += waste(200000);
  MPI_Finalize();
  free(kept);
  return sum != 20;
}
"""


def test_large_blocks_of_an_unchanged_program_belong_to_the_function_that_allocates(each_mpi):
    """Blocks from a page on, and their end; smaller ones count for the program."""
    bench = each_mpi
    (bench.folder / "unchanged.c").write_text(UNCHANGED)
    command = [str(BINARIES[bench.mpi] / "mpicc"), "-O2", "-w", "unchanged.c", "-o", "unchanged"]
    subprocess.run(command, cwd=bench.folder, env=bench.environment, check=True)

    outcome = bench.measure("-n", 2, "--", "./unchanged")

    assert outcome.code == 0, outcome.err
    for rank in range(2):
        grown = bench.values("unchanged->main->keep", "heap_growth")[rank]
        assert 100_000 <= grown <= 100_000 + 4096
        assert bench.values("unchanged->main->keep", "allocations")[rank] == 1
        assert bench.values("unchanged->main->waste", "allocations")[rank] == 20
        assert bench.values("unchanged->main->waste", "heap_growth")[rank] == 0
        allocated = bench.values("unchanged->main->waste", "bytes_allocated")[rank]
        assert 20 * 200_000 <= allocated <= 20 * (200_000 + 4096)
