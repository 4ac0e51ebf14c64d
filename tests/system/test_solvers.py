"""The examples twogrid.py and sweep.py: every rank visits what their docstrings derive."""

from pathlib import Path

import pytest

from tests.support.parameters import plain_and_full

pytestmark = pytest.mark.mpi

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
P, T, D = 2, 5, 3  # ranks, cycles or steps, sets of directions
TWOGRID = {
    "start": 1,
    "cycle": T,
    "cycle->smooth": 2 * T,
    "cycle->smooth->exchange": 2 * T,
    "cycle->smooth->exchange->MPI_Sendrecv": 4 * T,
    "cycle->residual": T,
    "cycle->residual->exchange": T,
    "cycle->residual->exchange->MPI_Sendrecv": 2 * T,
    "cycle->restrict": T,
    "cycle->coarse_solve": T,
    "cycle->coarse_solve->MPI_Allgather": T,
    "cycle->prolong": T,
    "norm": 1,
    "norm->residual": 1,
    "norm->MPI_Allreduce": 1,
}
SWEEP = {
    "step": T,
    "step->moments": T,
    "step->follow": D * T,
    "step->follow->sweep": D * T,
    "step->follow->MPI_Recv": D * T,
    "step->follow->MPI_Send": D * T,
    "step->balance": T,
    "step->balance->MPI_Allgather": T,
}


@pytest.mark.full
@plain_and_full(
    ("name", "words", "visits"),
    [
        ("twogrid.py", ("--vol", 64, "--cubes", 16, "--cycles", T), TWOGRID),
        ("sweep.py", ("--zones", 8, "--dirsets", D, "--steps", T), SWEEP),
    ],
)
def test_visits_are_those_of_the_docstring(bench, name, words, visits):
    outcome = bench.measure("-n", P, "--budget", "off", "--", EXAMPLES / name, *words)
    assert outcome.code == 0, outcome.err
    table = bench.table()
    rows = dict(zip(map(str, table.callpaths), table.values["visits"], strict=True))
    found = {path: list(rows[f"{name}->main->{path}"]) for path in visits}
    assert found == {path: [count] * P for path, count in visits.items()}
