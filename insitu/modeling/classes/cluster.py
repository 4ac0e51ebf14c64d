"""Relative-distance clustering of ranks: which of them behave alike in one run."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from insitu.errors import ModelingError
from insitu.modeling.measurement import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
CHUNK_VALUES = 200_000  # values that are clustered at a time: they fit in the cache of a core
THRESHOLD = 0.10  # relative distance at which a new cluster begins [CLU §III-B]


def cluster(values: "ArrayLike", threshold: "ArrayLike" = THRESHOLD) -> IntArray:
    """Label each rank with its cluster, 0 for the smallest values.

    Two neighbours in sorted order belong to different clusters if their distance, relative to the
    smaller of the two magnitudes, reaches the threshold. A relative distance separates clusters of
    any magnitude [CLU §III-B]. Zero is infinitely far from every other value, and so are values of
    the other sign.

    Args:
        values: shape (n_rows, n_ranks), one row per call path, or (n_ranks,).
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
    thresholds = np.broadcast_to(np.asarray(threshold, dtype=np.float64), rows.shape[:1])
    if not np.all(thresholds > 0):
        raise ModelingError("cluster: thresholds must be positive, as in 0.10 for 10 %")

    labels = np.zeros(rows.shape, dtype=np.intp)
    n_rows, n_ranks = rows.shape
    step = max(CHUNK_VALUES // max(n_ranks, 1), 1)
    for first in range(0, n_rows if n_ranks else 0, step):
        chunk = slice(first, first + step)
        labels[chunk] = _label_rows(rows[chunk], thresholds[chunk])
    return labels.reshape(array.shape)


def _label_rows(rows: FloatArray, thresholds: FloatArray) -> IntArray:
    is_present = np.isfinite(rows)
    labels = np.where(is_present, 0, -1).astype(np.intp)
    several = _may_have_several(rows, is_present, thresholds)
    labels[several] = _label_sorted(rows[several], is_present[several], thresholds[several])
    return labels


def _may_have_several(rows: FloatArray, is_present: BoolArray, thresholds: FloatArray) -> BoolArray:
    """Rows that may have more than one cluster: (n_rows,).

    Where the whole range lies within the threshold of the smallest value, no gap can reach it, so
    most rows need not be sorted.
    """
    low = np.where(is_present, rows, np.inf).min(axis=1)
    high = np.where(is_present, rows, -np.inf).max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        is_wide = high - low >= thresholds * np.minimum(abs(low), abs(high))
        crosses_zero = low * high <= 0
    several: BoolArray = (high > low) & (is_wide | crosses_zero)
    return several


def _label_sorted(rows: FloatArray, is_present: BoolArray, thresholds: FloatArray) -> IntArray:
    """Sort, find the first value of each cluster, and count those not above each rank."""
    sortable = np.where(is_present, rows, np.inf)
    ascending = np.sort(sortable, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.diff(ascending, axis=1)
        smaller = np.minimum(abs(ascending[:, :-1]), abs(ascending[:, 1:]))
        # Multiply instead of dividing: a rank at zero must not divide anything.
        is_boundary = (gaps > 0) & (gaps >= thresholds[:, None] * smaller)

    labels = np.zeros(rows.shape, dtype=np.intp)
    for row in np.flatnonzero(is_boundary.any(axis=1)):
        first_values = ascending[row, 1:][is_boundary[row]]
        labels[row] = np.searchsorted(first_values, sortable[row], side="right")
    labels[~is_present] = -1
    return labels


def class_means(values: FloatArray, labels: IntArray, count: int) -> FloatArray:
    """Mean of each cluster. How it is rounded does not depend on other rows.

    Args:
        values: shape (n_rows, n_ranks).
        labels: of the same shape, or (n_ranks,) if all rows have the same; negative ones, and those
            from `count` on, are left out.
        count: number of clusters.

    Returns:
        Shape (n_rows, count), NaN where a row has no value in that cluster.
    """
    if labels.ndim == 1:
        return _means_of_shared_clusters(values, labels, count)

    n_rows = len(values)
    is_used = (labels >= 0) & (labels < count) & np.isfinite(values)
    cells = (np.arange(n_rows)[:, None] * count + labels)[is_used]

    sums = np.bincount(cells, weights=values[is_used], minlength=n_rows * count)
    numbers = np.bincount(cells, minlength=n_rows * count)
    means = np.full(n_rows * count, np.nan)
    np.divide(sums, numbers, out=means, where=numbers > 0)
    return means.reshape(n_rows, count)


def _means_of_shared_clusters(values: FloatArray, labels: IntArray, count: int) -> FloatArray:
    """Do what `class_means` does for (n_ranks,) labels; values are added in the same order."""
    means = np.full((len(values), count), np.nan)
    is_complete = np.isfinite(values).all(axis=1)
    if not is_complete.all():
        rest = values[~is_complete]
        means[~is_complete] = class_means(rest, np.broadcast_to(labels, rest.shape), count)
        values = values[is_complete]

    for label in range(count):
        members = np.flatnonzero(labels == label)
        if not len(members):
            continue
        first, end = int(members[0]), int(members[-1]) + 1
        is_contiguous = end - first == len(members)
        chosen = values[:, first:end] if is_contiguous else np.take(values, members, axis=1)
        means[is_complete, label] = chosen.cumsum(axis=1)[:, -1] / len(members)
    return means
