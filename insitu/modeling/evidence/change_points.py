"""Where behaviour changes: the evidence of every way to cut a series into segments.

Each stretch of consecutive points has an evidence of its own, its hypothesis and coefficients
integrated out. Where two segments meet, either nothing binds them, or both functions go through the
first point of the second: such a change of slope has one coefficient less to learn. The evidence of
a partition is the product over its segments and joints, at one noise level; sums over all
partitions come by dynamic programming. Paper [SEG §3] looks at the error of models of five points
instead, and assumes one change point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from insitu.modeling.evidence.hypothesis_space import Lattice
from insitu.modeling.evidence.relative_data import Data
from insitu.modeling.evidence.segment import LOWEST, Stretch, meeting, stretch
from insitu.modeling.measurement import FloatArray, IntArray

MIN_POINTS = 6  # that a change of behaviour can be told from [SEG §1]
LONG = 8  # points from which a segment must have LONGER
SHORTER, LONGER = 2, 3  # points a segment must have
AGAIN = 0.5  # prior of a further change after the first, and so on
DETECTED = 0.5  # posterior from which a change of behaviour is reported
MOST = 4  # change points
HARDLY = 0.05  # posterior below which a change is not looked for
SIMPLE = {  # exponents of terms that hint at the misfit of all of them
    *((0, j, 0) for j in (1, 2)),
    *((i / 2, 0, 0) for i in (-2, 1, 2, 3, 4, 5, 6, 7)),
    *((i, 1, 0) for i in (1, 2)),
}
PRICE_OF_CONSTANT, PRICE_OF_TERM, SLACK = 2.5, 3.0, 1.0  # logarithms of odds
SUSPECTED = 0.05  # posterior from which more than one change point is looked for
FLOOR = 0.004  # noise that is assumed at least: smaller deviations are no change of behaviour

Stretches = dict[tuple[int, int], Stretch]  # points [i, j)
Joints = dict[tuple[int, int, int], FloatArray]  # [i, k), [k, j): (s, L), logarithm


@dataclass(frozen=True, slots=True)
class Habits:
    """How often series change, before their data: probabilities that sum to 1.

    steady: one function; jump: segments that need not meet; bend: segments whose functions meet at
    the first point of the second.
    """

    steady: float = 0.5
    jump: float = 0.4
    bend: float = 0.1

    def shares(self) -> FloatArray:
        """The probabilities (3,), in the order of `kinds`."""
        return np.array([self.steady, self.jump, self.bend])

    def odds(self) -> float:
        """Logarithm of the odds of a change."""
        return float(np.log((self.jump + self.bend) / self.steady))


@dataclass(frozen=True, slots=True)
class Partitions:
    """Sums over all ways to cut series of n points.

    by_count: (K, s, L), logarithm of the probability of the data and of k change points, prior
    included; sums: without prior. joints: evidence of two segments that meet, relative to the
    product of both.
    """

    by_count: FloatArray
    sums: list[FloatArray]
    stretches: Stretches
    joints: Joints
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
        weight = np.log(np.maximum(law, 1e-300))
        if count == 1:
            return self._cut(row, weight)
        level = int(np.argmax(self.by_count[count, row] + weight))
        best: dict[tuple[int, int], tuple[float, list[int]]] = {
            (0, j): (float(one.evidence[row, level]), [])
            for (i, j), one in self.stretches.items()
            if i == 0
        }
        for _ in range(count):
            following: dict[tuple[int, int], tuple[float, list[int]]] = {}
            for (i, k, j), bound in self.joints.items():
                if (i, k) not in best:
                    continue
                before, cuts = best[i, k]
                value = before + float(
                    bound[row, level] + self.stretches[k, j].evidence[row, level]
                )
                if value > following.get((k, j), (LOWEST, []))[0]:
                    following[k, j] = (value, [*cuts, k])
            best = following
        value, chosen = max(one for (_, j), one in best.items() if j == self.points)
        return chosen, float(np.exp(min(value - self.sums[count][row, level], 0.0)))

    def _cut(self, row: int, weight: FloatArray) -> tuple[list[int], float]:
        """The most probable place of one cut, whatever the noise."""
        n = self.points
        places = [k for i, k, j in self.joints if (i, j) == (0, n)]
        joint = np.array(
            [
                self.stretches[0, k].evidence[row]
                + self.joints[0, k, n][row]
                + self.stretches[k, n].evidence[row]
                for k in places
            ]
        )
        share = np.exp(joint + weight - (joint + weight).max()).sum(axis=1)
        place = int(np.argmax(share))
        return [places[place]], float(share[place] / share.sum())


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
    habits: Habits,
    several: bool,
) -> Partitions:
    """Evidence of one function and of cuts into segments; of one cut only, unless `several`.

    Args:
        levels: (L,) of noise. x: (n,) values of the parameter.
    """
    n = data.weights.shape[1]
    most = MOST if several else 1
    stretches = _stretches(data, lattice, levels, parameter=parameter, x=x, several=several)
    bend = habits.bend / (habits.jump + habits.bend)
    joints = {
        (i, k, j): np.logaddexp(
            np.log(1 - bend), meeting(stretches, data, levels, i=i, k=k, j=j) + np.log(bend)
        )
        for i, k, j in _meetings(stretches, n, several=several)
    }
    sums = _sums(stretches, joints, n, most)
    change = np.log(1 - habits.steady)
    priors = [np.log(habits.steady)] + [change + _log_prior(k) for k in range(1, len(sums))]
    by_count = [
        total + prior - _log_number(joints, k, n)
        for k, (total, prior) in enumerate(zip(sums, priors, strict=True))
    ]
    return Partitions(np.array(by_count), sums, stretches, joints, n)


def kinds(
    data: Data, lattice: Lattice, levels: FloatArray, *, parameter: str, x: FloatArray
) -> FloatArray:
    """Logarithm of the probability of the data: of no change, of a jump, of a bend. (3, s, L)."""
    n = data.weights.shape[1]
    stretches = _stretches(data, lattice, levels, parameter=parameter, x=x, several=False)
    joints = _meetings(stretches, n, several=False)
    whole = stretches[0, n].evidence
    answer = np.full((3, *whole.shape), LOWEST)
    answer[0] = whole
    if joints:
        jumps = np.array(
            [stretches[i, k].evidence + stretches[k, j].evidence for i, k, j in joints]
        )
        bends = np.array([meeting(stretches, data, levels, i=i, k=k, j=j) for i, k, j in joints])
        answer[1] = np.logaddexp.reduce(jumps, axis=0) - np.log(len(joints))
        answer[2] = np.logaddexp.reduce(jumps + bends, axis=0) - np.log(len(joints))
    return answer


def _stretches(
    data: Data,
    lattice: Lattice,
    levels: FloatArray,
    *,
    parameter: str,
    x: FloatArray,
    several: bool,
) -> Stretches:
    """The whole series, and what may be a segment of it."""
    n = data.weights.shape[1]
    least = shortest(n)
    spans = [(0, n)]
    if n >= MIN_POINTS:
        spans += [
            (i, j)
            for i in range(n)
            for j in range(i + least, n + 1)
            if (i, j) != (0, n) and (several or i == 0 or j == n)
        ]
    return {
        span: stretch(data, lattice, levels, span=span, parameter=parameter, x=x, least=least)
        for span in spans
    }


def _meetings(stretches: Stretches, n: int, *, several: bool) -> list[tuple[int, int, int]]:
    """Where two segments may follow each other: [i, k) and [k, j)."""
    return [
        (i, k, j)
        for i, k in stretches
        for start, j in stretches
        if k == start and (several or (i, j) == (0, n))
    ]


def _sums(stretches: Stretches, joints: Joints, n: int, most: int) -> list[FloatArray]:
    """ln Σ over partitions of [0, n) with 0 .. most cuts, as far as there are any."""
    reached = {(i, j): one.evidence for (i, j), one in stretches.items() if i == 0}
    totals = [stretches[0, n].evidence]
    for _ in range(most):
        following: dict[tuple[int, int], FloatArray] = {}
        for (i, k, j), bound in joints.items():
            if (i, k) in reached:
                value = reached[i, k] + bound
                known = following.get((k, j))
                following[k, j] = value if known is None else np.logaddexp(known, value)
        reached = {(k, j): value + stretches[k, j].evidence for (k, j), value in following.items()}
        last = [value for (_, j), value in reached.items() if j == n]
        if not last:
            break
        totals.append(np.logaddexp.reduce(last, axis=0))
    return totals


def _log_number(joints: Joints, count: int, n: int) -> float:
    """Logarithm of the number of partitions with so many cuts."""
    reached = {(0, k): 1 for i, k, _ in joints if i == 0} | {(0, n): 1}
    for _ in range(count):
        following: dict[tuple[int, int], int] = {}
        for i, k, j in joints:
            if (i, k) in reached:
                following[k, j] = following.get((k, j), 0) + reached[i, k]
        reached = following
    return float(np.log(max(sum(v for (_, j), v in reached.items() if j == n), 1)))


def _log_prior(count: int) -> float:
    """Of so many changes, given that there is one."""
    return float((count - 1) * np.log(AGAIN) + np.log(1 - AGAIN))


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
    data: Data,
    lattice: Lattice,
    *,
    whole: FloatArray,
    law: FloatArray,
    levels: FloatArray,
    odds: float,
) -> IntArray:
    """Series in which one cut could be more than hardly probable.

    A bound from the residuals of a few simple terms left and right of each cut, and from what the
    coefficients of two segments cost at least; much cheaper than the evidence.

    Args:
        whole: (s,) logarithm of the evidence of one function. law: (s, L). odds: logarithm of those
            of a change before the data.
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
    return np.flatnonzero((answer + odds > whole + np.log(HARDLY)) & (data.counts >= MIN_POINTS))


