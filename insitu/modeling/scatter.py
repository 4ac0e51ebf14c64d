"""How much ranks scatter: what repetitions tell, and whether ranks differ by more than that."""

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc

from insitu.measurement import FloatArray
from insitu.modeling.cluster import BoolArray
from insitu.modeling.places import Place

NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal variable
FAR = 5.0  # times the spread over repetitions: a rank beyond may be of another class
CHANCE = 0.001  # probability below which an order of ranks is none
SAME = 0.02  # relative range of ranks that nobody would call different


def row_medians(values: FloatArray) -> FloatArray:
    """Median along the last axis of what is not NaN; NaN where nothing is."""
    ascending = np.sort(values, axis=-1)  # NaN last
    count = np.isfinite(values).sum(axis=-1)
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[-1] - 1)
    pair = np.take_along_axis(ascending, np.stack([low, high], axis=-1), axis=-1)
    medians: FloatArray = pair.mean(axis=-1)
    return medians


def repetition_spread(tables: Sequence[FloatArray], places: Sequence[Place]) -> FloatArray:
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


def is_chance(tables: Sequence[FloatArray], places: Sequence[Place]) -> BoolArray:
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
    chance: BoolArray = (degrees > 0) & (chdtrc(np.maximum(degrees, 1), statistic) > CHANCE)
    return chance


def _places(values: FloatArray) -> FloatArray:
    """The place of each value along the last axis, in ascending order; equal ones share theirs."""
    first = values.argsort(axis=-1, kind="stable").argsort(axis=-1)
    last = values[..., ::-1].argsort(axis=-1, kind="stable").argsort(axis=-1)[..., ::-1]
    places: FloatArray = (first + last) / 2
    return places


def looks_uniform(logs: Sequence[FloatArray], spread: FloatArray) -> BoolArray:
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
