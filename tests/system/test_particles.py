"""The example particles.py: its three limits are found, and none once it is repaired."""

from pathlib import Path

import pytest

from insitu.workflows import diagnose
from tests.system.conftest import Bench

pytestmark = pytest.mark.mpi

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PARTICLES = EXAMPLES / "particles.py"
SCALES = (2, 3, 4, 5, 6)


def line_of(function: str) -> int:
    lines = PARTICLES.read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(f"def {function}("))


@pytest.mark.full
def test_the_three_limits_are_found_at_their_lines(bench: Bench):
    outcomes = bench.measure_all(("-n", p, "--", PARTICLES) for p in SCALES)
    assert [outcome.code for outcome in outcomes] == [0] * len(SCALES)

    diagnosis = diagnose(str(bench.campaign), at="p=65536")

    limits = {(limit.kind, limit.where, limit.points) for limit in diagnosis.limits}
    assert limits == {
        ("memory", f"particles.py:{line_of('neighbour_table')}", "5 of 5 points"),
        ("serial", f"particles.py:{line_of('write_output')}", "5 of 5 points"),
        ("bytes", f"particles.py:{line_of('balance')}", "5 of 5 points"),
    }


@pytest.mark.full
def test_the_repaired_program_has_none(bench: Bench):
    outcomes = bench.measure_all(("-n", p, "--", PARTICLES, "--repaired") for p in SCALES)
    assert [outcome.code for outcome in outcomes] == [0] * len(SCALES)

    diagnosis = diagnose(str(bench.campaign), at="p=65536")

    assert diagnosis.limits == ()
