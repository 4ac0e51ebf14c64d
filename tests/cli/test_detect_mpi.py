"""`insitu detect` with the examples under mpiexec, against truth written by hand."""

import json
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
