"""A fast part of the hostile programs; `python -m tests.system.hostile` runs all of them."""

from dataclasses import replace

import pytest

from tests.system.hostile.catalogue import PROGRAMS
from tests.system.hostile.matrix import Combination, run
from tests.system.hostile.program import Program

pytestmark = [pytest.mark.mpi, pytest.mark.native]

FAST = [program for program in PROGRAMS if program.is_fast]


@pytest.mark.parametrize("program", FAST, ids=[program.name for program in FAST])
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
