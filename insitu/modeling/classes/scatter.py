"""How much ranks scatter: what repetitions tell, and whether ranks differ by more than that."""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.measurement import FloatArray

NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal variable
FAR = 5.0  # times the spread over repetitions: a rank beyond may be of another class
CHANCE = 0.001  # probability below which a difference between ranks is none of noise
SAME = 0.02  # relative range of ranks that nobody would call different
UNKNOWN_FLOOR = 0.02  # relative spread of what was not repeated, at least
PRIOR_DEGREES = 8  # degrees of freedom that this is worth beside what runs tell of it
WIDE = 3.0  # times the spread: a measurement beyond says no more
ENOUGH = 4  # runs of one size that tell noise from ranks that differ
DRAWN, MOST_DRAWN = 2000, 64  # samples of noise, and ranks in each


def row_medians(values: FloatArray) -> FloatArray:
    """Median along the last axis of what is not NaN, (…, n) to (…,); NaN where nothing is."""
    ascending = np.sort(values, axis=-1)  # NaN last
    count = np.isfinite(values).sum(axis=-1)
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[-1] - 1)
    pair = np.take_along_axis(ascending, np.stack([low, high], axis=-1), axis=-1)
    medians: FloatArray = pair.mean(axis=-1)
    return medians


def repetition_spread(tables: Sequence[FloatArray], places: Sequence[RunGroup]) -> FloatArray:
    """Relative standard deviation of a rank's median over repetitions, per call path: (n_paths,).

    NaN where nothing was repeated. It is a lower bound of how much ranks scatter: imbalance that
    stays the same in all repetitions comes on top.
    """
    deviations, repetitions = [], []
    for place in places:
        if len(place.runs) > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(np.stack([tables[run] for run in place.runs], axis=-1))
            logs = np.where(np.isfinite(logs), logs, np.nan)
            number = len(place.runs)
            scale = np.sqrt(number / (number - 1))
            around = abs(logs - row_medians(logs)[:, :, None]) * scale
            deviations.append(around.reshape(len(logs), -1))
            repetitions.append(number)
    if not deviations:
        return np.full(len(tables[0]) if tables else 0, np.nan)
    middle = row_medians(np.concatenate(deviations, axis=1))
    spread: FloatArray = NORMAL * middle * 1.1 / np.sqrt(np.mean(repetitions))
    return spread


