"""Sketches of many ranks' values that merge, and that cluster as the values themselves do."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.errors import ModelingError
from insitu.measurement import FloatArray, IntArray
from insitu.modeling.cluster import THRESHOLD

WIDTH = 1.08  # ratio of the bounds of a bucket: below any distance that parts clusters
OFFSET = 20_000  # above the logarithm of every number, in buckets: keeps signs apart


@dataclass(frozen=True, slots=True)
class Sketch:
    """Buckets of equal ratio, ascending by value; each array has one element per bucket.

    Keys are positive for positive values, 0 for zero, negative for negative ones; lows and highs
    are the exact smallest and largest value in each bucket.
    """

    keys: IntArray
    counts: IntArray
    sums: FloatArray
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of ranks: bounds of its values, their number and mean."""

    low: float
    high: float
    count: int
    mean: float


def sketch(values: FloatArray) -> Sketch:
    """Sketch the values of some ranks, (n_ranks,); what is not finite is left out."""
    ascending = np.sort(values[np.isfinite(values)])
    size = abs(ascending)
    with np.errstate(divide="ignore"):
        bucket = np.floor(np.log(np.where(size > 0, size, 1.0)) / np.log(WIDTH))
    keys = (np.sign(ascending) * (bucket + OFFSET)).astype(np.intp)
    ones = np.ones(len(keys), dtype=np.intp)
    return _gathered(Sketch(keys, ones, ascending, ascending, ascending))


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """The sketch of all ranks together, whatever the order and grouping of the parts."""
    if not sketches:
        return sketch(np.zeros(0))
    parts = [np.concatenate([getattr(one, name) for one in sketches]) for name in Sketch.__slots__]
    order = np.argsort(parts[0], kind="stable")
    return _gathered(Sketch(*(part[order] for part in parts)))


def cluster_sketch(one: Sketch, threshold: float = THRESHOLD) -> list[Cluster]:
    """Clusters by relative distance, ascending: exactly those of `cluster` on all values.

    Values in one bucket are nearer to each other than the threshold, so clusters part only between
    buckets, where lowest and highest value are known exactly [CLU §III-B].

    Raises:
        ModelingError: if the threshold is not above the width of a bucket.
    """
    if threshold <= (WIDTH - 1) * (1 + 1e-9):
        raise ModelingError(
            f"sketches tell clusters apart from a relative distance of {WIDTH - 1:.0%} on; "
            f"{threshold:g} needs the values of all ranks"
        )
    if not len(one.keys):
        return []
    gaps = one.lows[1:] - one.highs[:-1]
    smaller = np.minimum(abs(one.lows[1:]), abs(one.highs[:-1]))
    parted = (gaps > 0) & (gaps >= threshold * smaller)
    starts = np.concatenate([[0], np.flatnonzero(parted) + 1])
    ends = np.concatenate([starts[1:], [len(one.keys)]]) - 1
    counts = np.add.reduceat(one.counts, starts)
    sums = np.add.reduceat(one.sums, starts)
    return [
        Cluster(float(low), float(high), int(count), float(total / count))
        for low, high, count, total in zip(
            one.lows[starts], one.highs[ends], counts, sums, strict=True
        )
    ]


def labels_of(values: FloatArray, clusters: Sequence[Cluster]) -> IntArray:
    """The cluster of each value that went into the sketch; -1 where it is not finite."""
    lows = np.array([one.low for one in clusters])
    found = np.searchsorted(lows, values, side="right") - 1
    return np.where(np.isfinite(values), found, -1)


def _gathered(one: Sketch) -> Sketch:
    """One element per key; the keys ascend."""
    if not len(one.keys):
        return one
    starts = np.flatnonzero(np.diff(one.keys, prepend=one.keys[0] - 1))
    return Sketch(
        one.keys[starts],
        np.add.reduceat(one.counts, starts),
        np.add.reduceat(one.sums, starts),
        np.minimum.reduceat(one.lows, starts),
        np.maximum.reduceat(one.highs, starts),
    )
