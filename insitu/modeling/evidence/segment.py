"""The evidence of one segment: consecutive points that follow one function."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from insitu.modeling.evidence.hypothesis_space import (
    MIN_STEEP_POINTS,
    HypothesisSpace,
    build_dense_space,
    exclude_steep_terms,
    only_opposed_pairs,
)
from insitu.modeling.evidence.marginal import LOG_RANGE
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import fit_hypotheses
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

Span = tuple[int, int]  # points [i, j)

MIN_DENSE_POINTS, MIN_DENSE_SEGMENT = 6, 8  # of a whole series, and of a segment of it, for
# nearly continuous exponents
DENSE_PRIOR = 0.5  # of these, against those of the hypothesis space
ROWS_AT_ONCE = 256  # series times segments that are fitted together
# Of a segment whose function may have two terms. A shorter whole series may have a falling term
# beside a growing one, as in strong scaling: the turn from one to the other is no change.
MIN_PAIR_POINTS = 8
IMPOSSIBLE = -1e300  # log evidence of what cannot be; finite, so that sums stay finite
MIN_VARIANCE_SHARE = 1e-9  # smallest variance of a function, relative to that of a measurement


class EndPoint(NamedTuple):
    """A function at one point: mean of function minus measured value, and variance, (s, L)."""

    mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True, slots=True)
class SegmentEvidence:
    """Points [i, j) of series s under one function, at noise levels L.

    log_evidence: (s, L), hypotheses and coefficients integrated out. first, last: the function at
    the first and the last point.
    """

    log_evidence: FloatArray
    first: EndPoint
    last: EndPoint

    def select(
        self, rows: IntArray | slice, levels: BoolArray | slice = slice(None)
    ) -> "SegmentEvidence":
        """Return the evidence of some of the series (k,) at some of the levels."""

        def select(values: FloatArray) -> FloatArray:
            return values[rows][:, levels]

        return SegmentEvidence(
            log_evidence=select(self.log_evidence),
            first=EndPoint(select(self.first.mean), select(self.first.variance)),
            last=EndPoint(select(self.last.mean), select(self.last.variance)),
        )


def weigh_segments(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    spans: Sequence[Span],
    x: FloatArray,
    min_points: int,
) -> dict[Span, SegmentEvidence]:
    """Return the evidence of segments, over the hypotheses that the points of each distinguish.

    Args:
        data: of the whole series.
        levels: (L,) of noise.
        spans: [i, j), the points of each segment.
        x: (n,) values of the parameter.
        min_points: points that must be measured in a segment.
    """
    n_points = data.weights.shape[1]
    spans_of: dict[_SegmentForm, list[Span]] = defaultdict(list)
    for i, j in spans:
        spans_of[_SegmentForm.of_segment(j - i, n_points)].append((i, j))

    # Several segments of a few series at once: there, calls take longer than their numbers.
    at_once = max(1, ROWS_AT_ONCE // max(len(data.weights), 1))
    result: dict[Span, SegmentEvidence] = {}
    for form, members in spans_of.items():
        for start in range(0, len(members), at_once):
            chosen = members[start : start + at_once]
            least = 1 if form.is_whole else min_points
            result |= _weigh_spans(
                data, space, levels, spans=chosen, form=form, x=x, min_points=least
            )
    return {span: result[span] for span in spans}


class _SegmentForm(NamedTuple):
    """Which functions the points of a segment can distinguish."""

    is_whole: bool
    is_plain: bool  # no steep terms
    has_pairs: bool
    is_dense: bool

    @classmethod
    def of_segment(cls, length: int, n_points: int) -> "_SegmentForm":
        is_whole = length == n_points
        return cls(
            is_whole=is_whole,
            is_plain=not is_whole and length < MIN_STEEP_POINTS,
            has_pairs=length >= MIN_PAIR_POINTS,
            is_dense=length >= (MIN_DENSE_POINTS if is_whole else MIN_DENSE_SEGMENT),
        )


def _weigh_spans(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    spans: Sequence[Span],
    form: _SegmentForm,
    x: FloatArray,
    min_points: int,
) -> dict[Span, SegmentEvidence]:
    """The evidence of segments of one form."""
    n_series, n_points = data.weights.shape
    points, ends = slice(None), np.repeat(np.array(spans), n_series, axis=0)
    if len(spans) == 1:
        points = slice(*spans[0])
        part = data.select(slice(None), points)
        ends = ends - spans[0][0]
    else:
        index = np.arange(n_points)
        part = data.repeat(np.array([(i <= index) & (index < j) for i, j in spans]))

    own_space = exclude_steep_terms(space) if form.is_plain else space
    if form.is_whole and not form.has_pairs:
        own_space = only_opposed_pairs(own_space)
    has_pairs = form.is_whole or form.has_pairs
    evidence = _weigh(part, own_space, levels, ends=ends, has_pairs=has_pairs)
    if form.is_dense:
        dense = replace(part, terms=_dense_terms(space.parameter, tuple(x))[:, points])
        dense_space = build_dense_space(space.parameter)
        of_dense = _weigh(dense, dense_space, levels, ends=ends, has_pairs=form.has_pairs)
        evidence = _mix(evidence, of_dense)

    is_enough = part.counts >= min_points
    log_evidence = np.where(is_enough[:, None], evidence.log_evidence, IMPOSSIBLE)
    evidence = replace(evidence, log_evidence=log_evidence)
    return {
        span: evidence.select(slice(k * n_series, (k + 1) * n_series))
        for k, span in enumerate(spans)
    }


@lru_cache(maxsize=64)
def _dense_terms(parameter: str, x: tuple[float, ...]) -> FloatArray:
    """The terms of the dense space, scaled to a largest value of 1: (T, n)."""
    terms = build_dense_space(parameter).evaluate_terms(np.array(x))
    with np.errstate(invalid="ignore"):
        size = np.abs(terms).max(axis=1)
    return np.asarray(terms / np.where(np.isfinite(size) & (size > 0), size, 1.0)[:, None])


def _weigh(
    part: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    ends: IntArray,
    has_pairs: bool,
) -> SegmentEvidence:
    """The evidence of one segment of each series; ends: (s, 2), its first point and its end."""
    candidates = fit_hypotheses(part, space, levels, with_pairs=has_pairs)

    top = candidates.log_evidence.max(axis=1)
    weight = np.exp(candidates.log_evidence - top[:, None])
    total = weight.sum(axis=1)
    weight /= total[:, None]

    return SegmentEvidence(
        log_evidence=np.asarray(np.log(total) + top),
        first=_end_point(part, candidates, weight, levels, at=ends[:, 0]),
        last=_end_point(part, candidates, weight, levels, at=ends[:, 1] - 1),
    )


def _end_point(
    part: RelativeData,
    candidates: Candidates,
    weight: FloatArray,
    levels: FloatArray,
    *,
    at: IntArray,
) -> EndPoint:
    """The posterior mean and variance of the function at one point of each series.

    Args:
        weight: (s, h, L), posterior of the candidates. at: (s,), index of the point.
    """
    n_points = part.terms.shape[1]
    terms = np.where(np.isfinite(part.terms), part.terms, 0.0)
    terms = np.append(terms, np.zeros(n_points))  # row -1: no term
    a = terms[candidates.first * n_points + at[:, None]]
    b = terms[candidates.second * n_points + at[:, None]]
    c0, c1, c2 = candidates.coefficients
    v00, v11, v22, v01, v02, v12 = candidates.inverse

    rows = np.arange(len(at))
    data_weight = part.weights[rows, at, None]
    value = part.moments[rows, at, None] / np.where(data_weight > 0, data_weight, 1.0)
    offset = c0 + c1 * a + c2 * b - value
    own_variance = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)

    # The variance of a mixture: within its members, and between them.
    mean = np.einsum("shl,sh->sl", weight, offset)
    square = np.einsum("shl,sh->sl", weight, offset**2)
    within = np.einsum("shl,sh->sl", weight, np.maximum(own_variance, 0.0)) * levels**2
    return EndPoint(mean, np.maximum(square - mean**2, 0.0) + within)


def _mix(sparse: SegmentEvidence, dense: SegmentEvidence) -> SegmentEvidence:
    """Two families of functions, the second with a prior of DENSE_PRIOR."""
    a = sparse.log_evidence + np.log(1 - DENSE_PRIOR)
    b = dense.log_evidence + np.log(DENSE_PRIOR)
    total = np.logaddexp(a, b)
    weight, rest = np.exp(a - total), np.exp(b - total)

    def mix(p: EndPoint, q: EndPoint) -> EndPoint:
        between = weight * rest * (p.mean - q.mean) ** 2
        return EndPoint(
            mean=weight * p.mean + rest * q.mean,
            variance=weight * p.variance + rest * q.variance + between,
        )

    return SegmentEvidence(total, mix(sparse.first, dense.first), mix(sparse.last, dense.last))


def log_bend_evidence(
    segments: Mapping[Span, SegmentEvidence],
    data: RelativeData,
    levels: FloatArray,
    *,
    i: int,
    k: int,
    j: int,
) -> FloatArray:
    """Return the evidence of segments [i, k) and [k, j) whose functions meet: (s, L), logarithm.

    Relative to the product of the evidence of both. The function of the first segment also goes
    through the first point of the second: this is the evidence of [i, k + 1) and [k, j) under the
    condition that both functions have the same value there, an integral over that value of three
    normal distributions: of both functions and of the measurement, which both have used.
    """
    before, after, longer = segments[i, k], segments[k, j], segments[i, k + 1]
    weight = data.weights[:, k, None]
    divisor = np.where(weight > 0, weight, 1.0)
    is_defined = (weight > 0) & (before.log_evidence > IMPOSSIBLE)

    # Precisions: of the measurement, and of both functions, which are at least as precise.
    own = divisor / levels**2
    p = np.maximum(1 / np.maximum(longer.last.variance, MIN_VARIANCE_SHARE / own), own)
    q = np.maximum(1 / np.maximum(after.first.variance, MIN_VARIANCE_SHARE / own), own)
    both = p + q - own

    a, b = longer.last.mean, after.first.mean
    misfit = p * a**2 + q * b**2 - (p * a + q * b) ** 2 / both

    # The common value is one coefficient less, with a log-uniform prior over LOG_RANGE.
    repetitions = np.where(weight > 0, data.repetitions[:, k, None], 1.0)
    size = np.sqrt(repetitions / divisor)
    log_meeting = 0.5 * (np.log(p * q / (own * both)) - misfit) + np.log(size * LOG_RANGE)
    return np.where(is_defined, longer.log_evidence - before.log_evidence + log_meeting, IMPOSSIBLE)
