"""Work that cannot be divided evenly where it is a parameter: ceil(n / p) instead of n / p.

With n planes of a grid on p processes, the slowest has ceil(n / p) of them. A law of n and p is
then one of n and n / ceil(n / p), the number of processes that would have so much work each. Series
whose residuals go with the difference are fitted over these coordinates as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from insitu.modeling.adjustments import divide_evenly
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray
from insitu.modeling.series import Series

MIN_DIFFERENCE = 0.01  # of n / ceil(n / p) from p, at some point
MAX_MISFIT = 0.5  # of the law with steps, relative to that without, as root of mean squares
MIN_MISFIT = 1e-3  # of the smooth law, relative; smaller ones do not matter
MIN_POINTS = 8  # of a series, so that it is not fitted by chance
MIN_CORRELATION = 0.3  # of the residuals with the steps; less is chance
MAX_LOG_RATIO = 5.0
SMALLEST = 1e-300  # number that is divided by

Solve = Callable[[Series], list[Answer]]


def solve_with_quotients(series: Series, solve: Solve) -> list[Answer]:
    """Return one answer per series over several parameters, with steps where these fit better.

    Args:
        solve: returns answers of smooth laws.
    """
    answers = solve(series)
    pair = _find_pair(series.coordinates)
    if pair is None:
        return answers

    divided = divide_evenly(series.coordinates, pair)
    steps = np.log(divided[:, pair[1]] / series.coordinates[:, pair[1]])
    residuals = log_residuals(answers, series, series.coordinates)
    smooth = _root_mean_square(residuals)
    rows = np.flatnonzero(
        (smooth > MIN_MISFIT) & (_correlations(residuals, steps) > MIN_CORRELATION)
    )
    if len(rows) == 0:
        return answers
    suspects = series.select(rows)
    others = solve(replace(suspects, coordinates=divided))
    stepped = _root_mean_square(log_residuals(others, suspects, divided))
    result = list(answers)
    for i in np.flatnonzero(stepped < MAX_MISFIT * smooth[rows]).tolist():
        result[int(rows[i])] = _with_quotient(others[i], pair)
    return result


def _find_pair(coordinates: FloatArray) -> tuple[int, int] | None:
    """The parameters that are work and number of processes, None if there are no steps."""
    is_whole = (coordinates == np.round(coordinates)).all() and (coordinates >= 1).all()
    if not is_whole or len(coordinates) < MIN_POINTS:
        return None
    for pair in permutations(range(coordinates.shape[1]), 2):
        work, processes = coordinates[:, pair[0]], coordinates[:, pair[1]]
        if (work < processes).any():
            continue
        ratio = divide_evenly(coordinates, pair)[:, pair[1]] / processes
        if (np.abs(ratio - 1) > MIN_DIFFERENCE).any():
            return pair
    return None


def log_residuals(answers: Sequence[Answer], series: Series, points: FloatArray) -> FloatArray:
    """Return the logarithm of value over function: (s, n), NaN where there is none."""
    result = np.full(series.values.shape, np.nan)
    for i, answer in enumerate(answers):
        values = series.values[i]
        is_usable: BoolArray = np.isfinite(values) & (values > 0)
        if is_usable.sum() < MIN_POINTS:
            continue
        ratio = values[is_usable] / np.maximum(answer.functions[0](points[is_usable]), SMALLEST)
        result[i, is_usable] = np.clip(np.log(ratio), -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return result


def _root_mean_square(residuals: FloatArray) -> FloatArray:
    """Of residuals (s, n), 0 for series without any: (s,)."""
    counts = np.maximum(np.isfinite(residuals).sum(axis=1), 1)
    return np.asarray(np.sqrt(np.nansum(residuals**2, axis=1) / counts))


def _correlations(residuals: FloatArray, steps: FloatArray) -> FloatArray:
    """The absolute correlation of residuals (s, n) with steps (n,): (s,)."""
    is_known = np.isfinite(residuals)
    counts = np.maximum(is_known.sum(axis=1, keepdims=True), 1)

    def centre(values: FloatArray) -> FloatArray:
        known = np.where(is_known, values, 0.0)
        return np.where(is_known, known - known.sum(axis=1, keepdims=True) / counts, 0.0)

    own, other = centre(residuals), centre(np.broadcast_to(steps, residuals.shape))
    norm = np.sqrt((own**2).sum(axis=1) * (other**2).sum(axis=1))
    return np.asarray(np.abs((own * other).sum(axis=1)) / np.maximum(norm, SMALLEST))


def _with_quotient(answer: Answer, pair: tuple[int, int]) -> Answer:
    """The answer as one with steps, whose law is sure enough to do without a trend."""
    spreads = [
        None if spread is None else replace(spread, quotient=pair, local=None)
        for spread in answer.spreads
    ]
    return answer._replace(spreads=tuple(spreads), quotient=pair)
