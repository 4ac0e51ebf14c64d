"""Diagnosis: when one rank takes longer than the others by far."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.slow_ranks import _is_uneven


@pytest.mark.parametrize(
    ("slowest", "others", "is_uneven"), [(1.2, 0.8, True), (1.19, 0.81, False), (0.8, 1.2, True)]
)
def test_a_rank_is_slow_from_a_fifth_more_than_the_mean(slowest, others, is_uneven):
    assert _is_uneven([np.array([slowest, others])], [1.0]) == is_uneven


@pytest.mark.parametrize(("computing", "is_uneven"), [(20.0, True), (21.0, False)])
def test_a_slow_rank_matters_from_a_twentieth_of_the_computing(computing, is_uneven):
    assert _is_uneven([np.array([3.0, 1.0])], [computing]) == is_uneven


def test_a_rank_is_slow_at_all_scales_but_that_of_one_rank():
    slow, even, alone = np.array([3.0, 1.0]), np.array([1.0, 1.0, 1.0]), np.array([2.0])

    assert _is_uneven([alone, slow], [1.0, 1.0])
    assert not _is_uneven([alone, slow, even], [1.0, 1.0, 1.0])
