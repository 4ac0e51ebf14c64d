"""`insitu detect` with the examples under mpiexec, against truth written by hand."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mpi

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))

TWOGRID = {  # read off the program: every call path that depends on anything
    "start": {"p", "vol"},
    "cycle->smooth": {"p", "vol"},
    "cycle->residual": {"p", "vol"},
    "cycle->restrict": {"p", "vol", "cubes"},
    "cycle->coarse_solve": {"cubes"},
    "cycle->coarse_solve->MPI_Allgather": {"p", "cubes"},
    "cycle->prolong": {"p", "vol", "cubes"},
    "norm": {"p", "vol"},
    "norm->residual": {"p", "vol"},
    "norm->MPI_Allreduce": {"p"},
}
SWEEP = {
    "": {"dirsets"},
    "step": {"dirsets"},
    "step->moments": {"dirsets"},
    "step->follow": {"dirsets"},
    "step->follow->sweep": {"dirsets"},
    "step->follow->MPI_Recv": {"dirsets"},
    "step->follow->MPI_Send": {"dirsets"},
    "step->balance": {"p"},
    "step->balance->MPI_Allgather": {"p"},
}

RING_C = """
#include <mpi.h>
#include <stdlib.h>
static void exchange(double *row, double *halo, int n, int rank, int size) {
  MPI_Sendrecv(row, n, MPI_DOUBLE, (rank + 1) % size, 0, halo, n, MPI_DOUBLE,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void send_to_the_last(double *row, int rank, int size) {
  if (size > 1 && rank == 0) MPI_Send(row, 4, MPI_DOUBLE, size - 1, 1, MPI_COMM_WORLD);
  if (size > 1 && rank == size - 1)
    MPI_Recv(row, 4, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void collect(double *row, int size) {
  double *all = malloc(4 * size * sizeof *all);
  MPI_Allgather(row, 4, MPI_DOUBLE, all, 4, MPI_DOUBLE, MPI_COMM_WORLD);
  free(all);
}
int main(int argc, char **argv) {
  int rank, size, n = atoi(argv[1]), steps = atoi(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *row = calloc(n, sizeof *row), *halo = calloc(n, sizeof *halo);
  MPI_Bcast(row, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int step = 0; step < steps; step++) {
    exchange(row, halo, n, rank, size);
    collect(row, size);
  }
  send_to_the_last(row, rank, size);
  MPI_Finalize();
}
"""
RING = {  # every MPI call that moves data, with what its bytes or ranks depend on
    "main->MPI_Bcast": {"p", "n"},
    "main->exchange->MPI_Sendrecv": {"n", "steps"},
    "main->collect->MPI_Allgather": {"p", "steps"},
    "main->send_to_the_last->MPI_Send": {"p"},
    "main->send_to_the_last->MPI_Recv": {"p"},
}


def detect(insitu, params, name, *words):
    given = [word for param in params for word in ("--param", param)]
    program = (MPIEXEC, "-n", "{p}", sys.executable, str(EXAMPLES / name), *words)
    answer = insitu("detect", *given, "--json", "--", *program)
    assert answer.code == 0, answer.err
    rows = {row["callpath"]: row for row in map(json.loads, answer.lines)}
    found = {path: set(row["parameters"]) for path, row in rows.items() if row["parameters"]}
    return rows, found


def under_main(name, truth):
    return {"->".join(filter(None, (name, "main", path))): set(of) for path, of in truth.items()}


@pytest.mark.full
def test_two_grid_solver_has_its_dependencies_and_no_other(insitu):
    params = ("p=1,2,4", "vol=48,96,144", "cubes=8,12,16")
    words = ("--vol", "{vol}", "--cubes", "{cubes}", "--cycles", "2")
    rows, found = detect(insitu, params, "twogrid.py", *words)
    assert found == under_main("twogrid.py", TWOGRID)
    for path, row in rows.items():
        multiplied = [set(nest) for nest in row["nests"]]
        assert not any({"vol", "cubes"} <= nest for nest in multiplied), path  # they only add up
    assert rows["twogrid.py->main->cycle->smooth"]["nests"] == [{"p": "-1", "vol": "1"}]


def test_sweep_needs_five_runs_as_in_the_paper(insitu):
    """[DET §5.2]: nothing depends on sets of directions and on ranks."""
    words = ("--zones", "8", "--steps", "3", "--dirsets", "{dirsets}")
    _, found = detect(insitu, ("p=1,2,4", "dirsets=2,4,6"), "sweep.py", *words)
    assert found == under_main("sweep.py", SWEEP)

    levels = ("--levels", "p=8..128:5", "--levels", "dirsets=8..128:5")
    design = insitu("design", "dependencies.json", *levels, "--json")
    planned = [json.loads(line) for line in design.lines]
    assert [row["check"] for row in planned] == [False] * 5 + [True] * 2


@pytest.mark.native
def test_bytes_that_a_compiled_program_passes_to_mpi_are_counted(insitu, tmp_path):
    """The compiler's counters show lines; how much a call moves is in its arguments."""
    if shutil.which("gcov") is None:
        pytest.skip("no gcov on this machine")
    (tmp_path / "ring.c").write_text(RING_C)
    compiler = str(Path(MPIEXEC).with_name("mpicc"))
    flags = ("-g", "-O0", "--coverage")
    subprocess.run([compiler, *flags, "ring.c", "-o", "ring"], cwd=tmp_path, check=True)
    params = ("p=1,2,3", "n=16,48,80", "steps=3,6,9")
    given = [word for param in params for word in ("--param", param)]

    answer = insitu(
        "detect", *given, "--json", "--", MPIEXEC, "-n", "{p}", "./ring", "{n}", "{steps}"
    )

    assert answer.code == 0, answer.err
    rows = [json.loads(line) for line in answer.lines]
    calls = {row["callpath"]: row for row in rows if "MPI_" in row["callpath"]}
    assert {path: set(row["parameters"]) for path, row in calls.items()} == {
        f"ring->{path}": parameters for path, parameters in RING.items()
    }
    sendrecv = calls["ring->main->exchange->MPI_Sendrecv"]
    assert {"n": "1", "steps": "1"} in sendrecv["nests"]
    loop = json.loads((tmp_path / "dependencies.json").read_text())["iteration"]
    assert loop == "steps"


SPLIT_C = """
#include <mpi.h>
#include <stdlib.h>
static double work(int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += i;
  return sum;
}
int main(int argc, char **argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double sum = work(atoi(argv[1]) / size);
  MPI_Finalize();
  return sum < 0;
}
"""


@pytest.mark.native
def test_a_program_that_a_script_starts_is_counted_rank_by_rank(insitu, tmp_path):
    """In weak scaling a script computes the size of the problem."""
    if shutil.which("gcov") is None:
        pytest.skip("no gcov on this machine")
    (tmp_path / "split.c").write_text(SPLIT_C)
    compiler = str(Path(MPIEXEC).with_name("mpicc"))
    subprocess.run([compiler, "--coverage", "split.c", "-o", "split"], cwd=tmp_path, check=True)
    (tmp_path / "weak.sh").write_text(f"exec {MPIEXEC} -n $1 ./split $((100 * $1 * $2))\n")
    params = ("--param", "p=1,2,4", "--param", "n=1,2,3")

    answer = insitu("detect", *params, "--json", "--", "sh", "weak.sh", "{p}", "{n}")

    assert answer.code == 0, answer.err
    rows = {row["callpath"]: row for row in map(json.loads, answer.lines)}
    assert rows["work"]["nests"] == [{"n": "1"}]  # not p: the sum over ranks would grow with it


def test_labels_do_not_follow_the_words_of_a_script(insitu, tmp_path):
    (tmp_path / "run.sh").write_text("exec printf %s $1\n")

    answer = insitu("detect", "--taint", "--param", "n=1,2,3", "--", "sh", "run.sh", "{n}")

    assert answer.code == 2
    assert "--taint follows values through Python programs" in answer.err


def test_a_script_that_starts_a_program_without_counters(insitu, tmp_path):
    (tmp_path / "run.sh").write_text("exec printf %s $1\n")

    answer = insitu("detect", "--param", "n=1,2,3", "--", "sh", "run.sh", "{n}")

    assert answer.code == 6
    assert "counted no function of what sh starts: build the program with --coverage" in answer.err
