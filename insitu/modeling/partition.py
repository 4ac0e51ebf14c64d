"""The best partition of sorted values into few groups, exactly."""

import numpy as np

from insitu.measurement import FloatArray

CUTS = 30  # the widest gaps, where groups may part
CLEAR = 4.0  # standard deviations between groups that nobody would join


def clear_centres(y: FloatArray, weight: FloatArray, spread: float, most: int) -> FloatArray:
    """Centres of the best groups that lie clearly apart, their number by information criterion.

    Args and shapes as in `centres`.
    """
    ranks = float(weight.sum())
    best, lowest = np.array([float(weight @ y) / ranks]), np.inf
    for groups in centres(y, weight, spread, most):
        if np.any(np.diff(groups) < CLEAR * spread):
            continue
        index = abs(y[:, None] - groups).argmin(axis=1)
        size = np.bincount(index, weights=weight, minlength=len(groups))
        cost = float(weight @ ((y - groups[index]) / spread) ** 2)
        cost -= 2 * float(size @ np.log(np.maximum(size, 1e-9) / ranks))
        cost += 3 * (len(groups) - 1) * np.log(ranks)
        if cost < lowest:
            best, lowest = groups, cost
    return best


def centres(y: FloatArray, weight: FloatArray, spread: float, most: int) -> list[FloatArray]:
    """Centres of the best 1, 2 … `most` groups, by dynamic programming over the widest gaps.

    Best is the largest likelihood of normal groups of one spread whose shares are free.

    Args:
        y: ascending values; weight: how many ranks each stands for.
        spread: standard deviation within a group.
        most: largest number of groups.

    Returns:
        One array of ascending centres per number of groups, as many as there are values for.
    """
    gaps = np.diff(y)
    cuts = np.sort(np.argsort(-gaps, kind="stable")[:CUTS]) + 1
    bounds = np.concatenate([[0], cuts, [len(y)]]).astype(np.intp)
    sums = [np.concatenate([[0.0], np.cumsum(weight * y**power)])[bounds] for power in range(3)]
    number, total, square = (one[None, :] - one[:, None] for one in sums)
    valid = number > 0
    number = np.where(valid, number, 1.0)
    cost = (square - total**2 / number) / (2 * spread**2) - number * np.log(number / weight.sum())
    cost = np.where(valid, cost, np.inf)
    best, back = cost[0], []
    result = [(total / number)[0, -1:]]
    for _ in range(1, min(most, len(bounds) - 1)):
        candidates = best[:, None] + cost
        back.append(candidates.argmin(axis=0))
        best = candidates.min(axis=0)
        ends = [len(bounds) - 1]
        for step in reversed(back):
            ends.append(int(step[ends[-1]]))
        edges = np.array([0, *reversed(ends)])
        result.append((total / number)[edges[:-1], edges[1:]])
    return result
