"""Relative-distance clustering of ranks: which of them behave alike in one run."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from insitu.errors import ModelingError
from insitu.modeling.measurement import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
CELLS = 200_000  # values that are clustered at a time
THRESHOLD = 0.10  # relative distance at which a new cluster begins [CLU §III-B]


def cluster(values: ArrayLike, threshold: ArrayLike = THRESHOLD) -> IntArray:
    """Label each rank with its cluster, 0 for the smallest values.

    Neighbours in sorted order part where their distance, relative to the smaller of the two
    magnitudes, reaches the threshold; being relative it tells clusters of any magnitude apart
    [CLU §III-B]. Zero is as far from everything else as can be, and so are values of other sign.

    Args:
        values: (n_rows, n_ranks), one row per call path, or (n_ranks,).
        threshold: one for all rows, or (n_rows,).

    Returns:
        Labels in the shape of `values`; -1 where the value is NaN or infinite.

    Raises:
        ModelingError: values with no or more than two dimensions, a threshold that is not positive.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ModelingError(
            f"cluster: values have {array.ndim} dimensions; give (n_rows, n_ranks) or (n_ranks,)"
        )
    rows = np.atleast_2d(array)
    limits = np.broadcast_to(np.asarray(threshold, dtype=np.float64), rows.shape[:1])
    if not np.all(limits > 0):
        raise ModelingError("cluster: thresholds must be positive, as in 0.10 for 10 %")
    labels = np.zeros(rows.shape, dtype=np.intp)
    step = max(CELLS // max(rows.shape[1], 1), 1)
    for first in range(0, len(rows) if rows.shape[1] else 0, step):
        part = slice(first, first + step)
        labels[part] = _labels(rows[part], limits[part])
    return labels.reshape(array.shape)


def _labels(rows: FloatArray, limits: FloatArray) -> IntArray:
    """Labels of so many rows as the cache of a processor holds."""
    present = np.isfinite(rows)
    labels = np.where(present, 0, -1).astype(np.intp)
    several = _may_part(rows, present, limits)
    labels[several] = _sorted_labels(rows[several], present[several], limits[several])
    return labels


def _may_part(rows: FloatArray, present: BoolArray, limits: FloatArray) -> BoolArray:
    """Rows that may hold more than one cluster.

    Where the whole range lies within the distance of the smallest value, no gap can reach it: most
    rows need no sort.
    """
    low = np.where(present, rows, np.inf).min(axis=1)
    high = np.where(present, rows, -np.inf).max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        reaching = (high - low >= limits * np.minimum(abs(low), abs(high))) | (low * high <= 0)
    several: BoolArray = (high > low) & reaching
    return several


def _sorted_labels(rows: FloatArray, present: BoolArray, limits: FloatArray) -> IntArray:
    """Sort, find where clusters begin, count the beginnings not above each rank."""
    sortable = np.where(present, rows, np.inf)
    ascending = np.sort(sortable, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.diff(ascending, axis=1)
        smaller = np.minimum(abs(ascending[:, :-1]), abs(ascending[:, 1:]))
        parted = (gaps > 0) & (gaps >= limits[:, None] * smaller)  # a product: zero divides nothing
    labels = np.zeros(rows.shape, dtype=np.intp)
    for row in np.flatnonzero(parted.any(axis=1)):
        beginnings = ascending[row, 1:][parted[row]]
        labels[row] = np.searchsorted(beginnings, sortable[row], side="right")
    labels[~present] = -1
    return labels


def class_means(values: FloatArray, labels: IntArray, count: int) -> FloatArray:
    """Mean of each cluster: (n_rows, n_ranks) and their labels to (n_rows, count).

    NaN where a row has no value in that cluster.
    """
    rows = len(values)
    used = (labels >= 0) & (labels < count) & np.isfinite(values)
    slots = (np.arange(rows)[:, None] * count + labels)[used]
    sums = np.bincount(slots, weights=values[used], minlength=rows * count)
    numbers = np.bincount(slots, minlength=rows * count)
    means = np.full(rows * count, np.nan)
    np.divide(sums, numbers, out=means, where=numbers > 0)
    return means.reshape(rows, count)
