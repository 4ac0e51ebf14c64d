"""A fast part of the hostile programs; `python -m tests.system.hostile` runs all of them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.system.hostile.catalogue import PROGRAMS
from tests.system.hostile.matrix import Combination, run
from tests.system.hostile.program import Program

pytestmark = [pytest.mark.mpi, pytest.mark.native]

FAST = [program for program in PROGRAMS if program.is_fast]
PLAIN = {  # one of each kind
    "end c-exit",
    "looks around",
    "timer signals in C",
    "children of C",
    "MPI_Comm_spawn",
    "own variables in C",
    "another PMPI tool",
    "C: jumps-out-of-mpi",
    "interrupted: cancel",
    "interrupted: stay-open",
    "changes: filtered",
    "changes: dispatch",
    "changes: urgent-in-assembly",
    "Python: replaced",
    "C habit -g of 2: restored-masks",
    "rank of 2: small-threads",
}


def parameters() -> Iterator[object]:
    """The programs that are fast; those that are not in the plain suite need `--full`."""
    for program in FAST:
        marks = [] if program.name in PLAIN else [pytest.mark.full]
        yield pytest.param(program, id=program.name, marks=marks)


@pytest.mark.parametrize("program", list(parameters()))
def test_a_program_runs_as_it_does_without_insitu(bench, program: Program):
    bench = replace(bench, folder=bench.folder / "run")
    bench.folder.mkdir()

    result = run(Combination(program, bench, str(bench.python)))

    if result.skipped:
        pytest.skip(result.skipped)
    assert result.differences == ()


def test_the_catalogue_has_each_program_once():
    names = [program.name for program in PROGRAMS]

    assert len(set(names)) == len(names) >= 60
    assert {program.name for program in FAST} >= PLAIN
