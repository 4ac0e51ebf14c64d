"""The evidence of a stretch of consecutive points, with what it says about the ends of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from insitu.modeling.evidence.hypothesis_space import MIN_STEEP, Lattice, dense, gentle
from insitu.modeling.evidence.marginal import LOG_RANGE
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import candidates
from insitu.modeling.evidence.relative_data import Data
from insitu.modeling.measurement import FloatArray

DENSE_FROM, DENSE_SEGMENT = 6, 8  # points of a series, and of a segment, from which exponents
# may be nearly continuous
DENSE_SHARE = 0.5  # of the prior
PAIRS_FROM = 8  # points from which a stretch may have two terms
LOWEST = -1e300  # logarithm of the evidence of what cannot be; finite, so that sums stay so
SURE = 1e-9  # part of the variance of a measurement below which nothing is known better


@dataclass(frozen=True, slots=True)
class Stretch:
    """Points [i, j) of series s under one function, at noise levels L.

    evidence: (s, L), logarithm, hypotheses and coefficients integrated out. first, last: mean of
    the function less the value measured, and variance, at the first and the last point, (s, L)
    each.
    """

    evidence: FloatArray
    first: tuple[FloatArray, FloatArray]
    last: tuple[FloatArray, FloatArray]


def stretch(
    data: Data,
    lattice: Lattice,
    levels: FloatArray,
    *,
    span: tuple[int, int],
    parameter: str,
    x: FloatArray,
    least: int,
) -> Stretch:
    """Weigh the hypotheses that so many points can tell from each other.

    Args:
        levels: (L,) of noise. span: [i, j) of the points. x: (n,) values of the parameter.
        least: points that must be measured.
    """
    i, j = span
    n = data.weights.shape[1]
    part = data.part(slice(None), slice(i, j))
    own = gentle(lattice) if j - i < min(n, MIN_STEEP) else lattice
    answer = _weighed(part, own, levels)
    if j - i >= (DENSE_SEGMENT if j - i < n else DENSE_FROM):
        off = replace(part, rows=_scaled(parameter, tuple(x))[:, i:j])
        answer = _either(answer, _weighed(off, dense(parameter), levels))
    enough = part.counts >= (least if j - i < n else 1)
    return replace(answer, evidence=np.where(enough[:, None], answer.evidence, LOWEST))


@lru_cache(maxsize=64)
def _scaled(parameter: str, x: tuple[float, ...]) -> FloatArray:
    """The terms of the dense lattice, scaled to a largest value of 1: (T, n)."""
    rows = dense(parameter).design(np.array(x))
    with np.errstate(invalid="ignore"):
        size = np.abs(rows).max(axis=1)
    return np.asarray(rows / np.where(np.isfinite(size) & (size > 0), size, 1.0)[:, None])


def _weighed(part: Data, lattice: Lattice, levels: FloatArray) -> Stretch:
    found = candidates(part, lattice, levels, pairs=part.weights.shape[1] >= PAIRS_FROM)
    top = found.log_evidence.max(axis=1)
    weight = np.exp(found.log_evidence - top[:, None])
    total = weight.sum(axis=1)
    weight /= total[:, None]
    first, last = (_moments(part, found, weight, levels, at) for at in (0, -1))
    return Stretch(np.asarray(np.log(total) + top), first, last)


def _moments(
    part: Data, found: Candidates, weight: FloatArray, levels: FloatArray, at: int
) -> tuple[FloatArray, FloatArray]:
    """Mean less value, and variance, of the function at one of the points: (s, L) each."""
    column = np.append(np.where(np.isfinite(part.rows[:, at]), part.rows[:, at], 0.0), 0.0)
    a, b = column[found.first], column[found.second]
    c0, c1, c2 = found.coefficients
    v00, v11, v22, v01, v02, v12 = found.inverse
    w = part.weights[:, at, None]
    off = c0 + c1 * a + c2 * b - part.moments[:, at, None] / np.where(w > 0, w, 1.0)
    own = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)
    mean = np.einsum("shl,sh->sl", weight, off)
    square = np.einsum("shl,sh->sl", weight, off**2)
    variance = np.einsum("shl,sh->sl", weight, np.maximum(own, 0.0)) * levels**2
    return mean, np.maximum(square - mean**2, 0.0) + variance


def _either(one: Stretch, other: Stretch) -> Stretch:
    """Two families of functions, of which the second has DENSE_SHARE of the prior."""
    a, b = one.evidence + np.log(1 - DENSE_SHARE), other.evidence + np.log(DENSE_SHARE)
    total = np.logaddexp(a, b)
    weight, rest = np.exp(a - total), np.exp(b - total)

    def mixed(
        p: tuple[FloatArray, FloatArray], q: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        mean = weight * p[0] + rest * q[0]
        apart = weight * rest * (p[0] - q[0]) ** 2
        return mean, weight * p[1] + rest * q[1] + apart

    return Stretch(total, mixed(one.first, other.first), mixed(one.last, other.last))


def meeting(
    stretches: Mapping[tuple[int, int], Stretch],
    data: Data,
    levels: FloatArray,
    *,
    i: int,
    k: int,
    j: int,
) -> FloatArray:
    """Evidence of segments [i, k) and [k, j) that meet, relative to their product: (s, L).

    The function of the first also goes through the first point of the second: this is the evidence
    of [i, k + 1) and [k, j) under the condition that both have the same value there, an integral
    over that value of three normal distributions.
    """
    before, after, longer = stretches[i, k], stretches[k, j], stretches[i, k + 1]
    weight = data.weights[:, k, None]
    measured = (weight > 0) & (before.evidence > LOWEST)
    own = np.where(weight > 0, weight, 1.0) / levels**2
    precision = [
        np.maximum(1 / np.maximum(variance, SURE / own), own)
        for variance in (longer.last[1], after.first[1])
    ]
    (p, q), (a, b) = precision, (longer.last[0], after.first[0])
    both = p + q - own
    misfit = p * a**2 + q * b**2 - (p * a + q * b) ** 2 / both
    trust = np.where(weight > 0, data.trust[:, k, None], 1.0)
    size = np.sqrt(trust / np.where(weight > 0, weight, 1.0))
    meet = 0.5 * (np.log(p * q / (own * both)) - misfit) + np.log(size * LOG_RANGE)
    return np.where(measured, longer.evidence - before.evidence + meet, LOWEST)