def _residuals(data: Data, rows: FloatArray, *, backwards: bool = False) -> FloatArray:
    """Residual sums of squares up to each point, or from it on: of the constant, of the best
    term.
    """
    order = slice(None, None, -1) if backwards else slice(None)
    w, m = (np.ascontiguousarray(part.T[order]) for part in (data.weights, data.moments))
    t = np.ascontiguousarray(rows.T[order])[:, :, None]  # points first: sums go along the series
    ones, total = np.maximum(np.cumsum(w, axis=0), 1e-300), np.cumsum(m, axis=0)
    squares = np.cumsum(m**2 / np.where(w > 0, w, 1.0), axis=0)
    constant = np.maximum(squares - total**2 / ones, 0.0)
    weighted = w[:, None] * t
    first = np.cumsum(weighted, axis=0)
    weighted *= t
    spread = np.cumsum(weighted, axis=0)
    spread -= first**2 / ones[:, None]
    along = np.cumsum(m[:, None] * t, axis=0)
    first *= (total / ones)[:, None]
    along -= first
    gain = np.where(spread > 1e-12 * ones[:, None], along**2 / np.maximum(spread, 1e-300), 0.0)
    sloped = np.maximum(constant - gain.max(axis=1), 0.0)
    return np.stack([constant.T, sloped.T])[:, :, order]
