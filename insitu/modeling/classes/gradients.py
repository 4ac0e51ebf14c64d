"""Times that differ between ranks without groups: a gradient over the ranks, or continuous spread.

A mixture of normal distributions describes such times as well as it can, by several classes that
mean nothing. So their description is compared with others: a smooth course over the ranks, or along
an axis of a grid of ranks, and continuous distributions in any order of ranks.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from insitu.modeling.classes.candidates import (
    CONVERGED,
    MAX_DEVIATION,
    ROUNDS,
    weigh_outliers,
)
from insitu.modeling.classes.spreads import spread_criterion
from insitu.modeling.measurement import FloatArray, IntArray

MAX_DEGREE = 3  # of a polynomial over rank / p
MIN_LENGTH = 6  # ranks of the largest run, and of the longest axis: fewer levels may be classes
SLOPE_SHARE = 0.9  # of the differences that a straight line explains where values grow evenly


def describe_smooth(
    logs: Sequence[FloatArray], ranks: Sequence[IntArray], *, floor: float
) -> tuple[float, str]:
    """How well values without groups are described, and in words how they vary.

    Args:
        logs: per run the logarithm of one value per rank.
        ranks: per run the rank of each value.
        floor: least relative spread of ranks.

    Returns:
        Bayesian information criterion, comparable with that of a mixture and of a candidate; and
        what the values do.
    """
    by_course = _fit_courses(logs, ranks, floor)
    by_spread = spread_criterion(logs, floor=floor)
    return min((by_course, (by_spread, "differ between ranks without forming groups")))


def _fit_courses(
    logs: Sequence[FloatArray], ranks: Sequence[IntArray], floor: float
) -> tuple[float, str]:
    """The best smooth course over the ranks or along an axis: its criterion, and what it does."""
    counts = [len(run_ranks) for run_ranks in ranks]
    if max(counts, default=0) < MIN_LENGTH:
        return np.inf, ""
    run = np.repeat(np.arange(len(ranks)), counts)
    sizes = np.repeat([int(run_ranks.max(initial=0)) + 1 for run_ranks in ranks], counts)
    position = (np.concatenate(ranks) + 0.5) / sizes - 0.5
    y = np.concatenate(logs)

    best, words = np.inf, ""
    for columns in _courses(position, run):
        criterion, fitted = _fit(y, columns, run, floor)
        if criterion < best:
            best, words = criterion, _describe(fitted, position)

    along, price = _find_axes(logs, ranks, floor)
    for columns in _courses(along, run) if np.isfinite(price) else ():
        for both in (columns, np.column_stack([columns, position])):
            criterion = _fit(y, both, run, floor)[0] + price
            if criterion < best:
                best, words = criterion, "change smoothly along an axis of a grid of ranks"
    return best + 2 * float(np.log(2 * MAX_DEGREE + 2)), words  # the choice is paid for


def _find_axes(
    logs: Sequence[FloatArray], ranks: Sequence[IntArray], floor: float
) -> tuple[FloatArray, float]:
    """The axis of a grid of ranks along which values vary most evenly, of each run.

    Returns:
        The position of each rank along it, -0.5 to 0.5, 0 where there is none; and the price of
        its choice, infinite where a line along it is not worth it, and where all axes are so short
        that their positions may be classes.
    """
    positions, price, longest = [], 0.0, 0
    explained, total = 0.0, 0.0
    for run_logs, run_ranks in zip(logs, ranks, strict=True):
        above = run_logs - np.median(run_logs)
        limit = MAX_DEVIATION * max(floor, 1.5 * float(np.median(abs(above))))
        near = np.clip(above, -limit, limit)

        lengths, axes = _grid_axes(int(run_ranks.max(initial=0)) + 1)
        price += 2 * float(np.log(max(len(lengths), 1)))
        along = axes[:, run_ranks]
        centred = along - along.mean(axis=1, keepdims=True)
        squares = np.maximum((centred**2).sum(axis=1), 1e-300)
        by_axis = (centred @ near) ** 2 / squares
        best = int(np.argmax(by_axis)) if by_axis.any() else None
        if best is not None:
            longest = max(longest, lengths[best])
            explained += float(by_axis[best])
        positions.append(np.zeros(len(run_ranks)) if best is None else along[best])
        total += float(near @ near) - float(near.sum()) ** 2 / len(near)

    along_best = np.concatenate(positions)
    rest = max(total - explained, 1e-300)
    gain = len(along_best) * float(np.log(max(total, rest) / rest))
    return along_best, price if longest >= MIN_LENGTH and gain > price else np.inf


@lru_cache(maxsize=64)
def _grid_axes(size: int) -> tuple[tuple[int, ...], FloatArray]:
    """The axes of all grids of so many ranks: their lengths, and each rank's position (axes, size).

    Positions are -0.5 to 0.5. The first axis of a grid is left out, since it is nearly the course
    over the ranks.
    """
    divisors = [number for number in range(1, size + 1) if size % number == 0]
    axes = [
        (stride, length)
        for stride in divisors
        for length in divisors
        if length > 1 and stride * length < size and size % (stride * length) == 0
    ]
    rank = np.arange(size)
    positions = [(rank // stride % length + 0.5) / length - 0.5 for stride, length in axes]
    return tuple(length for _, length in axes), np.array(positions).reshape(len(axes), size)


def _courses(position: FloatArray, run: IntArray) -> Iterator[FloatArray]:
    """The columns (n, k) of each kind of course: polynomials, and a slope of its own per run."""
    powers = np.stack([position**degree for degree in range(1, MAX_DEGREE + 1)], axis=1)
    for degree in range(1, MAX_DEGREE + 1):
        yield powers[:, :degree]
    if int(run.max()) > 0:
        yield position[:, None] * (run[:, None] == np.arange(int(run.max()) + 1))


def _fit(
    y: FloatArray, columns: FloatArray, run: IntArray, floor: float
) -> tuple[float, FloatArray]:
    """Fit a course robustly, with a base of each run: its criterion, and the course (n,)."""
    inside, before, likelihood = np.ones(len(y)), -np.inf, -np.inf
    course = np.zeros(len(y))
    for _ in range(ROUNDS):
        centred = np.stack([_centre(column, inside, run) for column in columns.T], axis=1)
        root = np.sqrt(inside)
        target = _centre(y, inside, run)
        slopes = np.linalg.lstsq(root[:, None] * centred, root * target, rcond=1e-9)[0]
        course = centred @ slopes

        inside, _, likelihood = weigh_outliers(target - course, inside, floor)
        if likelihood - before < CONVERGED:
            break
        before = likelihood
    return (1 + columns.shape[1]) * float(np.log(len(y))) - 2 * likelihood, course


def _centre(values: FloatArray, inside: FloatArray, run: IntArray) -> FloatArray:
    """Values above the weighted mean of their run, (n,)."""
    weight = np.maximum(np.bincount(run, inside), 1e-9)
    above: FloatArray = values - (np.bincount(run, inside * values) / weight)[run]
    return above


def _describe(course: FloatArray, position: FloatArray) -> str:
    """What a course over the ranks does, in words."""
    slope = float(position @ course) / max(float(position @ position), 1e-300)
    total = float(course @ course)
    line = slope**2 * float(position @ position)
    if line < SLOPE_SHARE * total:
        return "change smoothly over the ranks"
    return "grow evenly with the rank" if slope > 0 else "fall evenly with the rank"
