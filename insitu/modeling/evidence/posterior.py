"""Hypotheses fitted to many series on the same points, and their posterior."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.evidence.marginal import invisible_prior
from insitu.modeling.evidence.normal_equations import (
    Candidates,
    NormalEquations,
    concatenate_candidates,
)
from insitu.modeling.evidence.pair_equations import PairEquations
from insitu.modeling.evidence.relative_data import RelativeData
from insitu.modeling.measurement import FloatArray, IntArray

CLEAN = 3e-3  # noise below which the first stage may tell hypotheses apart exactly
MAX_TERM_CANDIDATES, MAX_PAIR_CANDIDATES = 6, 4  # hypotheses whose evidence is computed
MIN_RATIO_SIZE = 1e-6  # values below this share of their size count as zero and have no ratio
MISFITS_AT_ONCE = 8192  # numbers: 64 kB
MIN_RATIO = 1e-3  # ratios of a value to its function are clipped to this and its inverse
IMPOSSIBLE_SCORE = np.finfo(np.float32).min

MIN_LOG_VARIANCE = 1e-3  # of the noise level; the degrees of freedom stay finite
MIN_DEGREES, MAX_DEGREES = 2.0, 200.0  # of freedom of the noise level


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the data of series s say about hypotheses h and noise.

    hypotheses: (s, h), probability of each. sigma: (s,), noise level. degrees: (s,), degrees of
    freedom of sigma. log_evidence: (s,), logarithm of the probability of the data.
    """

    hypotheses: FloatArray
    sigma: FloatArray
    degrees: FloatArray
    log_evidence: FloatArray


def compute_posterior(
    log_evidence: FloatArray, noise_prior: FloatArray, levels: FloatArray
) -> Posterior:
    """Return the posterior over hypotheses and noise.

    Args:
        log_evidence: (s, h, L). noise_prior: (s, L), probability of each level. levels: (L,).
    """
    joint = log_evidence + np.log(np.maximum(noise_prior, 1e-300))[:, None, :]
    top = joint.max(axis=(1, 2), keepdims=True)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=(1, 2))

    noise = joint.sum(axis=1) / total[:, None]
    return Posterior(
        hypotheses=joint.sum(axis=2) / total[:, None],
        sigma=np.sqrt(noise @ levels**2),
        degrees=degrees_of_freedom(noise, levels),
        log_evidence=np.log(total) + top[:, 0, 0],
    )


