"""A quadratic bug in the stencil fails `insitu check`; without it the same expectations pass."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RANKS = (1, 2, 3)
RIGHT = "    domain.comm.Allreduce(local, largest, op=MPI.MAX)\n"
BUG = """\
    all_ranks = np.empty(domain.comm.size)
    domain.comm.Allgather(local, all_ranks)
    for a in all_ranks:
        for b in all_ranks:
            largest[0] = larger(a, b)
"""
LARGER = "\n\ndef larger(a, b):\n    return max(a, b)\n\n\ndef positive("


def check(bench, program):
    words = ["--cells", 8, "--steps", 4, "--check", 2]
    outcomes = bench.measure_all(("-n", p, "--", program, *words) for p in RANKS)
    assert [outcome.code for outcome in outcomes] == [0] * len(RANKS)
    return bench.insitu("check", bench.campaign, EXAMPLES / "expectations.toml", "--github")


@pytest.mark.full
def test_the_stencil_grows_as_expected(bench):
    answer = check(bench, EXAMPLES / "stencil2d.py")

    assert answer.code == 0, answer.out + answer.err
    assert "::error" not in answer.out


def test_a_quadratic_bug_is_a_violation(bench):
    text = (EXAMPLES / "stencil2d.py").read_text()
    assert RIGHT in text
    program = bench.script(
        text.replace(RIGHT, BUG).replace("\n\ndef positive(", LARGER), "stencil2d.py"
    )

    answer = check(bench, program)

    assert answer.code == 1, answer.out + answer.err
    (line,) = [line for line in answer.out.splitlines() if "larger, visits" in line]
    assert line.startswith("::error")
    assert "grows as O(p^2), expected O(1)" in line
    assert "MPI_Allgather, bytes_received" in answer.out
