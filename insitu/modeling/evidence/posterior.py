"""Posterior of the hypotheses of a lattice, for many series on the same points at once."""

import numpy as np

from insitu.modeling.evidence.hypothesis_space import Lattice
from insitu.modeling.evidence.marginal import Singles, negligible
from insitu.modeling.evidence.normal_equations import Candidates, Doubles, Normal, joined
from insitu.modeling.evidence.relative_data import Data
from insitu.modeling.measurement import FloatArray, IntArray

SINGLES, DOUBLES = 6, 4  # hypotheses of one and two terms whose evidence is computed
USABLE = 1e-9  # values below this part of the largest have no ratio
SMALLEST_RATIO = 1e-3  # of a value to its function, where its logarithm is compared
IMPOSSIBLE = np.finfo(np.float32).min  # the score of what has none


def candidates(
    data: Data, lattice: Lattice, levels: FloatArray, *, pairs: bool = True
) -> Candidates:
    """Fit every hypothesis, keep the best by score, and compute their evidence at each noise
    level (L,); with two terms only where `pairs` asks for them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # series without points: worth nothing
        return _candidates(data, lattice, levels, pairs=pairs)


def _candidates(data: Data, lattice: Lattice, levels: FloatArray, *, pairs: bool) -> Candidates:
    normal = Normal(data)
    seen = negligible(levels)
    parts = [normal.constant(levels, lattice.constant, seen, float(np.exp(lattice.singles).sum()))]
    best = _best(normal.score_singles(lattice.singles + _pairless(data)), SINGLES)
    parts += normal.singles(best, lattice.singles, levels, seen)
    if pairs and data.rows.shape[1] > 2 and len(lattice.pairs):
        doubles = Doubles(normal, lattice.pairs)
        best = _best(doubles.score(lattice.doubles), DOUBLES)
        parts += doubles.fits(best, lattice.doubles, levels, seen)
    found = joined(parts)
    by_level = np.moveaxis(found.log_evidence, -1, 0)
    by_level += _by_ratio(found, normal) / (2 * levels**2)[:, None, None]
    return found


def _best(score: Singles, count: int) -> IntArray:
    """The hypotheses with the highest scores, best first: (q, s) of (h, s).

    One after the other: for a few of them several times as fast as a partition.
    """
    left = np.array(score.T, order="C")
    np.fmax(left, IMPOSSIBLE, out=left)
    places = np.arange(len(left))
    answer = np.empty((min(count, len(score)), len(left)), dtype=np.intp)
    for best in answer:
        np.argmax(left, axis=1, out=best)
        left[places, best] = -np.inf
    return answer


def _by_ratio(found: Candidates, normal: "Normal") -> FloatArray:
    """What the residual sum of squares loses when errors are ratios: (s, h).

    Least squares measures errors relative to the values, so nothing can be more than 100 % too low;
    the logarithm of the ratio does not let a constant pass for noisy growth.
    """
    data = normal.data
    extended = np.vstack([normal.rows, np.zeros(normal.rows.shape[1])])
    offset, first, second = found.coefficients
    change = np.zeros(offset.shape)
    for i in range(extended.shape[1]):
        column = extended[:, i]
        fitted = offset + first * column[found.first] + second * column[found.second]
        w, m = data.weights[:, i, None], data.moments[:, i, None]
        value = m / np.where(w > 0, w, 1.0)
        ratio = fitted / np.where(value > 0, value, 1.0)
        usable = (w > 0) & (value > USABLE)
        logarithm = np.log(np.clip(ratio, SMALLEST_RATIO, 1 / SMALLEST_RATIO))
        lost = w * (value - fitted) ** 2 - data.trust[:, i, None] * logarithm**2
        change += np.where(usable, lost, 0.0)
    return change


def _pairless(data: Data) -> FloatArray:
    """-inf for terms that are zero or not finite on the points."""
    usable = np.isfinite(data.rows).all(axis=1) & (np.abs(data.rows).max(axis=1, initial=0) > 0)
    return np.where(usable, 0.0, -np.inf)


def fitted_mean(found: Candidates, probabilities: FloatArray, rows: FloatArray) -> FloatArray:
    """The posterior mean of the function at each point: (s, n)."""
    extended = np.vstack([np.where(np.isfinite(rows), rows, 0.0), np.zeros(rows.shape[1])])
    offset, first, second = found.coefficients
    answer = np.empty((len(offset), rows.shape[1]))
    for i, column in enumerate(extended.T):
        fitted = offset + first * column[found.first] + second * column[found.second]
        answer[:, i] = (probabilities * fitted).sum(axis=1)
    return answer
