"""Diagnosis: few samples of each rank, which rise or fall from rank to rank."""

import re

import numpy as np
import pytest

from tests.analysis.programs import Plan, diagnose

SCALES = (2, 3, 4, 6, 8, 12)
INTERVAL_S = 0.01


def sampled(share_of, seed: int = 1) -> Plan:
    """A function of which all ranks together have some 80 samples at each scale, besides a solver.

    share_of: how many of them each rank has, (p,), in any unit, from the number of ranks.
    """

    def samples(p: int) -> np.ndarray:
        shares = np.asarray(share_of(p), dtype=float)
        expected = 80.0 * shares / shares.sum()
        return np.random.default_rng((seed, p)).poisson(expected) * INTERVAL_S

    return {
        "app": {"visits": lambda p: 1, "time": lambda p: 1.0},
        "app->main->count_unknowns": {"time_exclusive": samples},
        "app->main->solve": {"time_exclusive": lambda p: 0.1},
    }


@pytest.mark.parametrize(
    ("share_of", "ranks"),
    [(lambda p: np.arange(p) + 0.1, "last rank"), (lambda p: p - np.arange(p) - 0.5, "rank 0")],
)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])  # with 1, rank 10 has most, near 90 % each time
def test_work_that_rises_or_falls_from_rank_to_rank_is_a_doubt(share_of, ranks, seed):
    """prefix_cells.c and deal_blocks.cpp of tests/evaluation."""
    diagnosis = diagnose(
        sampled(share_of, seed),
        SCALES,
        crowded=True,
        base={},
        sampling_s=INTERVAL_S,
        scaling="weak",
    )

    (statement,) = [entry for entry in diagnosis.statements if entry.kind == "imbalance"]
    assert (statement.name, statement.status) == ("count_unknowns", "unclear")
    assert statement.ranks == ranks
    assert re.search("a load balance of about 5[0-3] %", statement.text)


def even(p: int) -> np.ndarray:
    return np.ones(p)


def ends_have_less(p: int) -> np.ndarray:
    return np.where((np.arange(p) == 0) | (np.arange(p) == p - 1), 0.5, 1.0)


def first_has_more(p: int) -> np.ndarray:
    return np.where(np.arange(p) == 0, 4.0, 1.0)


@pytest.mark.parametrize("share_of", [even, ends_have_less, first_has_more])
@pytest.mark.parametrize("seed", range(10))
def test_samples_by_chance_at_an_end_or_of_one_rank_are_no_ramp(share_of, seed):
    plan = sampled(share_of, seed)

    diagnosis = diagnose(plan, SCALES, crowded=True, base={}, sampling_s=INTERVAL_S, scaling="weak")

    assert not any("half of the ranks" in entry.text for entry in diagnosis.statements)
