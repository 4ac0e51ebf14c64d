"""Regions that compiled programs mark stand between their functions, and nothing can spoil them."""

import shutil
import subprocess

import pytest

from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES, HERE
from tests.system.test_call_paths import barriers, make

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAM = HERE / "tests" / "system" / "programs" / "regions.c"
INCLUDE = HERE / "collectors"  # insitu.h
FRAME_POINTERS = ("-O1", "-no-pie", "-fno-pie", "-fno-omit-frame-pointer")
LONG = "x" * 1000  # longer names are cut
BARRIERS = {
    "main->nested": 2,
    "main->nested->outer": 1,
    "main->nested->outer->barrier": 1,
    "main->nested->outer->inner->inner->barrier": 2,
    "main->recursion->level->barrier": 1,
    "main->sizes->sizes->barrier": 3,
    "main->jumps->leave->left->barrier": 2,
    "main->jumps->barrier": 1,
    "main->names->buffer 0->barrier": 2,
    "main->names->buffer 1->barrier": 1,
    "main->names->(unnamed)->barrier": 1,
    "main->unbalanced->barrier": 1,
    "main->deep->barrier": 1,
    "main->threads->threads->barrier": 1,
    "main->threads->threads->(thread)->work->of a thread->barrier": 2,
    "main->threads->threads->(thread)->work->of a thread->never ended->barrier": 2,
    "main->children->children->barrier": 1,
}
TIMERS = {
    "main->timers->barrier": 1,
    "main->timers->start_timer->timer->barrier": 2,
    "main->timers->start_timer->timer->second timer->barrier": 1,
}
REGIONS = {
    "outer": 1,
    "inner": 2,
    "timer": 1,
    "second timer": 1,
    "level": 4,
    "sizes": 3,
    "left": 1,
    "buffer 0": 2,
    "buffer 1": 1,
    "(unnamed)": 1,
    LONG: 2,
    "deep": 2000,
    "threads": 1,
    "of a thread": 2,
    "never ended": 2,
    "children": 1,
}
TRUNCATED = "978 call paths or frames"  # of the 2,000 nested regions


def values(bench, metric):
    """The values of the last run's first rank, by call path without the program."""
    table = bench.table()
    return {
        str(path).partition("->")[2]: float(table.values[metric][row][0])
        for row, path in enumerate(table.callpaths)
    }


def region_visits(bench):
    counts = {}
    for path, visits in values(bench, "visits").items():
        name = path.rpartition("->")[2]
        if visits > 0 and name in REGIONS and path != "main->nested->outer->inner":
            counts[name] = visits
    return counts


@pytest.mark.parametrize(
    ("each_mpi", "compiler", "flags"),
    [
        ("mpich", "gcc", ("-O2",)),
        pytest.param("mpich", "gcc", FRAME_POINTERS, marks=pytest.mark.full),
        pytest.param("openmpi", "clang", ("-O0",), marks=pytest.mark.full),
        pytest.param("openmpi", "gcc", ("-O2",), marks=pytest.mark.full),
        pytest.param("openmpi", "gcc", FRAME_POINTERS, marks=pytest.mark.full),
        pytest.param("mpich", "clang", ("-O0",), marks=pytest.mark.full),
    ],
    indirect=["each_mpi"],
)
def test_regions_are_rows_between_the_function_that_began_them_and_those_called_since(
    each_mpi, compiler, flags
):
    words = (*flags, "-fno-optimize-sibling-calls", "-I", INCLUDE, PROGRAM, "-o", "app")
    make(each_mpi, *words, "-lpthread", compiler=compiler)
    bare = each_mpi.execute([*each_mpi.mpiexec, "-n", "1", "./app"])

    outcome = each_mpi.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (bare.code, bare.out) == (0, "done\n")
    assert barriers(each_mpi) == BARRIERS | TIMERS
    assert region_visits(each_mpi) == REGIONS
    texts = {finding.code: finding.text for finding in each_mpi.records()[0].findings}
    assert texts["rows-truncated"].startswith(TRUNCATED)


