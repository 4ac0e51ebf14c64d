"""Times that differ between ranks without groups: a gradient over the ranks, or evenly spread ones.

A mixture of normal distributions describes such times as well as it can, by several classes that
mean nothing. So their description is compared with two others: a smooth course over the ranks, and
values that are spread evenly between two limits in each run, in any order of ranks.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from insitu.modeling.classes.candidates import (
    CONVERGED,
    HALF_LOG_2PI,
    OUTLIER_DENSITY,
    OUTLIER_SHARE,
    ROUNDS,
    weigh_outliers,
)
from insitu.modeling.measurement import FloatArray, IntArray

MAX_DEGREE = 3  # of a polynomial over rank / p
MAX_TRIMMED = 0.02  # share of the ranks of a run that may lie outside of its limits, at either end
SLOPE_SHARE = 0.9  # of the differences that a straight line explains where values grow evenly
# Width of the uniform distribution with the entropy of a normal one of standard deviation 1.
NORMAL_WIDTH = float(np.exp(0.5 + HALF_LOG_2PI))


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
    by_spread = _spread_criterion(logs, floor)
    return min((by_course, (by_spread, "differ between ranks without forming groups")))


def _fit_courses(
    logs: Sequence[FloatArray], ranks: Sequence[IntArray], floor: float
) -> tuple[float, str]:
    """The best smooth course over the ranks: its criterion, and what it does."""
    counts = [len(run_ranks) for run_ranks in ranks]
    run = np.repeat(np.arange(len(ranks)), counts)
    sizes = np.repeat([int(run_ranks.max(initial=0)) + 1 for run_ranks in ranks], counts)
    position = (np.concatenate(ranks) + 0.5) / sizes - 0.5
    y = np.concatenate(logs)

    best, words = np.inf, ""
    for columns in _courses(position, run):
        criterion, fitted = _fit(y, columns, run, floor)
        if criterion < best:
            best, words = criterion, _describe(fitted, position)
    return best + 2 * float(np.log(MAX_DEGREE + 1)), words  # the choice is paid for


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


def _spread_criterion(logs: Sequence[FloatArray], floor: float) -> float:
    """The criterion of values that are spread evenly between two limits in each run.

    The limits of a run count as its base, which is free in all descriptions, and one parameter.
    """
    n_values = sum(len(run_logs) for run_logs in logs)
    cost = 0.0
    for run_logs in logs:
        ascending = np.sort(run_logs)
        count = len(ascending)
        most = int(MAX_TRIMMED * count) + 1 if count > 4 else 0
        lowest = np.inf
        for low in range(most + 1):
            for high in range(most + 1):
                used = count - low - high
                # The unbiased estimate of the width from the least and the largest value.
                seen = float(ascending[count - 1 - high] - ascending[low])
                width = max(seen * (used + 1) / max(used - 1, 1), NORMAL_WIDTH * floor)
                density = np.log((1 - OUTLIER_SHARE) / width)
                lowest = min(lowest, -2 * (used * density + (low + high) * OUTLIER_DENSITY))
        cost += lowest + float(np.log(n_values))
    return cost
