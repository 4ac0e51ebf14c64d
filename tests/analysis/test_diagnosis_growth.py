"""Diagnosis: how a count grows, and on which ranks."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.growth import find_growth, has_growing_sizes, is_ladder
from insitu.analysis.diagnosis.measurements import RankSeries


def one_run(*vectors: np.ndarray) -> RankSeries:
    """One run at each scale."""
    return RankSeries(tuple((np.asarray(vector, dtype=float),) for vector in vectors))


@pytest.mark.parametrize(
    ("values", "is_one"),
    [
        (np.arange(8), True),
        (np.arange(8)[::-1], True),
        (10 * np.arange(8) + 3, True),
        (np.arange(7), False),  # too few ranks
        (np.arange(8) // 2, False),  # two ranks do as much
        (np.arange(8) ** 2, False),
    ],
)
def test_a_ladder_has_a_step_for_each_rank_and_equal_ones(values, is_one):
    assert is_ladder(one_run(values)) == is_one


def test_a_ladder_is_one_at_each_scale():
    assert is_ladder(one_run(np.arange(4), np.arange(8)))
    assert not is_ladder(one_run(np.zeros(4), np.arange(8)))


@pytest.mark.parametrize(
    ("bytes_of", "are_growing"),
    [
        ({4: 1000.0, 8: 2100.0, 16: 4300.0, 32: 9000.0}, True),
        ({4: 1000.0, 8: 1300.0, 16: 2000.0, 32: 2500.0}, False),  # not twice as large
        ({4: 1000.0, 8: 2000.0, 16: 2100.0, 32: 4500.0}, False),  # about as large once
    ],
)
def test_messages_are_ever_larger_if_each_doubling_adds_and_two_double(bytes_of, are_growing):
    p = np.array(sorted(bytes_of), dtype=float)
    moved = one_run(*(np.full(ranks, bytes_of[ranks]) for ranks in sorted(bytes_of)))
    messages = one_run(*(np.full(ranks, 10.0) for ranks in sorted(bytes_of)))

    volume, count = (find_growth(p, series, 1024.0) for series in (moved, messages))

    assert volume.law is None
    assert has_growing_sizes(p, volume, count, moved=moved, messages=messages) == are_growing
