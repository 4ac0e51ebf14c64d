"""The best partitions of sorted values into few groups, exactly, of many sets at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

CUTS = 30  # the widest gaps, where groups may part
CLEAR = 4.0  # standard deviations between groups that nobody would join


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """Every stretch of values between two places where groups may part: (n_sets, n_cuts, n_cuts).

    number: how many ranks are in it; mean: of their values; scatter: sum of squares about it;
    entropy: number times the logarithm of its share; last: (n_sets,), where each set ends.
    """

    number: FloatArray
    mean: FloatArray
    scatter: FloatArray
    entropy: FloatArray
    last: IntArray


@dataclass(frozen=True, slots=True)
class Clustering:
    """The best partition of every set into so many groups; NaN where a set has fewer values.

    centres: (n_sets, n_groups), ascending; scatter: (n_sets,), about the centres; entropy:
    (n_sets,), number times logarithm of share, summed over groups.
    """

    centres: FloatArray
    scatter: FloatArray
    entropy: FloatArray


def sum_segments(sets: Sequence[tuple[FloatArray, FloatArray]]) -> SegmentSums:
    """Sum up sets of values.

    Args:
        sets: (n,) ascending values, and (n,) how many ranks each of them stands for.
    """
    most = min(max((len(y) for y, _ in sets), default=1), CUTS + 1) + 1
    sums = np.zeros((3, len(sets), most))
    last = np.zeros(len(sets), dtype=np.intp)
    for index, (y, weight) in enumerate(sets):
        cuts = np.sort(np.argsort(-np.diff(y), kind="stable")[:CUTS]) + 1
        bounds = np.concatenate([[0], cuts, [len(y)]])
        last[index] = len(bounds) - 1
        for power in range(3):
            total = np.concatenate([[0.0], np.cumsum(weight * y**power)])[bounds]
            sums[power, index, : len(bounds)] = total
            sums[power, index, len(bounds) :] = total[-1]
    number, total, square = sums[:, :, None, :] - sums[:, :, :, None]
    counted = np.maximum(number, 1e-300)
    whole = np.maximum(sums[0, :, -1], 1e-300)[:, None, None]
    entropy = np.where(number > 0, number * np.log(counted / whole), 0.0)
    mean = np.where(number > 0, total / counted, np.nan)
    scatter = np.where(number > 0, np.maximum(square - total**2 / counted, 0.0), np.inf)
    return SegmentSums(number, mean, scatter, entropy, last)


def best_clusterings(of: SegmentSums, spread: float, most: int) -> list[Clustering]:
    """The best 1, 2 … `most` groups of every set, by dynamic programming over the widest gaps.

    Best is the largest likelihood of normal groups of one spread whose shares are free.

    Args:
        of: the sets.
        spread: standard deviation within a group.
        most: largest number of groups.
    """
    cost = of.scatter / (2 * spread**2) - of.entropy
    sets = np.arange(len(of.last))
    best, back = cost[:, 0, :], list[IntArray]()
    result = [_groups(of, np.stack([np.zeros_like(of.last), of.last], axis=1), best)]
    for _ in range(1, most):
        candidates = best[:, :, None] + cost
        back.append(candidates.argmin(axis=1))
        best = candidates.min(axis=1)
        edges = [of.last]
        for step in reversed(back):
            edges.append(step[sets, edges[-1]])
        edges.append(np.zeros_like(of.last))
        result.append(_groups(of, np.stack(edges[::-1], axis=1), best))
    return result


def _groups(of: SegmentSums, edges: IntArray, best: FloatArray) -> Clustering:
    """What lies between the edges (n_sets, n_groups + 1)."""
    sets = np.arange(len(edges))
    at = (sets[:, None], edges[:, :-1], edges[:, 1:])
    exists = np.isfinite(best[sets, of.last])
    centres = np.where(exists[:, None], of.mean[at], np.nan)
    scatter = np.where(exists, of.scatter[at].sum(axis=1), np.nan)
    return Clustering(centres, scatter, of.entropy[at].sum(axis=1))


def separated_clusterings(
    of: SegmentSums, spread: float, most: int
) -> tuple[list[FloatArray], FloatArray, float]:
    """The best groups of every set that lie clearly apart, their number by information criterion.

    Returns:
        Centres (n_groups,) per set; (n_sets,) costs, without what does not depend on groups;
        scatter of all.
    """
    ranks = of.number[:, 0, :].max(axis=1)
    found = best_clusterings(of, spread, most)
    costs, scatters = np.full((2, len(found), len(of.last)), np.inf)
    for index, groups in enumerate(found):
        with np.errstate(invalid="ignore"):
            apart = np.all(np.diff(groups.centres, axis=1) >= CLEAR * spread, axis=1)
        cost = groups.scatter / spread**2 - 2 * groups.entropy + 3 * index * np.log(ranks)
        used = apart & np.isfinite(cost)
        costs[index, used], scatters[index, used] = cost[used], groups.scatter[used]
    chosen, sets = costs.argmin(axis=0), np.arange(len(of.last))
    centres = [found[count].centres[index] for index, count in enumerate(chosen.tolist())]
    return centres, costs[chosen, sets], float(scatters[chosen, sets].sum())
