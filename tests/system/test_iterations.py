"""A program may end its main loop after the iterations that suffice [DET §3.3]."""

import pytest

from tests.support.parameters import first_plain
from tests.system.conftest import HERE
from tests.system.test_call_paths import make

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PYTHON = """
import insitu
from mpi4py import MPI

made = 0
for step in range(40):
    insitu.phase("named")  # no iteration
    if insitu.phase(step):
        break
    made += 1
    MPI.COMM_WORLD.allreduce(step)  # a rank that leaves alone would leave the others waiting
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    print("made", made)
"""
COMPILED = """
#include <mpi.h>
#include <stdio.h>
#include "insitu.h"
int main(int count, char **words) {
  int made = 0, rank;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 40; i++) {
    if (insitu_iteration()) break;
    made++;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (!rank) printf("made %d\\n", made);
  return MPI_Finalize();
}
"""


def codes(bench):
    return {finding.code for finding in bench.records()[-1].findings}


@pytest.fixture(params=first_plain(["python", "compiled"]))
def command(request, bench):
    if request.param == "python":
        (bench.folder / "app.py").write_text(PYTHON)
        return ["app.py"]
    return build(bench)


def build(bench):
    (bench.folder / "app.c").write_text(COMPILED)
    header = HERE / "insitu" / "collectors"
    make(bench, "-O1", f"-I{header}", bench.folder / "app.c", "-o", "app")
    return ["./app"]


@pytest.mark.parametrize("command", ["python", "compiled"], indirect=True)
def test_all_ranks_leave_the_loop_after_the_same_iterations(bench, command):
    outcome = bench.measure("-n", 2, "--iterations", 5, "--", *command)

    assert outcome.code == 0, outcome.err
    assert outcome.out == "made 5\n"
    assert "iterations-limited" in codes(bench)


@pytest.mark.full
@pytest.mark.parametrize("each_mpi", ["openmpi"], indirect=True)
def test_ranks_of_open_mpi_leave_the_loop_after_the_same_iterations(each_mpi):
    outcome = each_mpi.measure("-n", 2, "--iterations", 5, "--", *build(each_mpi))

    assert outcome.code == 0, outcome.err
    assert outcome.out == "made 5\n"
    assert "iterations-limited" in codes(each_mpi)


@pytest.mark.full
def test_without_the_option_all_iterations_are_made(bench, command):
    outcome = bench.measure("-n", 2, "--", *command)

    assert outcome.out == "made 40\n"
    assert not codes(bench) & {"iterations-limited", "iterations-unlimited"}


@pytest.mark.full
def test_a_limit_that_is_not_reached_is_reported(bench, command):
    outcome = bench.run("-n", 1, "-q", "--iterations", 50, "--", *command)

    assert outcome.out == "made 40\n"
    assert "iterations-unlimited" in codes(bench)


def test_it_needs_a_number(bench):
    outcome = bench.run("--iterations", "few", "--", "app.py")

    assert outcome.code == 2
    assert "'few' is not a number of iterations" in outcome.err


SAMPLED = """
#include <mpi.h>
#include <time.h>
#define KEPT __attribute__((noinline))
static volatile double sink;
KEPT static void work(long n) {
  double x = 1;
  for (long i = 0; i < n; i++) x = x * 1.0000001 + 1e-9;
  sink = x;
}
KEPT static void solve(double seconds) {
  for (clock_t end = clock() + seconds * CLOCKS_PER_SEC; clock() < end;) work(100000);
}
KEPT static void prepare(double seconds) {
  for (clock_t end = clock() + seconds * CLOCKS_PER_SEC; clock() < end;) work(100000);
}
int main(int count, char **words) {
  MPI_Init(&count, &words);
  prepare(0.5);
  solve(0.5);
  MPI_Finalize();
}
"""


def test_functions_of_a_compiled_program_that_are_not_selected_count_for_their_callers(bench):
    """[DET §3.3]: only relevant functions are rows."""
    (bench.folder / "app.c").write_text(SAMPLED)
    make(bench, "-O1", bench.folder / "app.c", "-o", "app")
    (bench.folder / "dependencies.json").write_text(
        """{"parameters": ["n"], "callpaths": [
            {"callpath": "main->solve", "nests": [{"n": "1"}]},
            {"callpath": "main->prepare", "nests": []}]}""",
    )

    outcome = bench.measure("-n", 1, "--only", "dependencies.json", "--", "./app")

    assert outcome.code == 0, outcome.err
    assert {str(path) for path in bench.table().callpaths if "MPI_" not in str(path)} == {
        "app",
        "app->main",
        "app->main->solve",
    }
    assert 0.3 < bench.values("app->main->solve", "time")[0] < 0.8
    assert 0.3 < bench.values("app->main", "time_exclusive")[0] < 0.8
    assert 0.7 < bench.values("app->main", "time")[0] < 1.4
