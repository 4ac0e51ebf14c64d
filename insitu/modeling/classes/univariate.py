"""Optimal clusterings of one-dimensional data, many sets at once.

Optimal clusters of sorted values are contiguous, so dynamic programming over the boundaries between
them finds the optimum [H. Wang, M. Song: Ckmeans.1d.dp, The R Journal 3/2 (2011)].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.candidates import HALF_LOG_2PI, OUTLIER_SHARE
from insitu.modeling.measurement import FloatArray, IntArray

MAX_BOUNDARIES = 30  # clusters begin only at so many of the widest gaps
SEPARATION = 4.0  # standard deviations between the centres of clearly separated clusters
SEPARATED_SPREADS = (0.0015, 0.01, 0.04)  # relative, first spreads of separated clusters
SEPARATED_ROUNDS = 3
SAME_SPREAD = 0.02  # in logarithm: spreads nearer to each other are not both tried
TINY = 1e-300  # keeps divisors and logarithms of empty segments finite


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """Statistics of every segment between two boundaries: (n_sets, n_boundaries, n_boundaries).

    number: of ranks; mean: of their values; scatter: sum of squares about the mean; entropy: number
    times the logarithm of its share of the set; last: (n_sets,), the last boundary of each set.
    """

    number: FloatArray
    mean: FloatArray
    scatter: FloatArray
    entropy: FloatArray
    last: IntArray


@dataclass(frozen=True, slots=True)
class Clustering:
    """The best clusters of every set, of a given number; NaN where a set has too few values.

    centres: (n_sets, n_clusters), ascending; scatter: (n_sets,), sum of squares about the centres;
    entropy: (n_sets,), number times logarithm of share, summed over clusters.
    """

    centres: FloatArray
    scatter: FloatArray
    entropy: FloatArray


def sum_segments(sets: Sequence[tuple[FloatArray, FloatArray]]) -> SegmentSums:
    """Compute the statistics of all segments of sets of values.

    Args:
        sets: (n,) ascending values, and (n,) how many ranks each of them stands for.
    """
    longest = max((len(y) for y, _ in sets), default=1)
    n_boundaries = min(longest, MAX_BOUNDARIES + 1) + 1

    # Moments of order 0, 1 and 2 below each boundary; their differences are those of segments.
    sums = np.zeros((3, len(sets), n_boundaries))
    last = np.zeros(len(sets), dtype=np.intp)
    for index, (y, weight) in enumerate(sets):
        widest = np.argsort(-np.diff(y), kind="stable")[:MAX_BOUNDARIES]
        bounds = np.concatenate([[0], np.sort(widest) + 1, [len(y)]])
        last[index] = len(bounds) - 1
        for power in range(3):
            below = np.concatenate([[0.0], np.cumsum(weight * y**power)])[bounds]
            sums[power, index, : len(bounds)] = below
            sums[power, index, len(bounds) :] = below[-1]

    number, total, square = sums[:, :, None, :] - sums[:, :, :, None]
    divisor = np.maximum(number, TINY)
    set_number = np.maximum(sums[0, :, -1], TINY)[:, None, None]
    return SegmentSums(
        number=number,
        mean=np.where(number > 0, total / divisor, np.nan),
        scatter=np.where(number > 0, np.maximum(square - total**2 / divisor, 0.0), np.inf),
        entropy=np.where(number > 0, number * np.log(divisor / set_number), 0.0),
        last=last,
    )


def best_clusterings(segments: SegmentSums, spread: float, max_clusters: int) -> list[Clustering]:
    """The best 1, 2 … `max_clusters` clusters of every set, by dynamic programming.

    Best is the largest likelihood of normal clusters of one spread whose shares are free.

    Args:
        segments: of the sets.
        spread: standard deviation within a cluster.
        max_clusters: largest number of clusters.
    """
    cost = segments.scatter / (2 * spread**2) - segments.entropy
    sets = np.arange(len(segments.last))

    # lowest[s, b]: cost of the best clusters of set s below boundary b.
    lowest = cost[:, 0, :]
    steps: list[IntArray] = []
    edges = np.stack([np.zeros_like(segments.last), segments.last], axis=1)
    clusterings = [_clustering_at(segments, edges, lowest)]

    for _ in range(1, max_clusters):
        totals = lowest[:, :, None] + cost
        steps.append(totals.argmin(axis=1))
        lowest = totals.min(axis=1)

        # Walk back from the last boundary to the first.
        path = [segments.last]
        for step in reversed(steps):
            path.append(step[sets, path[-1]])
        path.append(np.zeros_like(segments.last))
        edges = np.stack(path[::-1], axis=1)
        clusterings.append(_clustering_at(segments, edges, lowest))

    return clusterings


def _clustering_at(segments: SegmentSums, edges: IntArray, lowest: FloatArray) -> Clustering:
    """The clusters between edges, (n_sets, n_clusters + 1)."""
    sets = np.arange(len(edges))
    at = (sets[:, None], edges[:, :-1], edges[:, 1:])
    exists = np.isfinite(lowest[sets, segments.last])
    return Clustering(
        centres=np.where(exists[:, None], segments.mean[at], np.nan),
        scatter=np.where(exists, segments.scatter[at].sum(axis=1), np.nan),
        entropy=segments.entropy[at].sum(axis=1),
    )


def find_separated(
    segments: SegmentSums, *, floor: float, within: float, max_clusters: int
) -> tuple[float, list[FloatArray], float]:
    """Clearly separated clusters of each set, with no law of their ratio: spread, centres, cost.

    They explain classes whose distance follows no shape, where noise is small beside it.

    Args:
        segments: of the sets.
        floor: least standard deviation within a cluster.
        within: scatter of the values within those that they were merged into.
        max_clusters: largest number of clusters of a set.
    """
    best: tuple[float, list[FloatArray], float] = (floor, [], np.inf)
    ranks = float(segments.number[:, 0, :].max(axis=1).sum())
    tried: set[int] = set()

    for first_spread in SEPARATED_SPREADS:
        spread = max(floor, first_spread)
        for _ in range(SEPARATED_ROUNDS):
            key = round(np.log(spread) / SAME_SPREAD)
            if key in tried:
                break
            tried.add(key)

            centres, costs, scatter = separated_clusterings(segments, spread, max_clusters)
            cost = float(costs.sum()) + within / spread**2
            cost += 2 * ranks * (np.log(spread) + HALF_LOG_2PI - np.log(1 - OUTLIER_SHARE))
            cost += float(np.log(ranks))  # the spread is a parameter, too
            if cost < best[2]:
                best = (spread, centres, cost)
            spread = max(floor, float(np.sqrt((scatter + within) / ranks)))
    return best


def separated_clusterings(
    segments: SegmentSums, spread: float, max_clusters: int
) -> tuple[list[FloatArray], FloatArray, float]:
    """The best clearly separated clusters of every set, their number by information criterion.

    Returns:
        Centres (n_clusters,) per set; (n_sets,) costs, without what does not depend on the
        clusters; the scatter of all sets.
    """
    ranks = segments.number[:, 0, :].max(axis=1)
    clusterings = best_clusterings(segments, spread, max_clusters)

    costs, scatters = np.full((2, len(clusterings), len(segments.last)), np.inf)
    for index, clustering in enumerate(clusterings):
        with np.errstate(invalid="ignore"):
            gaps = np.diff(clustering.centres, axis=1)
            is_separated = np.all(gaps >= SEPARATION * spread, axis=1)

        # Another cluster has a centre, a share and a boundary: three parameters.
        fit = clustering.scatter / spread**2 - 2 * clustering.entropy
        cost = fit + 3 * index * np.log(ranks)
        is_valid = is_separated & np.isfinite(cost)
        costs[index, is_valid] = cost[is_valid]
        scatters[index, is_valid] = clustering.scatter[is_valid]

    chosen, sets = costs.argmin(axis=0), np.arange(len(segments.last))
    centres = [clusterings[count].centres[index] for index, count in enumerate(chosen.tolist())]
    return centres, costs[chosen, sets], float(scatters[chosen, sets].sum())


def merge_values(logs: Sequence[FloatArray], cell: float) -> list[tuple[FloatArray, FloatArray]]:
    """Per run ascending values at least about a cell apart, and how many ranks each stands for."""
    merged = []
    for run_logs in logs:
        index = np.unique(np.round(run_logs / cell), return_inverse=True)[1].ravel()
        counts = np.bincount(index).astype(np.float64)
        merged.append((np.bincount(index, weights=run_logs) / counts, counts))
    return merged


def scatter_within(
    logs: Sequence[FloatArray], merged: Sequence[tuple[FloatArray, FloatArray]]
) -> float:
    """What merging takes from the squared distances to any centre; merged means are exact."""
    squares = [float(run_logs @ run_logs) for run_logs in logs]
    kept = [float(weight @ y**2) for y, weight in merged]
    return max(sum(squares) - sum(kept), 0.0)
