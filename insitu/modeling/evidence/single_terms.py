"""Functions a + b · t(x) of one given term t, many terms at once, with their evidence.

For hypotheses whose term has a parameter of its own, on a grid: where growth begins or ends, how
much work there is. Their evidence is computed as that of all other functions.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.marginal import invisible_prior, log_evidence
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.evidence.posterior import MIN_RATIO
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

TINY = 1e-300
SMALLEST_SHARE = 1e-12  # of a sum of squares, that a difference of such sums keeps digits of


@dataclass(frozen=True, slots=True)
class SingleTerms:
    """Functions of series s with terms K, each with its better form: with a constant or without.

    constants, factors: (s, K), a and b for values relative to their series. log_joint: (s, K, L),
    logarithm of the probability of data and noise, both forms together. inverse: (s, K, 3), of the
    normal equations: constant, factor, and both.
    """

    constants: FloatArray
    factors: FloatArray
    log_joint: FloatArray
    inverse: FloatArray


def fit_single_terms(
    terms: FloatArray, data: RelativeData, noise: FloatArray, levels: FloatArray
) -> SingleTerms:
    """Fit each term to each series.

    Args:
        terms: (K, n), the same for all series, or (s, K, n); not negative, each with a largest
            value near 1. data: the series. noise: (s, L), probability of each level. levels: (L,).
    """
    log_noise = np.log(np.maximum(noise, TINY))[:, None]
    terms = np.broadcast_to(terms, (len(data.weights), *terms.shape[-2:]))
    w, moments = data.weights[:, :, None], data.moments[:, :, None]
    sum_w, sum_wy = data.weights.sum(axis=1)[:, None], data.moments.sum(axis=1)[:, None]
    sum_wt, sum_wtt = (terms @ w)[..., 0], (terms**2 @ w)[..., 0]
    sum_wty = (terms @ moments)[..., 0]

    # Centred, so that the determinant keeps its digits.
    centred = np.maximum(sum_wtt - sum_wt**2 / sum_w, SMALLEST_SHARE * sum_wtt)
    beside = (sum_wty - sum_wt * sum_wy / sum_w) / centred
    constant = (sum_wy - beside * sum_wt) / sum_w
    alone = sum_wty / sum_wtt

    root = np.sqrt(data.weights)
    largest_constant = np.broadcast_to(root.max(axis=1)[:, None], beside.shape)
    largest_term = (root[:, None, :] * terms).max(axis=2)
    degrees = np.broadcast_to(data.counts[:, None], beside.shape)
    with_constant = log_evidence(
        levels,
        degrees=degrees - 2,
        log_determinant=np.log(sum_w * centred),
        estimates=(constant, beside),
        deviations=(np.sqrt(sum_wtt / (sum_w * centred)), 1 / np.sqrt(centred)),
        largest=(largest_constant, largest_term),
    )
    without = log_evidence(
        levels,
        degrees=degrees - 1,
        log_determinant=np.log(sum_wtt),
        estimates=(alone,),
        deviations=(1 / np.sqrt(sum_wtt),),
        largest=(largest_term,),
    )
    without = without + np.log(invisible_prior(levels))

    constants = np.stack([constant, np.zeros_like(alone)])
    factors = np.stack([beside, alone])
    misfit = _misfit(constants, factors, terms, data)
    evidence = np.stack([with_constant, without]) - misfit[..., None] / (2 * levels**2)
    is_feasible = (constants >= 0) & (factors > 0)
    evidence = np.where(is_feasible[..., None], evidence, -np.inf) + log_noise

    is_alone = np.argmax(np.logaddexp.reduce(evidence, axis=3), axis=0) == 1
    zero = np.zeros_like(alone)
    inverse_beside = np.stack(
        [sum_wtt / (sum_w * centred), 1 / centred, -sum_wt / (sum_w * centred)], axis=2
    )
    inverse_alone = np.stack([zero, 1 / sum_wtt, zero], axis=2)
    return SingleTerms(
        constants=np.where(is_alone, 0.0, constant),
        factors=np.where(is_alone, alone, beside),
        log_joint=np.logaddexp(evidence[0], evidence[1]),
        inverse=np.where(is_alone[..., None], inverse_alone, inverse_beside),
    )


def _misfit(
    constants: FloatArray, factors: FloatArray, terms: FloatArray, data: RelativeData
) -> FloatArray:
    """The sum of squares of the logarithms of value over function: (2, s, K)."""
    w, repetitions = data.weights, data.repetitions
    values = data.moments / np.where(w > 0, w, 1.0)
    fitted = constants[..., None] + factors[..., None] * terms
    ratio = fitted / np.where(values > 0, values, 1.0)[:, None]
    log_ratio = np.log(np.clip(ratio, MIN_RATIO, 1 / MIN_RATIO))
    return np.asarray((repetitions[:, None] * log_ratio**2).sum(axis=3))


def best_single_terms(terms: FloatArray, data: RelativeData, count: int) -> IntArray:
    """Return the terms that fit each series best, by least squares: (s, count) indices.

    Args:
        terms: (K, n). data: the series.
    """
    if len(terms) <= count:
        return np.broadcast_to(np.arange(len(terms)), (len(data.weights), len(terms)))
    w, moments = data.weights, data.moments
    sum_w, sum_wy = w.sum(axis=1)[:, None], moments.sum(axis=1)[:, None]
    sum_wt, sum_wtt, sum_wty = w @ terms.T, w @ (terms**2).T, moments @ terms.T
    centred = np.maximum(sum_wtt - sum_wt**2 / sum_w, SMALLEST_SHARE * sum_wtt)
    covariance = sum_wty - sum_wt * sum_wy / sum_w

    # What the term explains: beside a constant, or alone where the constant would be negative.
    explained = covariance**2 / centred + sum_wy**2 / sum_w
    is_beside: BoolArray = (covariance > 0) & (sum_wy * centred >= covariance * sum_wt)
    explained = np.where(is_beside, explained, sum_wty**2 / sum_wtt)
    explained[covariance <= 0] = -np.inf
    return np.asarray(np.argpartition(-explained, count - 1, axis=1)[:, :count])
