"""Diagnosis: groups of ranks that do more than the others at all scales."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.slow_groups import _steady_ratio
from tests.analysis.programs import diagnose, grid_of, visiting


def group(p: int, size: int, more: float) -> np.ndarray:
    """Visits of p ranks, of which some have more than the others."""
    return np.where(np.arange(p) < size, more, 100.0)


def is_named(scales: tuple[int, ...], more: float = 300.0) -> bool:
    """Whether the first row of a grid of ranks is named."""
    plan = visiting(lambda p: 15 * group(p, grid_of(p)[1], more))
    return any("as often as the others" in e.text for e in diagnose(plan, scales).statements)


@pytest.mark.parametrize(
    ("scales", "are_enough"), [((4, 6, 8, 12), True), ((2, 4, 6, 8), False), ((6, 8, 12), False)]
)
def test_four_scales_above_two_ranks_show_a_group(scales, are_enough: bool):
    assert is_named(scales) == are_enough


@pytest.mark.parametrize(("size", "ratio"), [(4, 3.0), (5, None), (1, None)])
def test_a_group_is_several_ranks_and_no_more_than_half_of_all(size: int, ratio: float | None):
    vectors = [group(p, size * p // 8, 300.0) for p in (8, 16, 24)]
    vectors[-1] = group(24, size * 3, 300.0) if size > 1 else group(24, 1, 300.0)

    assert _steady_ratio(vectors) == ratio


@pytest.mark.parametrize(("more", "is_steady"), [(306.0, True), (307.0, False)])
def test_a_group_does_as_much_more_within_two_percent_at_all_scales(more: float, is_steady: bool):
    vectors = [group(8, 4, 300.0), group(16, 8, more)]

    assert _steady_ratio(vectors) == (more / 100.0 if is_steady else None)


def test_a_group_whose_share_of_the_ranks_grows_is_none():
    """As the ranks inside of a domain."""
    assert _steady_ratio([group(8, 2, 300.0), group(16, 6, 300.0)]) is None
    assert _steady_ratio([group(8, 2, 300.0), group(16, 4, 300.0)]) == 3.0
    assert _steady_ratio([group(8, 4, 300.0), group(16, 6, 300.0)]) == 3.0


def test_a_group_beside_ranks_that_do_nothing_is_none():
    assert _steady_ratio([np.array([5.0, 5.0, 0.0, 0.0])]) is None
    assert _steady_ratio([np.array([5.0, 5.0, 5.0, 5.0])]) is None
