"""Predictions of many spreads with their bounds, computed together.

Medians and bounds of mixtures are found in rounds over small arrays, so a single spread takes some
milliseconds. Here all spreads share the rounds. Each answer is that of the spread alone.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from insitu.modeling.measurement import FloatArray
from insitu.modeling.spread import LARGEST, Spread
from insitu.modeling.student import (
    HUGE,
    bounds_of_mixtures,
    median_of_mixtures,
    positive_bounds_of_mixtures,
    student_quantile,
)

TOGETHER = 512  # spreads, so that the arrays of all functions stay small


class SpreadPoints(NamedTuple):
    """A spread, and where it predicts.

    points: (n, m). beyond: (n,), how far they lie beyond the measured coordinates, in doublings.
    """

    spread: Spread
    points: FloatArray
    beyond: FloatArray


class BoundedValues(NamedTuple):
    """values: (n,), as `Spread.median` returns them. bounds: (n, 2)."""

    values: FloatArray
    bounds: FloatArray


class _SpreadMixture(NamedTuple):
    """What k functions of a spread predict at n points, as `_bounds_together` needs it.

    centre, scale, linear, weights: (k, n); weights are zero where a function is not finite.
    median: (n,). shares: (r, n), of probability below the values that are sought. reach: standard
    deviations, further than which no quantile is from all functions.
    """

    centre: FloatArray
    scale: FloatArray
    linear: FloatArray
    weights: FloatArray
    median: FloatArray
    shares: FloatArray
    degrees: float
    reach: float
    is_positive: bool
    is_movable: bool


def find_intervals(tasks: Sequence[SpreadPoints], level: float) -> list[BoundedValues]:
    """Return what spreads predict, and bounds between which measurements lie, in order.

    The predictive distribution is a mixture of Student distributions, one per function, each as
    wide as the noise and the uncertainty of its coefficients at that point. A bound beyond all
    numbers is infinite; for a lower bound it is the largest number, meaning "at least".

    Args:
        tasks: spreads and their points. level: 0.95 for 95 %.
    """
    return [
        interval
        for start in range(0, len(tasks), TOGETHER)
        for interval in _find_some(tasks[start : start + TOGETHER], level)
    ]


def _find_some(tasks: Sequence[SpreadPoints], level: float) -> list[BoundedValues]:
    mixtures = [
        _mix(task, functions, medians, level)
        for task, (functions, medians) in zip(tasks, _medians_together(tasks), strict=True)
    ]
    found = _bounds_together(mixtures)
    return [_finish(mixture, bounds) for mixture, bounds in zip(mixtures, found, strict=True)]


def _medians_together(
    tasks: Sequence[SpreadPoints],
) -> list[tuple[tuple[FloatArray, FloatArray], FloatArray]]:
    """The functions of each spread at its `median_points`, and the medians of these: (n',)."""
    functions = [task.spread.functions(task.spread.median_points(task.points)) for task in tasks]
    medians = [np.asarray(centre[0]) for centre, _ in functions]
    rows = [row for row, task in enumerate(tasks) if task.spread.needs_median]
    if rows:
        sizes = [functions[row][0].shape[1] for row in rows]
        spreads = [tasks[row].spread for row in rows]
        found = median_of_mixtures(
            _stack([functions[row][0] for row in rows]),
            _stack([functions[row][1] for row in rows]),
            _stack(
                [
                    np.broadcast_to(spread.weights[:, None], (len(spread.weights), size))
                    for spread, size in zip(spreads, sizes, strict=True)
                ]
            ),
            np.repeat([spread.degrees for spread in spreads], sizes),
        )
        for row, part in zip(rows, np.split(found, np.cumsum(sizes)[:-1]), strict=True):
            medians[row] = part
    return list(zip(functions, medians, strict=True))


def _mix(
    task: SpreadPoints, functions: tuple[FloatArray, FloatArray], medians: FloatArray, level: float
) -> _SpreadMixture:
    spread = task.spread
    centre, scale, linear, median = spread.combine(
        task.points, functions, medians, beyond=task.beyond
    )
    tail = (1 - level) / 2
    # Per function, a quantile a hundred times rarer than the tail: all bounds lie within.
    reach = student_quantile(1 - tail / 100, spread.degrees)
    with np.errstate(over="ignore"):
        is_finite = np.abs(centre) + reach * scale < HUGE  # NaN is not

    # Infinite functions: all of their probability is above or below. Unknown ones: half of it.
    share_below = np.where(np.abs(centre) >= HUGE, np.where(centre > 0, 0.0, 1.0), 0.5)
    share_below = np.where(is_finite, 0.0, share_below)
    infinite_below = (spread.weights[:, None] * share_below).sum(axis=0)

    # Both bounds of all points at once, and the median that `distribution` moves: (r, n).
    is_movable = spread.is_movable(centre, scale)
    levels = np.array([tail, 1 - tail, 0.5] if is_movable else [tail, 1 - tail])
    return _SpreadMixture(
        centre,
        scale,
        linear,
        np.where(is_finite, spread.weights[:, None], 0.0),
        median,
        levels[:, None] - infinite_below,
        spread.degrees,
        reach,
        is_positive=bool((centre[is_finite] > 0).all()),
        is_movable=is_movable,
    )


def _bounds_together(mixtures: Sequence[_SpreadMixture]) -> list[FloatArray]:
    """The values below which there are the shares of each mixture: (r, n)."""
    kinds: dict[tuple[bool, bool], list[int]] = defaultdict(list)
    for number, mixture in enumerate(mixtures):
        kinds[mixture.is_positive, mixture.is_movable].append(number)

    found: dict[int, FloatArray] = {}
    for (is_positive, _), numbers in kinds.items():
        members = [mixtures[number] for number in numbers]
        sizes = [member.centre.shape[1] for member in members]
        centre, scale, weights = (
            _stack([member.centre for member in members]),
            _stack([member.scale for member in members]),
            _stack([member.weights for member in members]),
        )
        shares = np.concatenate([member.shares for member in members], axis=1)
        degrees = np.repeat([member.degrees for member in members], sizes)
        reach = np.repeat([member.reach for member in members], sizes)
        if is_positive:
            linear = _stack([member.linear for member in members])
            bounds = positive_bounds_of_mixtures(
                centre, scale, weights, linear=linear, shares=shares, degrees=degrees, reach=reach
            )
        else:
            bounds = bounds_of_mixtures(
                centre, scale, weights, shares=shares, degrees=degrees, reach=reach
            )
        parts = np.split(bounds, np.cumsum(sizes)[:-1], axis=1)
        found |= dict(zip(numbers, parts, strict=True))
    return [found[number] for number in range(len(mixtures))]


def _finish(mixture: _SpreadMixture, bounds: FloatArray) -> BoundedValues:
    if mixture.is_movable:
        bounds = bounds * (mixture.median / bounds[2])
    is_above_all = mixture.weights.sum(axis=0) <= mixture.shares
    bounds = np.where(is_above_all, np.inf, bounds)
    bounds = np.where(mixture.shares <= 0, -np.inf, bounds)
    lower, upper = np.minimum(bounds[0], LARGEST), np.maximum(bounds[1], -LARGEST)
    return BoundedValues(mixture.median, np.stack([lower, upper], axis=1))


def _stack(arrays: Sequence[FloatArray]) -> FloatArray:
    """Put arrays (k, n) beside each other, with zeros below those that have fewer rows."""
    n_rows = max(len(array) for array in arrays)
    stacked = np.zeros((n_rows, sum(array.shape[1] for array in arrays)))
    start = 0
    for array in arrays:
        stacked[: len(array), start : start + array.shape[1]] = array
        start += array.shape[1]
    return stacked
