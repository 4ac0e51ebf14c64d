"""Sketches of the values of many ranks that merge, and that cluster as the values themselves do."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from insitu.modeling.classes.cluster import THRESHOLD
from insitu.modeling.measurement import FloatArray, IntArray

WIDTH = 1.08  # ratio of the bounds of a bucket: below 1 + THRESHOLD, so that no bucket is split
OFFSET = 20_000  # buckets; above the logarithm of every number, so that keys keep the sign


@dataclass(frozen=True, slots=True)
class Sketch:
    """Buckets of equal ratio, ascending by row and key; each array is (n_buckets,).

    rows: call paths; keys: positive for positive values, 0 for zero, negative for negative ones;
    counts, sums: of the values in the bucket; lows, highs: exact smallest and largest of them.
    """

    rows: IntArray
    keys: IntArray
    counts: IntArray
    sums: FloatArray
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True, slots=True)
class ClusterBounds:
    """Clusters of ranks, ascending within each row; each array is (n_clusters,) of all rows.

    lows, highs: smallest and largest value; counts: number of ranks; means: of their values.
    """

    rows: IntArray
    lows: FloatArray
    highs: FloatArray
    counts: IntArray
    means: FloatArray


def sketch(values: FloatArray) -> Sketch:
    """Sketch the values of some ranks, (n_rows, n_ranks); what is not finite is left out."""
    rows, columns = np.nonzero(np.isfinite(values))
    finite = values[rows, columns]
    magnitude = abs(finite)
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.where(magnitude > 0, magnitude, 1.0))
        bucket = np.floor(logarithm / np.log(WIDTH))
    keys = (np.sign(finite) * (bucket + OFFSET)).astype(np.intp)

    each = Sketch(
        rows=rows,
        keys=keys,
        counts=np.ones(len(keys), dtype=np.intp),
        sums=finite,
        lows=finite,
        highs=finite,
    )
    return _combine_buckets(each)


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """The sketch of all ranks together; it does not depend on order or grouping of the sketches."""
    if not sketches:
        return sketch(np.zeros((0, 0)))

    columns = {}
    for field in fields(Sketch):
        columns[field.name] = np.concatenate([getattr(entry, field.name) for entry in sketches])
    return _combine_buckets(Sketch(**columns))


def cluster_sketch(merged: Sketch) -> ClusterBounds:
    """Cluster by relative distance: exactly as `cluster` does on all values.

    Values in one bucket are nearer to each other than the threshold, so clusters begin only between
    buckets, where the lowest and highest value are known exactly [CLU §III-B].
    """
    with np.errstate(over="ignore"):
        gaps = merged.lows[1:] - merged.highs[:-1]
        smaller = np.minimum(abs(merged.lows[1:]), abs(merged.highs[:-1]))
        is_boundary = (gaps > 0) & (gaps >= THRESHOLD * smaller)

    begins = np.concatenate([[True], is_boundary | (np.diff(merged.rows) > 0)])
    starts = np.flatnonzero(begins)
    starts = starts[starts < len(merged.rows)]
    if not len(starts):
        return ClusterBounds(merged.rows, merged.lows, merged.highs, merged.counts, merged.sums)

    ends = np.append(starts[1:], len(merged.rows)) - 1
    counts = np.add.reduceat(merged.counts, starts)
    return ClusterBounds(
        rows=merged.rows[starts],
        lows=merged.lows[starts],
        highs=merged.highs[ends],
        counts=counts,
        means=np.add.reduceat(merged.sums, starts) / counts,
    )


def label_values(values: FloatArray, clusters: ClusterBounds) -> IntArray:
    """The cluster of each value that went into the sketch; -1 if it is not finite.

    Args:
        values: shape (n_rows, n_ranks).
        clusters: of the merged sketch.

    Returns:
        Labels of the same shape.
    """
    rows, columns = np.nonzero(np.isfinite(values))
    labels = np.full(values.shape, -1, dtype=np.intp)

    # Sort the lower bounds of clusters and the values together; a bound comes before its equal.
    is_value = np.repeat([False, True], [len(clusters.rows), len(rows)])
    all_rows = np.concatenate([clusters.rows, rows])
    all_values = np.concatenate([clusters.lows, values[rows, columns]])
    order = np.lexsort((is_value, all_values, all_rows))

    # The cluster of a value is the number of bounds up to it, without those of the rows above.
    bounds_so_far = np.empty(len(order), dtype=np.intp)
    bounds_so_far[order] = np.cumsum(~is_value[order])
    in_rows_above = np.searchsorted(clusters.rows, rows, side="left")
    labels[rows, columns] = bounds_so_far[is_value] - in_rows_above - 1
    return labels


def _combine_buckets(buckets: Sketch) -> Sketch:
    """One bucket per row and key, ascending."""
    if not len(buckets.keys):
        return buckets

    order = np.lexsort((buckets.keys, buckets.rows))
    rows, keys = buckets.rows[order], buckets.keys[order]
    is_new = (np.diff(rows) != 0) | (np.diff(keys) != 0)
    starts = np.flatnonzero(np.concatenate([[True], is_new]))
    return Sketch(
        rows=rows[starts],
        keys=keys[starts],
        counts=np.add.reduceat(buckets.counts[order], starts),
        sums=np.add.reduceat(buckets.sums[order], starts),
        lows=np.minimum.reduceat(buckets.lows[order], starts),
        highs=np.maximum.reduceat(buckets.highs[order], starts),
    )