def is_order_random(tables: Sequence[FloatArray], places: Sequence[RunGroup]) -> BoolArray:
    """Whether the order of ranks is another in every repetition: (n_paths,).

    Friedman's test: were ranks alike, R·n·(n+1)/12 times the scatter of their mean places would be
    chi-squared with n - 1 degrees of freedom for each run with n ranks. False where nothing was
    repeated.
    """
    paths = len(tables[0]) if tables else 0
    statistic, degrees = np.zeros(paths), np.zeros(paths)
    for place in places:
        if len(place.runs) > 1 and place.size > 1:
            values = np.stack([tables[run] for run in place.runs])
            order = _places(values).sum(axis=0)
            ranks, number = place.size, len(place.runs)
            scatter = ((order - order.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            known = np.isfinite(values).all(axis=(0, 2))
            statistic += np.where(known, 12 * scatter / (number * ranks * (ranks + 1)), 0.0)
            degrees += np.where(known, ranks - 1, 0)
    if not degrees.any():
        return np.zeros(paths, dtype=bool)
    from scipy.special import chdtrc  # slow to load, and not needed to gather a run

    chance: BoolArray = (degrees > 0) & (chdtrc(np.maximum(degrees, 1), statistic) > CHANCE)
    return chance


def _places(values: FloatArray) -> FloatArray:
    """The place of each value along the last axis, in ascending order; equal ones share theirs."""
    first = values.argsort(axis=-1, kind="stable").argsort(axis=-1)
    last = values[..., ::-1].argsort(axis=-1, kind="stable").argsort(axis=-1)[..., ::-1]
    places: FloatArray = (first + last) / 2
    return places


def are_surely_uniform(logs: Sequence[FloatArray], spread: FloatArray) -> BoolArray:
    """Whether the ranks of a call path are surely one class: (n_paths,).

    So it is where they lie within 2 % of each other at every place, or no further from the median
    than repetitions of one rank do.

    Args:
        logs: per place (n_paths, n_ranks), logarithms of values, NaN where there is none.
        spread: (n_paths,), of a rank over repetitions; NaN where nothing was repeated.
    """
    around = np.concatenate([one - row_medians(one)[:, None] for one in logs], axis=1)
    size = np.where(np.isfinite(around), abs(around), 0.0).max(axis=1, initial=0.0)
    ranges = [
        np.where(np.isfinite(one), one, -np.inf).max(axis=1, initial=-np.inf)
        - np.where(np.isfinite(one), one, np.inf).min(axis=1, initial=np.inf)
        for one in logs
    ]
    uniform: BoolArray = (np.max(ranges, axis=0) <= SAME) | (size <= FAR * spread)
    return uniform


def are_ranks_alike(logs: Sequence[FloatArray]) -> BoolArray:
    """Whether no rank differs from the others in all runs of equally many ranks: (n_paths,).

    What was not repeated is compared between runs at other coordinates: were ranks alike, their
    means over these would scatter as the rest does. Asked are all ranks together (F test) and the
    one furthest from the others (t test, for as many ranks as there are), without what single slow
    measurements add. Ranks that form two groups in most runs are not alike, even when they are
    other ranks in each. False where a value is missing, or where a number of ranks was measured
    less than four times.

    Args:
        logs: per run (n_paths, n_ranks), logarithms of values, NaN where there is none.
    """
    sizes = [one.shape[1] for one in logs]
    groups = [
        np.stack([one for one in logs if one.shape[1] == size])
        for size in sorted({*sizes} - {0, 1})
    ]
    paths = len(logs[0]) if logs else 0
    grouped = np.zeros(paths, dtype=bool)
    if not paths or not groups or any(len(one) < ENOUGH for one in groups):
        return grouped
    between, within, furthest = np.zeros((3, paths))
    for values in groups:
        number, _, ranks = values.shape
        around = _without_outliers(values)
        effect = around.mean(axis=0)
        between += number * (effect**2).sum(axis=1)
        within += ((around - effect) ** 2).sum(axis=(0, 2))
        furthest = np.maximum(furthest, number * ranks / (ranks - 1) * (effect**2).max(axis=1))
        grouped |= _form_groups(values)
    from scipy.special import fdtrc, stdtr  # slow to load, and not needed to gather a run

    ranks = sum(one.shape[2] for one in groups)
    free = ranks - len(groups)
    rest = sum((one.shape[2] - 1) * (len(one) - 1) for one in groups) + PRIOR_DEGREES
    variance = (within + PRIOR_DEGREES * UNKNOWN_FLOOR**2) / rest
    alike: BoolArray = (
        (fdtrc(free, rest, between / free / variance) > CHANCE)
        & (2 * ranks * stdtr(rest, -np.sqrt(furthest / variance)) > CHANCE)
        & ~grouped
    )
    return alike


def _without_outliers(values: FloatArray) -> FloatArray:
    """(n_runs, n_paths, n_ranks) about the mean of their run, with what is far off drawn near."""
    around = values - np.median(values, axis=2, keepdims=True)
    typical = np.median(around, axis=0)
    rest = around - typical
    spread = NORMAL * np.median(abs(rest), axis=(0, 2))
    limit = WIDE * np.maximum(spread, UNKNOWN_FLOOR)[:, None]
    near = typical + np.clip(rest, -limit, limit)
    centred: FloatArray = near - near.mean(axis=2, keepdims=True)
    return centred


def _form_groups(values: FloatArray) -> BoolArray:
    """Whether two groups explain (n_runs, n_paths, n_ranks) better than they do noise: (n_paths,).

    The share of the squares that the best two groups of a run leave, its median over runs, is
    compared with what they leave of so much normal noise. False for two ranks.
    """
    runs, paths, ranks = values.shape
    if ranks < 3:
        return np.zeros(paths, dtype=bool)
    noise = np.random.default_rng(0).standard_normal((runs, DRAWN, min(ranks, MOST_DRAWN)))
    least = np.quantile(_left_by_groups(noise), CHANCE)
    groups: BoolArray = _left_by_groups(values) < least
    return groups


def _left_by_groups(values: FloatArray) -> FloatArray:
    """What the best two groups leave of the squares, median over runs: (n_paths,)."""
    ranks = values.shape[2]
    ascending = np.sort(values - values.mean(axis=2, keepdims=True), axis=2)
    below = np.cumsum(ascending, axis=2)[:, :, :-1]
    number = np.arange(1, ranks)
    parted = (below**2 * ranks / (number * (ranks - number))).max(axis=2)
    total = (ascending**2).sum(axis=2)
    left: FloatArray = np.median(1 - parted / np.maximum(total, 1e-300), axis=0)
    return left