def degrees_of_freedom(noise: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the degrees of freedom that noise is known with: (s,).

    The logarithm of a standard deviation with ν degrees of freedom has a variance of 1/(2ν).

    Args:
        noise: (s, L), probability of each level. levels: (L,).
    """
    log_levels = np.log(levels)
    mean = noise @ log_levels
    variance = np.maximum(noise @ log_levels**2 - mean**2, MIN_LOG_VARIANCE)
    return np.asarray(np.clip(0.5 / variance, MIN_DEGREES, MAX_DEGREES))


def log_total(log_evidence: FloatArray, noise_prior: FloatArray) -> FloatArray:
    """Return the logarithm of the probability of the data: (s,).

    Args:
        log_evidence: (s, h, L). noise_prior: (s, L), probability of each level.
    """
    joint = log_evidence + np.log(np.maximum(noise_prior, 1e-300))[:, None, :]
    top = joint.max(axis=(1, 2))
    joint -= top[:, None, None]
    return np.asarray(np.log(np.exp(joint, out=joint).sum(axis=(1, 2))) + top)


def fit_hypotheses(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    with_pairs: bool = True,
    may_be_exact: bool = False,
) -> Candidates:
    """Fit every hypothesis, keep the best by score, and compute their evidence.

    Args:
        levels: (L,) noise levels. with_pairs: also consider functions of two terms.
        may_be_exact: tell hypotheses apart exactly where a series has hardly any noise. This takes
            a second pass for such series, and for those that one hypothesis fits by chance.
    """
    # A series without points divides by zero; its evidence is worth nothing anyway.
    with np.errstate(divide="ignore", invalid="ignore"):
        candidates, misfit = _fit_hypotheses(data, space, levels, with_pairs=with_pairs)
        is_clean = misfit.min(axis=1) < data.counts * CLEAN**2
        clean = np.flatnonzero(is_clean & (data.counts > 2) & may_be_exact)
        if len(clean):
            exact, _ = _fit_hypotheses(
                data.select(clean), space, levels, with_pairs=with_pairs, is_exact=True
            )
            candidates.replace(clean, exact)
        return candidates


def _fit_hypotheses(
    data: RelativeData,
    space: HypothesisSpace,
    levels: FloatArray,
    *,
    with_pairs: bool,
    is_exact: bool = False,
) -> tuple[Candidates, FloatArray]:
    """The candidates and their residual squares (s, h)."""
    normal = NormalEquations(data, is_exact=is_exact)
    invisible = invisible_prior(levels)
    prior_of_terms = float(np.exp(space.log_prior_terms).sum())
    forms = [
        normal.fit_constant(
            levels, space.log_prior_constant, invisible, prior_of_terms=prior_of_terms
        )
    ]

    score = normal.score_terms(space.log_prior_terms + _exclude_unusable(data))
    best = _best_hypotheses(score, MAX_TERM_CANDIDATES)
    forms += normal.fit_terms(best, space.log_prior_terms, levels, invisible)

    if with_pairs and data.terms.shape[1] > 2 and len(space.pairs):
        pairs = PairEquations(normal, space.pairs)
        best = _best_hypotheses(pairs.score(space.log_prior_pairs), MAX_PAIR_CANDIDATES)
        forms += pairs.fit(best, space.log_prior_pairs, levels, invisible)

    candidates = concatenate_candidates(forms)
    misfit = _misfit(candidates, normal)
    by_level = candidates.log_evidence.transpose(2, 0, 1)  # a view: levels first
    by_level -= misfit / (2 * levels**2)[:, None, None]

    # A function with as many coefficients as there are points fits anything.
    n_columns = (candidates.first >= 0) * 1 + (candidates.second >= 0)
    n_columns += candidates.coefficients[0] != 0
    is_possible = np.isfinite(candidates.log_evidence[:, :, 0])
    is_possible &= n_columns < data.counts[:, None]
    return candidates, np.where(is_possible, misfit, np.inf)


def _best_hypotheses(score: FloatArray, count: int) -> IntArray:
    """The hypotheses with the highest scores, best first: (h, s) to (q, s).

    One after the other: for a few of them this is several times as fast as a partition.
    """
    remaining = np.array(score.T, order="C")
    np.fmax(remaining, IMPOSSIBLE_SCORE, out=remaining)
    rows = np.arange(len(remaining))

    result = np.empty((min(count, len(score)), len(remaining)), dtype=np.intp)
    for best in result:
        np.argmax(remaining, axis=1, out=best)
        remaining[rows, best] = -np.inf
    return result


def _misfit(candidates: Candidates, normal: NormalEquations) -> FloatArray:
    """The residual sum of squares of each candidate, with errors as ratios: (s, h).

    Least squares measures errors relative to the values, so nothing can be more than 100 % too low.
    The logarithm of the ratio does not let a constant pass for noisy growth. The sum is over the
    residuals themselves: a difference of sums would lose all digits of a function that fits well.
    """
    data = normal.data
    extended = np.vstack([normal.terms, np.zeros(normal.terms.shape[1])])  # -1: no term
    offset, first, second = candidates.coefficients
    misfit = np.zeros(offset.shape)

    # Points first: (n, s, 1), for as many points at once as the cache holds.
    weights = data.weights.T[:, :, None]
    repetitions = data.repetitions.T[:, :, None]
    values = data.moments.T[:, :, None] / np.where(weights > 0, weights, 1.0)
    is_positive = values > 0
    divisors = np.where(is_positive, values, 1.0)
    has_ratio = is_positive & (weights * values**2 > MIN_RATIO_SIZE**2 * repetitions)
    columns = extended.T

    n_points = len(weights)
    step = max(1, MISFITS_AT_ONCE // max(offset.size, 1))
    for start in range(0, n_points, step):
        chosen = slice(start, start + step)
        column = columns[chosen]
        fitted = offset + first * column[:, candidates.first]
        fitted += second * column[:, candidates.second]
        log_ratio = np.log(
            np.minimum(np.maximum(fitted / divisors[chosen], MIN_RATIO), 1 / MIN_RATIO)
        )
        by_value = weights[chosen] * (values[chosen] - fitted) ** 2
        by_ratio = repetitions[chosen] * log_ratio**2
        for of_point in np.where(has_ratio[chosen], by_ratio, by_value):
            misfit += of_point

    return misfit


def _exclude_unusable(data: RelativeData) -> FloatArray:
    """Minus infinity for terms that are zero or not finite on the points: (T,)."""
    is_finite = np.isfinite(data.terms).all(axis=1)
    is_usable = is_finite & (np.abs(data.terms).max(axis=1, initial=0) > 0)
    return np.where(is_usable, 0.0, -np.inf)


def fitted_mean(candidates: Candidates, probabilities: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the posterior mean of the function at each point: (s, n).

    Args:
        probabilities: (s, h) of the candidates. terms: (T, n).
    """
    extended = np.vstack([np.where(np.isfinite(terms), terms, 0.0), np.zeros(terms.shape[1])])
    offset, first, second = candidates.coefficients
    mean = np.empty((len(offset), terms.shape[1]))

    for i, column in enumerate(extended.T):
        fitted = offset + first * column[candidates.first] + second * column[candidates.second]
        mean[:, i] = (probabilities * fitted).sum(axis=1)
    return mean
