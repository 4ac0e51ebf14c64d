"""How much ranks scatter: what repetitions tell, and whether ranks differ by more than that."""

from collections.abc import Sequence

import numpy as np

from insitu.measurement import FloatArray
from insitu.modeling.cluster import BoolArray
from insitu.modeling.places import Place

NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal variable
FAR = 5.0  # times the spread over repetitions: a rank beyond may be of another class
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
