"""The example segmented.py: its change of algorithm is found, with the law on either side."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "segmented.py"
SCALES = (2, 3, 4, 5, 6, 8, 16, 32)
STEPS = 3


def test_a_change_of_algorithm_is_found_between_the_scales_around_it(bench):
    for p in SCALES:
        words = ("-n", p, "-q", "--agent", "off", "--", PROGRAM)
        outcome = bench.run(*words, "--steps", STEPS, "--values", 10)
        assert outcome.code == 0, outcome.err
    assert bench.insitu("ingest", bench.campaign).code == 0

    said = bench.insitu(
        "models", bench.campaign, "--callpath", "swap->MPI_Sendrecv", "--metric", "visits", "--json"
    )

    (model,) = [json.loads(line) for line in said.out.splitlines()]
    points = {point["at"]["p"]: point["value"] for point in model["points"]}
    assert points == {
        p: STEPS * (p if p <= 6 else (p - 1).bit_length())
        for p in SCALES  # as its docstring says
    }
    assert model["text"] == "3 * p for p <= 6; 3 * log2(p) for p >= 8"
