"""Change points: the evidence of every segmentation of a series.

Each segment of consecutive points has an evidence of its own, its hypothesis and coefficients
integrated out. Where two segments meet there is either a jump, where nothing binds the functions,
or a bend, where both functions go through the first point of the second segment; a bend has one
coefficient less to learn. The evidence of a segmentation is the product over its segments and
joints at one noise level. Dynamic programming gives the sums over all segmentations. Paper
[SEG §3] looks at the error of models of five points instead, and assumes one change point.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from insitu.modeling.evidence.cut_positions import list_spans, possible_cuts
from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.evidence.segment import (
    IMPOSSIBLE,
    SegmentEvidence,
    Span,
    log_bend_evidence,
    weigh_segments,
)
from insitu.modeling.measurement import FloatArray, IntArray

MIN_SERIES_POINTS = 6  # of a series in which a change of behaviour can be recognised [SEG §1]
MIN_SEGMENT, MIN_SEGMENT_OF_LONG = 2, 3  # points of a segment, in short and in long series
LONG_SERIES = 8  # points
MAX_CHANGE_POINTS = 4
FURTHER_CHANGE_PRIOR = 0.5  # prior of a second change after the first, of a third, and so on
DETECTED = 0.5  # posterior from which a change of behaviour is reported
SEVERAL_SUSPECTED = 0.05  # posterior of a change from which more than one is looked for
NOISE_FLOOR = 0.004  # least noise assumed: smaller deviations are no change of behaviour

# The cheap bound that decides which series are worth the evidence of their segments.
HARDLY_PROBABLE = 0.05  # posterior below which a change is not looked for
BOUND_EXPONENTS = {  # terms whose residuals approximate those of the whole hypothesis space
    *((0, j, 0) for j in (1, 2)),
    *((i / 2, 0, 0) for i in (-2, 1, 2, 3, 4, 5, 6, 7)),
    *((i, 1, 0) for i in (1, 2)),
}
LOG_PRICE_OF_CONSTANT, LOG_PRICE_OF_TERM = 2.5, 3.0  # log evidence that a coefficient costs
BOUND_SLACK = 1.0  # log evidence by which the bound may be wrong

SMALLEST_PROBABILITY = 1e-300  # in place of zero, where the logarithm is taken

Joint = tuple[int, int, int]  # segments [i, k) and [k, j)
Segments = dict[Span, SegmentEvidence]
Joints = dict[Joint, FloatArray]  # log factor of two segments that follow each other: (s, L)


@dataclass(frozen=True, slots=True)
class ChangePrior:
    """How often series change, before their data: probabilities that sum to 1.

    steady: one function. jump: segments that need not meet. bend: segments whose functions meet at
    the first point of the second.
    """

    steady: float = 0.5
    jump: float = 0.4
    bend: float = 0.1

    def probabilities(self) -> FloatArray:
        """Return the probabilities (3,), in the order of `log_evidence_by_kind`."""
        return np.array([self.steady, self.jump, self.bend])

    def log_odds(self) -> float:
        """Return the logarithm of the odds of a change."""
        return float(np.log((self.jump + self.bend) / self.steady))


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """Segments that were weighed before: of series `rows` (k,), ascending, at levels (L,)."""

    rows: IntArray
    segments: Segments
    levels: FloatArray

    def find(self, rows: IntArray, levels: FloatArray) -> Segments | None:
        """Return the segments of some series at some of the levels, None if any is not known."""
        if not np.isin(rows, self.rows).all() or not np.isin(levels, self.levels).all():
            return None
        position = np.searchsorted(self.rows, rows)
        is_level = np.isin(self.levels, levels)
        return {span: part.select(position, is_level) for span, part in self.segments.items()}

    def select(self, rows: IntArray) -> "KnownSegments":
        """Return the segments of those of some series (k,) that are known, numbered from 0."""
        is_known = np.isin(rows, self.rows)
        position = np.searchsorted(self.rows, rows[is_known])
        segments = {span: part.select(position) for span, part in self.segments.items()}
        return KnownSegments(np.flatnonzero(is_known), segments, self.levels)


@dataclass(frozen=True, slots=True)
class Segmentations:
    """Sums over all segmentations of series s with n points, at noise levels L.

    log_by_count: (K, s, L), logarithm of the probability of the data and of k change points, with
    prior. log_sums: the same without prior, (s, L) for each number of change points. segments:
    evidence of each segment. joints: factor of two segments that follow each other.
    """

    log_by_count: FloatArray
    log_sums: list[FloatArray]
    segments: Segments
    joints: Joints
    n_points: int

    def count_posterior(self, noise: FloatArray) -> FloatArray:
        """Return the posterior of each number of change points: (K, s).

        Args:
            noise: (s, L), probability of each level.
        """
        joint = self.log_by_count + _log(noise)
        top = joint.max(axis=(0, 2), keepdims=True)
        weight = np.exp(joint - top).sum(axis=2)
        return np.asarray(weight / weight.sum(axis=0))

    def log_evidence_of_change(self, noise: FloatArray) -> FloatArray:
        """Return the logarithm of the probability of the data and of a change: (s,).

        Args:
            noise: (s, L), probability of each level.
        """
        joint = self.log_by_count[1:] + _log(noise)
        return np.asarray(np.logaddexp.reduce(np.logaddexp.reduce(joint, axis=0), axis=1))

    def noise_posterior(self, rows: IntArray, noise: FloatArray) -> FloatArray:
        """Return the posterior of the noise level of some series that change: (k, L).

        Args:
            rows: (k,) indices of the series. noise: (s, L), of all series.
        """
        joint = self.log_by_count[1:, rows] + _log(noise[rows])
        weight = np.exp(joint - joint.max(axis=(0, 2), keepdims=True)).sum(axis=0)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def best_cuts(self, row: int, count: int, noise: FloatArray) -> tuple[list[int], float]:
        """Return the most probable cuts of one series into count + 1 segments.

        Args:
            noise: (L,), of this series.

        Returns:
            The first point of each segment but the first, and the posterior of just these cuts
            among all segmentations with as many.
        """
        if count == 1:
            return self._best_cut(row, _log(noise))

        # At the most probable noise level: the best segmentation that ends in each segment.
        level = int(np.argmax(self.log_by_count[count, row] + _log(noise)))
        best: dict[Span, tuple[float, list[int]]] = {}
        for (start, end), segment in self.segments.items():
            if start == 0:
                best[start, end] = (float(segment.log_evidence[row, level]), [])

        for _ in range(count):
            longer: dict[Span, tuple[float, list[int]]] = {}
            for (i, k, j), joint in self.joints.items():
                if (i, k) not in best:
                    continue
                before, cuts = best[i, k]
                step = joint[row, level] + self.segments[k, j].log_evidence[row, level]
                value = before + float(step)
                if value > longer.get((k, j), (IMPOSSIBLE, []))[0]:
                    longer[k, j] = (value, [*cuts, k])
            best = longer

        complete = [value for (_, end), value in best.items() if end == self.n_points]
        log_best, chosen = max(complete)
        log_share = min(log_best - self.log_sums[count][row, level], 0.0)
        return chosen, float(np.exp(log_share))

    def _best_cut(self, row: int, log_noise: FloatArray) -> tuple[list[int], float]:
        """The most probable single cut, summed over the noise levels."""
        n = self.n_points
        cuts = [k for i, k, j in self.joints if (i, j) == (0, n)]
        log_evidence = np.array(
            [
                self.segments[0, k].log_evidence[row]
                + self.joints[0, k, n][row]
                + self.segments[k, n].log_evidence[row]
                for k in cuts
            ]
        )
        joint = log_evidence + log_noise
        weight = np.exp(joint - joint.max()).sum(axis=1)
        best = int(np.argmax(weight))
        return [cuts[best]], float(weight[best] / weight.sum())


def min_segment_points(n_points: int) -> int:
    """Return how many points a segment must have in a series of so many."""
    return MIN_SEGMENT_OF_LONG if n_points >= LONG_SERIES else MIN_SEGMENT


def segment_spans(cuts: Sequence[int], n_points: int) -> list[Span]:
    """Return the points [i, j) of each segment."""
    return list(pairwise([0, *cuts, n_points]))


def weigh_segmentations(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    x: FloatArray,
    prior: ChangePrior,
    several: bool,
    cuts: Sequence[int] | None = None,
    known: Segments | None = None,
) -> Segmentations:
    """Return the evidence of one function and of segmentations.

    Args:
        levels: (L,) of noise.
        x: (n,) values of the parameter.
        prior: how often series change.
        several: up to MAX_CHANGE_POINTS cuts instead of one.
        cuts: where the series may be cut, None for `possible_cuts`.
        known: segments of the same series at the same levels, which are not weighed again.
    """
    n = data.weights.shape[1]
    cuts = possible_cuts(x) if cuts is None else cuts
    segments = _weigh_segments(data, space, levels, x=x, cuts=cuts, several=several, known=known)

    # At each joint the functions jump, or they meet.
    bend = prior.bend / (prior.jump + prior.bend)
    joints: Joints = {}
    for i, k, j in _possible_joints(segments, n, cuts=cuts, several=several):
        log_bend = log_bend_evidence(segments, data, levels, i=i, k=k, j=j)
        joints[i, k, j] = np.logaddexp(np.log(1 - bend), log_bend + np.log(bend))

    log_sums = _sum_segmentations(segments, joints, n, MAX_CHANGE_POINTS if several else 1)
    log_change = np.log(1 - prior.steady)
    log_by_count = []
    for count, log_sum in enumerate(log_sums):
        log_prior = log_change + _log_prior_of_count(count) if count else np.log(prior.steady)
        log_by_count.append(log_sum + log_prior - _log_number(joints, count, n))

    return Segmentations(np.array(log_by_count), log_sums, segments, joints, n)


def log_evidence_by_kind(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    x: FloatArray,
    noise: FloatArray,
) -> tuple[FloatArray, KnownSegments]:
    """Return the evidence of no change, of one jump and of one bend: (3, s, L), logarithm.

    And the segments that were weighed. Segments cost ten times as much as the whole series, so they
    are weighed only where a bound says that a change may be more than hardly probable.

    Args:
        levels: (L,) of noise. x: (n,) values of the parameter.
        noise: (s, L), probability of each level before any function is fitted.
    """
    n = data.weights.shape[1]
    min_points = min_segment_points(n)
    of_whole = weigh_segments(data, space, levels, spans=[(0, n)], x=x, min_points=min_points)
    whole = of_whole[0, n].log_evidence
    result = np.full((3, *whole.shape), IMPOSSIBLE)
    result[0] = whole
    known = KnownSegments(np.empty(0, dtype=np.intp), {}, levels)
    if n < MIN_SERIES_POINTS:
        return result, known

    suspects = find_suspects(
        data,
        space,
        log_evidence=np.logaddexp.reduce(whole + _log(noise), axis=1),
        noise=apply_noise_floor(noise, levels),
        levels=levels,
        log_odds=ChangePrior().log_odds(),
    )
    if len(suspects) == 0:
        return result, known

    chosen, cuts = data.select(suspects), possible_cuts(x)
    segments = _weigh_segments(
        chosen,
        space,
        levels,
        x=x,
        cuts=cuts,
        several=False,
        known={(0, n): of_whole[0, n].select(suspects)},
    )
    joints = _possible_joints(segments, n, cuts=cuts, several=False)
    if joints:
        jumps = np.array(
            [segments[i, k].log_evidence + segments[k, j].log_evidence for i, k, j in joints]
        )
        bends = np.array(
            [log_bend_evidence(segments, chosen, levels, i=i, k=k, j=j) for i, k, j in joints]
        )
        result[1, suspects] = np.logaddexp.reduce(jumps, axis=0) - np.log(len(joints))
        result[2, suspects] = np.logaddexp.reduce(jumps + bends, axis=0) - np.log(len(joints))
    return result, KnownSegments(suspects, segments, levels)


def _weigh_segments(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    x: FloatArray,
    cuts: Sequence[int],
    several: bool,
    known: Segments | None = None,
) -> Segments:
    """The evidence of the whole series, and of each segment that it may have.

    Args:
        cuts: where it may be cut.
        known: segments of the same series at the same levels, which are not weighed again.
    """
    n = data.weights.shape[1]
    min_points = min_segment_points(n)

    spans: list[Span] = [(0, n)]
    if n >= MIN_SERIES_POINTS:
        spans += list_spans(n, cuts, min_points=min_points, several=several)

    known = known or {}
    unknown = [span for span in spans if span not in known]
    weighed = weigh_segments(data, space, levels, spans=unknown, x=x, min_points=min_points)
    return {span: known[span] if span in known else weighed[span] for span in spans}


def _possible_joints(
    segments: Segments, n: int, *, cuts: Sequence[int], several: bool
) -> list[Joint]:
    """The pairs of segments [i, k), [k, j) that may follow each other, with ends at the cuts."""
    ends_of: dict[int, list[int]] = defaultdict(list)
    for start, j in segments:
        if j == n or j in cuts:
            ends_of[start].append(j)
    return [
        (i, k, j) for i, k in segments for j in ends_of.get(k, []) if several or (i, j) == (0, n)
    ]


def _sum_segmentations(
    segments: Segments, joints: Joints, n: int, max_cuts: int
) -> list[FloatArray]:
    """ln Σ over the segmentations of [0, n) with 0, 1, … max_cuts cuts, as far as there are any."""
    reached: dict[Span, FloatArray] = {}  # by last segment
    for (i, j), segment in segments.items():
        if i == 0:
            reached[i, j] = segment.log_evidence
    log_sums = [segments[0, n].log_evidence]

    for _ in range(max_cuts):
        before: dict[Span, FloatArray] = {}
        for (i, k, j), joint in joints.items():
            if (i, k) in reached:
                value = reached[i, k] + joint
                other = before.get((k, j))
                before[k, j] = value if other is None else np.logaddexp(other, value)

        reached = {span: value + segments[span].log_evidence for span, value in before.items()}
        complete = [value for (_, end), value in reached.items() if end == n]
        if not complete:
            break
        log_sums.append(np.logaddexp.reduce(complete, axis=0))

    return log_sums


def _log_number(joints: Joints, count: int, n: int) -> float:
    """The logarithm of the number of segmentations with `count` cuts."""
    reached = {(0, k): 1 for i, k, _ in joints if i == 0} | {(0, n): 1}
    for _ in range(count):
        longer: dict[Span, int] = {}
        for i, k, j in joints:
            if (i, k) in reached:
                longer[k, j] = longer.get((k, j), 0) + reached[i, k]
        reached = longer

    total = sum(number for (_, end), number in reached.items() if end == n)
    return float(np.log(max(total, 1)))


def _log_prior_of_count(count: int) -> float:
    """The logarithm of the prior of `count` changes, given that there is one."""
    return float((count - 1) * np.log(FURTHER_CHANGE_PRIOR) + np.log(1 - FURTHER_CHANGE_PRIOR))


def _log(probability: FloatArray) -> FloatArray:
    return np.log(np.maximum(probability, SMALLEST_PROBABILITY))


def apply_noise_floor(noise: FloatArray, levels: FloatArray) -> FloatArray:
    """Move the probability of levels below NOISE_FLOOR to the first level above it: (s, L)."""
    is_low = levels < NOISE_FLOOR
    if is_low.all():
        return noise

    result = np.where(is_low, 0.0, noise)
    if is_low.any():
        first_above = int(is_low.sum())  # levels ascend
        result[:, first_above] += noise[:, is_low].sum(axis=1)
    return result


def find_suspects(
    data: RelativeData,
    space: HypothesisSpace,
    *,
    log_evidence: FloatArray,
    noise: FloatArray,
    levels: FloatArray,
    log_odds: float,
) -> IntArray:
    """Return the series in which one cut could be more than hardly probable: indices (k,).

    A bound from the residuals of a few simple terms before and after each cut, and from what the
    coefficients of two segments cost at least. It is much cheaper than the evidence.

    Args:
        log_evidence: (s,), of one function. noise: (s, L). levels: (L,).
        log_odds: of a change, before the data.
    """
    n = data.weights.shape[1]
    min_points = min_segment_points(n)
    cuts = np.arange(min_points, n - min_points + 1)
    terms = _terms_of_bound(space)
    before = _running_residuals(data, data.terms[terms])[:, :, cuts - 1]
    after = _running_residuals(data, data.terms[terms], backwards=True)[:, :, cuts]

    # The Gaussian likelihood of the best cut at each level, without what coefficients cost.
    level = levels[:, None]
    of_term = (2 * level**2 * LOG_PRICE_OF_TERM)[..., None]
    misfit = np.minimum(before[0], before[1] + of_term)  # (L, s, cuts)
    misfit += np.minimum(after[0], after[1] + of_term)
    of_constants = 2 * (np.log(np.sqrt(n / 2) / level) + LOG_PRICE_OF_CONSTANT)
    best = -misfit.min(axis=2) / (2 * level**2) - of_constants + BOUND_SLACK
    by_level = best + _log(noise).T - data.counts / 2 * np.log(2 * np.pi * level**2)
    bound = np.logaddexp.reduce(by_level, axis=0)

    is_suspect = bound + log_odds > log_evidence + np.log(HARDLY_PROBABLE)
    return np.flatnonzero(is_suspect & (data.counts >= MIN_SERIES_POINTS))


@lru_cache(maxsize=64)
def _terms_of_bound(space: HypothesisSpace) -> IntArray:
    """The indices of the terms with BOUND_EXPONENTS."""
    return np.flatnonzero([tuple(row) in BOUND_EXPONENTS for row in space.exponents])


def _running_residuals(
    data: RelativeData, terms: FloatArray, *, backwards: bool = False
) -> FloatArray:
    """Residual sums of squares up to each point, or from it on: (2, s, n).

    Of the constant, and of the constant with the best of the terms (T, n).
    """
    order = slice(None, None, -1) if backwards else slice(None)
    # Points first, so that cumulative sums run along the series.
    w = np.ascontiguousarray(data.weights.T[order])
    m = np.ascontiguousarray(data.moments.T[order])
    t = np.ascontiguousarray(terms.T[order])[:, :, None]

    sum_w, sum_m = np.maximum(np.cumsum(w, axis=0), 1e-300), np.cumsum(m, axis=0)
    squares = np.cumsum(m**2 / np.where(w > 0, w, 1.0), axis=0)
    constant = np.maximum(squares - sum_m**2 / sum_w, 0.0)

    # In place where possible: these arrays, points by terms by series, are the largest here.
    weighted = w[:, None] * t
    sum_wt = np.cumsum(weighted, axis=0)
    weighted *= t
    centred_tt = np.cumsum(weighted, axis=0)
    centred_tt -= sum_wt**2 / sum_w[:, None]
    centred_tm = np.cumsum(m[:, None] * t, axis=0)
    sum_wt *= (sum_m / sum_w)[:, None]
    centred_tm -= sum_wt

    is_independent = centred_tt > 1e-12 * sum_w[:, None]
    gain = centred_tm**2 / np.where(is_independent, centred_tt, 1.0)
    gain = np.where(is_independent, gain, 0.0)
    with_term = np.maximum(constant - gain.max(axis=1), 0.0)
    return np.stack([constant.T, with_term.T])[:, :, order]
