"""Sketches of many ranks' values that merge, and that cluster as the values themselves do."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from insitu.modeling.classes.cluster import THRESHOLD
from insitu.modeling.measurement import FloatArray, IntArray

WIDTH = 1.08  # ratio of the bounds of a bucket: below any distance that parts clusters
OFFSET = 20_000  # above the logarithm of every number, in buckets: keeps signs apart


@dataclass(frozen=True, slots=True)
class Sketch:
    """Buckets of equal ratio of all call paths, ascending; each array is (n_buckets,).

    Rows are call paths; keys are positive for positive values, 0 for zero, negative for negative
    ones; lows and highs are the exact smallest and largest value in each bucket.
    """

    rows: IntArray
    keys: IntArray
    counts: IntArray
    sums: FloatArray
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True, slots=True)
class ClusterBounds:
    """Clusters of ranks, ascending within each row: bounds of the values, their number and mean.

    Each array is (n_clusters,) of all rows.
    """

    rows: IntArray
    lows: FloatArray
    highs: FloatArray
    counts: IntArray
    means: FloatArray


def sketch(values: FloatArray) -> Sketch:
    """Sketch the values of some ranks, (n_rows, n_ranks); what is not finite is left out."""
    rows, columns = np.nonzero(np.isfinite(values))
    found = values[rows, columns]
    size = abs(found)
    with np.errstate(divide="ignore"):
        bucket = np.floor(np.log(np.where(size > 0, size, 1.0)) / np.log(WIDTH))
    keys = (np.sign(found) * (bucket + OFFSET)).astype(np.intp)
    return _gathered(Sketch(rows, keys, np.ones(len(keys), dtype=np.intp), found, found, found))


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """The sketch of all ranks together, whatever the order and grouping of the parts."""
    if not sketches:
        return sketch(np.zeros((0, 0)))
    names = [field.name for field in fields(Sketch)]
    return _gathered(
        Sketch(*(np.concatenate([getattr(s, name) for s in sketches]) for name in names))
    )


def cluster_sketch(one: Sketch) -> ClusterBounds:
    """Clusters by relative distance: exactly those of `cluster` on all values.

    Values in one bucket are nearer to each other than the threshold, so clusters part only between
    buckets, where lowest and highest value are known exactly [CLU §III-B].
    """
    with np.errstate(over="ignore"):
        gaps = one.lows[1:] - one.highs[:-1]
        smaller = np.minimum(abs(one.lows[1:]), abs(one.highs[:-1]))
        parted = (gaps > 0) & (gaps >= THRESHOLD * smaller)
    starts = np.flatnonzero(np.concatenate([[True], parted | (np.diff(one.rows) > 0)]))
    starts = starts[starts < len(one.rows)]
    ends = np.append(starts[1:], len(one.rows))[: len(starts)] - 1
    if not len(starts):
        return ClusterBounds(one.rows, one.lows, one.highs, one.counts, one.sums)
    counts = np.add.reduceat(one.counts, starts)
    means = np.add.reduceat(one.sums, starts) / counts
    return ClusterBounds(one.rows[starts], one.lows[starts], one.highs[ends], counts, means)


def label_values(values: FloatArray, clusters: ClusterBounds) -> IntArray:
    """The cluster of each value that went into the sketch, (n_rows, n_ranks); -1 if not finite."""
    rows, columns = np.nonzero(np.isfinite(values))
    labels = np.full(values.shape, -1, dtype=np.intp)
    is_value = np.repeat([False, True], [len(clusters.rows), len(rows)])
    row = np.concatenate([clusters.rows, rows])
    order = np.lexsort((is_value, np.concatenate([clusters.lows, values[rows, columns]]), row))
    begun = np.empty(len(order), dtype=np.intp)
    begun[order] = np.cumsum(~is_value[order])
    before = np.searchsorted(clusters.rows, rows, side="left")  # clusters of the rows above
    labels[rows, columns] = begun[is_value] - before - 1
    return labels


def _gathered(one: Sketch) -> Sketch:
    """One element per row and key, ascending."""
    if not len(one.keys):
        return one
    order = np.lexsort((one.keys, one.rows))
    rows, keys = one.rows[order], one.keys[order]
    changes = (np.diff(rows) != 0) | (np.diff(keys) != 0)
    starts = np.flatnonzero(np.concatenate([[True], changes]))
    return Sketch(
        rows[starts],
        keys[starts],
        np.add.reduceat(one.counts[order], starts),
        np.add.reduceat(one.sums[order], starts),
        np.minimum.reduceat(one.lows[order], starts),
        np.maximum.reduceat(one.highs[order], starts),
    )
