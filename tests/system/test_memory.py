"""Memory of ranks and of MPI, and hardware counters, of real programs."""

import subprocess

import pytest

from insitu.workflows.doctor import counters
from tests.system.conftest import BINARIES

pytestmark = [pytest.mark.mpi, pytest.mark.native]

GROW = """
    from mpi4py import MPI

    block = bytearray(b"x" * (MPI.COMM_WORLD.rank + 1) * (40 << 20))
    copies = [MPI.COMM_WORLD.Dup() for _ in range(20)]
"""


def root(bench, metric):
    return bench.values("app.py", metric)


def test_memory_of_ranks_and_what_mpi_takes_of_it(each_mpi):
    outcome = each_mpi.measure("-n", 2, "--", each_mpi.script(GROW))

    assert outcome.code == 0, outcome.err
    grown, own, private = (
        root(each_mpi, name)[1] - root(each_mpi, name)[0]
        for name in ("memory_rss", "memory_pss", "memory_private")
    )
    assert all(35 << 20 < value < 45 << 20 for value in (grown, own, private))
    for rank in range(2):
        rss, peak, pss, shared = (
            root(each_mpi, f"memory_{name}")[rank] for name in ("rss", "rss_peak", "pss", "shared")
        )
        assert 0 < pss < rss <= peak
        assert 0 < shared < rss
        dup = next(p for p in each_mpi.table().callpaths if p.name == "MPI_Comm_dup")
        copies = each_mpi.values(str(dup), "heap_growth")[rank]
        assert copies < root(each_mpi, "memory_mpi")[rank] < 40 << 20  # without the program's own
    assert "memory_swap" in each_mpi.table().values


PHASES = """
    import insitu
    from mpi4py import MPI

    mega = (MPI.COMM_WORLD.rank + 1) << 20
    insitu.phase("assemble")
    kept = [bytearray(b"x" * 100) for _ in range(1000)]
    block = bytearray(b"x" * 24 * mega)
    insitu.phase("solve")
    for step in range(5):
        insitu.phase(step)
        other = bytearray(b"x" * 8 * mega)
        del other
    insitu.phase("write")
    del block
"""


def test_memory_of_a_phase_is_what_the_whole_rank_has_and_does_while_it_runs(bench):
    outcome = bench.measure("-n", 2, "--", bench.script(PHASES))

    assert outcome.code == 0, outcome.err
    for rank in range(2):
        mega, slack = (rank + 1) << 20, 1 << 20

        def of(phase, metric, rank=rank):
            return bench.values(f"app.py->(phase {phase})", metric)[rank]

        assert of("assemble", "heap_growth") == pytest.approx(24 * mega, abs=slack)
        assert of("solve", "heap_growth") == pytest.approx(0, abs=slack)
        assert of("write", "heap_growth") == pytest.approx(-24 * mega, abs=slack)
        assert of("solve", "bytes_allocated") == pytest.approx(80 * mega, abs=slack)
        assert 10 <= of("solve", "allocations") < 100
        before = of("assemble", "heap_peak") - 48 * mega  # the bytes and what is made of them
        assert of("solve", "heap_peak") - before == pytest.approx(40 * mega, abs=slack)
        for metric in ("memory_rss", "memory_pss", "memory_private"):
            freed = of("solve", metric) - of("write", metric)
            assert freed == pytest.approx(24 * mega, abs=4 << 20)
        assert of("solve", "memory_rss") < of("solve", "memory_rss_peak")
        assert of("assemble", "memory_swap") == 0
        assert bench.values("app.py", "heap_peak")[rank] < 100 * mega  # phases are no part of it


COMPILED = r"""
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
extern void insitu_phase(const char *name) __attribute__((weak));
static void phase(const char *name) { if (insitu_phase) insitu_phase(name); }
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  size_t bytes = (rank + 1) * (10ul << 20);
  phase("assemble");
  char *block = memset(malloc(bytes), 1, bytes);
  phase("solve");
  MPI_Barrier(MPI_COMM_WORLD);
  int one = block[7];
  phase("write");
  free(block);
  MPI_Finalize();
  return one - 1;
}
"""


@pytest.mark.full
def test_compiled_programs_name_their_phases_too_and_run_without_insitu(each_mpi):
    (each_mpi.folder / "steps.c").write_text(COMPILED)
    compiler = str(BINARIES[each_mpi.mpi] / "mpicc")
    subprocess.run([compiler, "-w", "steps.c", "-o", "steps"], cwd=each_mpi.folder, check=True)
    bare = each_mpi.execute([*each_mpi.mpiexec, "-n", "1", "./steps"])

    outcome = each_mpi.measure("-n", 2, "--", "./steps")

    assert (bare.code, outcome.code) == (0, 0), bare.err + outcome.err
    for rank in range(2):
        bytes_ = (rank + 1) * (10 << 20)
        grown = each_mpi.values("steps->(phase assemble)", "heap_growth")[rank]
        assert grown == pytest.approx(bytes_, abs=4096)
        assert each_mpi.values("steps->(phase solve)", "visits")[rank] == 1
        resident = (
            each_mpi.values(f"steps->(phase {name})", "memory_rss")[rank]
            for name in ("solve", "write")
        )
        assert next(resident) - next(resident) == pytest.approx(bytes_, abs=8 << 20)


def test_hardware_counters_are_there_where_the_kernel_grants_them_and_else_absent(bench):
    outcome = bench.measure("-n", 1, "--", bench.script("print(sum(range(1_000_000)))"))

    assert outcome.code == 0, outcome.err
    if counters().state == "ok":
        assert root(bench, "instructions")[0] > 1_000_000
        assert root(bench, "cycles")[0] > 0
    else:
        assert not {"instructions", "cycles"} & set(bench.table().values)