@pytest.mark.full
def test_regions_of_an_instrumented_build_stand_at_the_same_call_paths(bench):
    flags = ("-O2", "-finstrument-functions", "-I", INCLUDE)
    make(bench, *flags, PROGRAM, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--", "./app")

    assert (outcome.code, outcome.out) == (0, "done\n"), outcome.err
    paths = barriers(bench)
    # `start_timer` has a frame of its own there, which lasts as long as the region.
    assert {path: paths.get(path) for path in BARRIERS if "jumps" not in path} == {
        path: count for path, count in BARRIERS.items() if "jumps" not in path
    }
    assert region_visits(bench) == REGIONS


def test_samples_in_a_region_stand_below_it(bench):
    make(bench, "-O2", "-I", INCLUDE, PROGRAM, "-o", "app", "-lpthread")

    outcome = bench.measure("-n", 1, "--", "./app", "samples")

    assert outcome.code == 0, outcome.err
    times = values(bench, "time")
    # The function takes 0.4 s of CPU time outside and 0.8 s inside. Each is a number of samples.
    assert times["main->solve->compute"] == pytest.approx(0.4, rel=0.3)
    assert times["main->solve->solve it->compute"] == pytest.approx(0.8, rel=0.2)
    assert times["main->solve->solve it"] > 0.8
    assert values(bench, "time_exclusive")["main->solve->solve it"] >= 0


CPP = r"""
#include "insitu.h"
#include <mpi.h>
#include <stdexcept>
#include <thread>
__attribute__((noinline)) static void fail(int level) {
  insitu::region region("fails");
  MPI_Barrier(MPI_COMM_WORLD);
  if (level == 0) throw std::runtime_error("expected");
  fail(level - 1);
}
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  insitu::region all("all");
  try { fail(3); } catch (const std::exception &) { MPI_Barrier(MPI_COMM_WORLD); }
  std::thread([] { insitu::region region("of a thread"); }).join();
  MPI_Finalize();
}
"""


@plain_and_full("level", ["-O0", "-O2"])
def test_a_region_of_cpp_ends_when_an_exception_leaves_it(bench, level):
    bench.script(CPP, "app.cpp")
    compiler = str(BINARIES[bench.mpi] / "mpicxx")
    words = [compiler, level, "-I", str(INCLUDE), "app.cpp", "-o", "app", "-pthread"]
    done = subprocess.run(words, cwd=bench.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    outcome = bench.measure("-n", 2, "--", "./app")

    assert outcome.code == 0, outcome.err
    assert barriers(bench) == {"main->all": 1, "main->all->fail->fails": 4}
    visits = values(bench, "visits")
    assert visits["main->all->fail->fails"] == 4
    assert [count for path, count in visits.items() if path.endswith("->of a thread")] == [1]


FORTRAN = """
module plate
  interface
    subroutine exchange() bind(c)
    end subroutine
  end interface
contains
  subroutine relax(times)
    use insitu, only: insitu_region_begin, insitu_region_end
    integer :: times
    do times = 1, 3
      call insitu_region_begin("relax  ")
      call exchange()
      call insitu_region_end()
    end do
    call insitu_region_end()
    call exchange()
    times = times + 1
  end subroutine
end module
subroutine relax_all() bind(c, name="relax")
  use plate
  integer :: times
  call relax(times)
  if (times == 0) print *, times
end subroutine
"""
CALLER = r"""
#include <mpi.h>
extern void relax(void);
static volatile int sink;
void exchange(void) { MPI_Barrier(MPI_COMM_WORLD), sink++; }
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  relax();
  MPI_Finalize();
  return 0;
}
"""


@plain_and_full("level", ["-O0", "-O2"])
def test_regions_of_fortran_stand_below_the_procedure_that_began_them(bench, level):
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran: apt-get install gfortran")
    bench.script(FORTRAN, "plate.f90")
    bench.script(CALLER, "app.c")
    words = ["gfortran", level, "-fno-inline", "-c", str(INCLUDE / "insitu.f90"), "plate.f90"]
    subprocess.run(words, cwd=bench.folder, check=True, capture_output=True)
    make(bench, "-O2", "app.c", "insitu.o", "plate.o", "-o", "app", "-lgfortran")
    bare = bench.execute([*bench.mpiexec, "-n", "1", "./app"])

    outcome = bench.measure("-n", 1, "--", "./app")

    assert bare.code == outcome.code == 0, outcome.err
    relax = "main->relax->plate::relax"
    assert barriers(bench) == {f"{relax}->relax->exchange": 3, f"{relax}->exchange": 1}
    assert values(bench, "visits")[f"{relax}->relax"] == 3
