"""The example segmented.py: its counts, and its change of algorithm with the law on either side."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "segmented.py"
STEPS = 3
BELOW, ABOVE = "3 * p for p <= 6", "3 * log2(p) for p >= 8"


@pytest.mark.full
@pytest.mark.parametrize(
    ("scales", "text"),
    [
        ((2, 4, 6, 8), None),
        # A law above the change needs three scales; 32 ranks on two cores take a minute.
        pytest.param((2, 3, 4, 5, 6, 8, 16, 32), f"{BELOW}; {ABOVE}", marks=pytest.mark.full),
    ],
)
def test_a_change_of_algorithm_is_found_between_the_scales_around_it(bench, scales, text):
    program = ("--", PROGRAM, "--steps", STEPS, "--values", 10)
    outcomes = bench.measure_all(("-n", p, *program) for p in scales)
    assert [outcome.code for outcome in outcomes] == [0] * len(scales), outcomes

    said = bench.insitu(
        "models", bench.campaign, "--callpath", "swap->MPI_Sendrecv", "--metric", "visits", "--json"
    )

    (model,) = [json.loads(line) for line in said.out.splitlines()]
    points = {point["at"]["p"]: point["value"] for point in model["points"]}
    assert points == {
        p: STEPS * (p if p <= 6 else (p - 1).bit_length())
        for p in scales  # as its docstring says
    }
    assert text in (None, model["text"])
