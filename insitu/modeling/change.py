"""Where behaviour changes: the evidence of every way to cut a series into segments.

Each stretch of consecutive points has an evidence of its own, its hypothesis and coefficients
integrated out; the evidence of a partition is the product over its segments, at one noise level.
Sums over all partitions come by dynamic programming. Paper [SEG §3] looks at the error of models
of five points instead, and assumes one change point.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from insitu.measurement import FloatArray, IntArray
from insitu.modeling.lattice import Lattice, dense
from insitu.modeling.posterior import candidates
from insitu.modeling.relative import Data

MIN_POINTS = 6  # that a change of behaviour can be told from [SEG §1]
LONG = 8  # points from which a segment must have LONGER
SHORTER, LONGER = 2, 3  # points a segment must have
CHANGED = 0.5  # prior of one or more change points; two or more among those, and so on
DETECTED = 0.2  # posterior from which a change of behaviour is reported
MOST = 4  # change points
COMMON = 2.0  # logarithm of the odds below which neighbouring places are not told apart
DENSE_FROM = 6  # points from which a stretch may have near-continuous exponents
DENSE_SHARE = 0.5  # of the prior
PAIRS_FROM = 8  # points from which a stretch may have two terms
HARDLY = 0.05  # posterior below which a change is not looked for
SIMPLE = {  # exponents of terms that hint at the misfit of all of them
    *((0, j, 0) for j in (1, 2)),
    *((i / 2, 0, 0) for i in (-2, 1, 2, 3, 4, 5, 6, 7)),
    *((i, 1, 0) for i in (1, 2)),
}
PRICE_OF_CONSTANT, PRICE_OF_TERM, SLACK = 2.5, 3.0, 1.0  # logarithms of odds
SUSPECTED = 0.05  # posterior from which more than one change point is looked for
FLOOR = 0.004  # noise that is assumed at least: smaller deviations are no change of behaviour
LOWEST = -1e300

Stretches = dict[tuple[int, int], FloatArray]  # [i, j) -> (s, L) logarithm of the evidence


@dataclass(frozen=True, slots=True)
class Partitions:
    """Sums over all ways to cut series of n points.

    by_count: (K, s, L), logarithm of the probability of the data and of k change points, prior
    included.
    """

    by_count: FloatArray
    stretches: Stretches
    points: int

    def total(self) -> FloatArray:
        """Logarithm of the probability of the data at each noise level: (s, L)."""
        return np.asarray(np.logaddexp.reduce(self.by_count, axis=0))

    def changed(self, law: FloatArray) -> FloatArray:
        """Posterior of each number of change points: (K, s); law: (s, L)."""
        joint = self.by_count + np.log(np.maximum(law, 1e-300))
        top = joint.max(axis=(0, 2), keepdims=True)
        weight = np.exp(joint - top).sum(axis=2)
        return np.asarray(weight / weight.sum(axis=0))

    def noise(self, rows: IntArray, law: FloatArray) -> FloatArray:
        """Posterior of the noise level of some series that change: (s, L); law: (all s, L)."""
        joint = self.by_count[1:, rows] + np.log(np.maximum(law[rows], 1e-300))
        weight = np.exp(joint - joint.max(axis=(0, 2), keepdims=True)).sum(axis=0)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def cuts(self, row: int, count: int, law: FloatArray) -> tuple[list[int], float]:
        """The most probable cuts of one series into count + 1 segments, and their probability.

        Args:
            law: (L,), of this series.
        """
        level = int(np.argmax(self.by_count[count, row] + np.log(np.maximum(law, 1e-300))))
        n = self.points
        best: dict[tuple[int, int], tuple[float, list[int]]] = {(0, 0): (0.0, [])}
        for k in range(1, count + 2):
            for (i, j), evidence in self.stretches.items():
                before = best.get((k - 1, i))
                if before is None:
                    continue
                value = before[0] + float(evidence[row, level])
                if value > best.get((k, j), (LOWEST, []))[0]:
                    best[k, j] = (value, [*before[1], j])
        value, ends = best[count + 1, n]
        share = value + _log_prior(count) - _log_number(self.stretches, count, n)
        place = float(np.exp(min(share - self.by_count[count, row, level], 0.0)))
        return self._earlier(row, level, ends[:-1]), place

    def _earlier(self, row: int, level: int, cuts: list[int]) -> list[int]:
        """A point through which both functions go belongs to the second: it is the common point of
        [SEG §3.2], and the data cannot tell on which side of it behaviour changed.
        """
        for place, cut in enumerate(cuts):
            before, after = [0, *cuts][place], [*cuts, self.points][place + 1]
            here, there = (
                [self.stretches.get(span) for span in ((before, k), (k, after))]
                for k in (cut, cut - 1)
            )
            if any(part is None for part in there):
                continue
            gain = sum(float(part[row, level]) for part in there if part is not None)
            loss = sum(float(part[row, level]) for part in here if part is not None)
            if loss - gain < COMMON:
                cuts = [*cuts[:place], cut - 1, *cuts[place + 1 :]]
        return cuts


def shortest(points: int) -> int:
    """How many points a segment must have in a series of so many."""
    return LONGER if points >= LONG else SHORTER


def partitions(
    data: Data,
    lattice: Lattice,
    levels: FloatArray,
    *,
    parameter: str,
    x: FloatArray,
    several: bool,
) -> Partitions:
    """Evidence of one function and of cuts into segments; of one cut only, unless `several`."""
    n = data.weights.shape[1]
    least = shortest(n)
    spans = [
        (i, j)
        for i in range(n)
        for j in range(i + 1, n + 1)
        if (i, j) == (0, n) or (j - i >= least and (several or i == 0 or j == n))
    ]
    near = dense(parameter)
    rows = near.design(x)
    with np.errstate(invalid="ignore"):
        size = np.abs(rows).max(axis=1)
    rows /= np.where(np.isfinite(size) & (size > 0), size, 1.0)[:, None]
    stretches = {}
    for i, j in spans:
        part = data.part(slice(None), slice(i, j))
        evidence = _evidence(part, lattice, levels)
        if j - i >= DENSE_FROM:
            off = replace(part, rows=rows[:, i:j])
            evidence += np.log(1 - DENSE_SHARE)
            evidence = np.logaddexp(evidence, _evidence(off, near, levels) + np.log(DENSE_SHARE))
        enough = part.counts >= (least if j - i < n else 1)
        stretches[i, j] = np.where(enough[:, None], evidence, LOWEST)
    most = max(0, min(MOST if several else 1, n // least - 1)) if n >= MIN_POINTS else 0
    sums = _sums(stretches, n, most)
    by_count = [
        total + _log_prior(k) - _log_number(stretches, k, n) for k, total in enumerate(sums)
    ]
    return Partitions(np.array(by_count), stretches, n)


def _evidence(part: Data, lattice: Lattice, levels: FloatArray) -> FloatArray:
    found = candidates(part, lattice, levels, pairs=part.weights.shape[1] >= PAIRS_FROM)
    top = found.log_evidence.max(axis=1)
    return np.asarray(np.log(np.exp(found.log_evidence - top[:, None]).sum(axis=1)) + top)


def _sums(stretches: Stretches, n: int, most: int) -> list[FloatArray]:
    """ln Σ over partitions of [0, n) with 0 .. most cuts."""
    reached: dict[int, FloatArray] = {0: np.zeros(next(iter(stretches.values())).shape)}
    totals = []
    for _ in range(most + 1):
        following: dict[int, FloatArray] = {}
        for (i, j), evidence in stretches.items():
            if i in reached:
                value = reached[i] + evidence
                following[j] = np.logaddexp(following[j], value) if j in following else value
        totals.append(following.get(n, np.full_like(evidence, LOWEST)))
        reached = following
    return totals


def _log_number(stretches: Stretches, count: int, n: int) -> float:
    """Logarithm of the number of partitions with so many cuts."""
    reached = {0: 1}
    for _ in range(count + 1):
        following: dict[int, int] = {}
        for i, j in stretches:
            if i in reached:
                following[j] = following.get(j, 0) + reached[i]
        reached = following
    return float(np.log(max(reached.get(n, 0), 1)))


def _log_prior(count: int) -> float:
    return count * float(np.log(CHANGED)) + float(np.log(1 - CHANGED))


def floored(law: FloatArray, levels: FloatArray) -> FloatArray:
    """The law with what lies below FLOOR moved to the first level above it: (s, L)."""
    low = levels < FLOOR
    answer = np.where(low, 0.0, law)
    if low.any() and not low.all():
        answer[:, int(low.sum())] += law[:, low].sum(axis=1)
    return answer if not low.all() else law


def bounds(cuts: Sequence[int], n: int) -> list[tuple[int, int]]:
    """The points [i, j) of each segment."""
    return list(pairwise([0, *cuts, n]))


def worth_cutting(
    data: Data, lattice: Lattice, *, whole: FloatArray, law: FloatArray, levels: FloatArray
) -> IntArray:
    """Series in which one cut could be more than hardly probable.

    A bound from the residuals of a few simple terms left and right of each cut, and from what the
    coefficients of two segments cost at least; much cheaper than the evidence.

    Args:
        whole: (s,) logarithm of the evidence of one function. law: (s, L).
    """
    n = data.weights.shape[1]
    least = shortest(n)
    cuts = np.arange(least, n - least + 1)
    chosen = [i for i, exponent in enumerate(lattice.exponents) if tuple(exponent) in SIMPLE]
    left = _residuals(data, data.rows[chosen])[:, :, cuts - 1]
    right = _residuals(data, data.rows[chosen], backwards=True)[:, :, cuts]
    answer = np.full(len(whole), LOWEST)
    for level, share in zip(levels.tolist(), np.log(np.maximum(law, 1e-300)).T, strict=True):
        charge = 2 * level**2 * PRICE_OF_TERM
        misfit = np.minimum(left[0], left[1] + charge) + np.minimum(right[0], right[1] + charge)
        price = 2 * (np.log(np.sqrt(n / 2) / level) + PRICE_OF_CONSTANT)
        best = -misfit.min(axis=1) / (2 * level**2) - price + SLACK
        value = best + share - data.counts / 2 * np.log(2 * np.pi * level**2)
        answer = np.logaddexp(answer, value)
    return np.flatnonzero((answer > whole + np.log(HARDLY)) & (data.counts >= MIN_POINTS))


def _residuals(data: Data, rows: FloatArray, *, backwards: bool = False) -> FloatArray:
    """Residual sums of squares up to each point, or from it on: of the constant, of the best
    term.
    """
    order = slice(None, None, -1) if backwards else slice(None)
    w, m, t = data.weights[:, order], data.moments[:, order], rows[:, order]
    ones, total = np.maximum(np.cumsum(w, axis=1), 1e-300), np.cumsum(m, axis=1)
    squares = np.cumsum(m**2 / np.where(w > 0, w, 1.0), axis=1)
    constant = np.maximum(squares - total**2 / ones, 0.0)
    first = np.cumsum(w[:, None] * t, axis=2)
    spread = np.cumsum(w[:, None] * t**2, axis=2) - first**2 / ones[:, None]
    along = np.cumsum(m[:, None] * t, axis=2) - first * (total / ones)[:, None]
    gain = np.where(spread > 1e-12 * ones[:, None], along**2 / np.maximum(spread, 1e-300), 0.0)
    sloped = np.maximum(constant - gain.max(axis=1), 0.0)
    return np.stack([constant, sloped])[:, :, order]
