"""The distribution of noise levels, learnt from the series that share it.

Empirical Bayes: the distribution is the one that makes the data of all series of a pool most
probable together. Expectation maximisation over a grid of levels finds it. Series are pooled by
metric, by whether they are counts, and by magnitude, since short times are noisier than long ones.
"""

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.measurement import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

# Noise levels are relative standard deviations: 0.02 is 2 %.
LEVELS = np.geomspace(0.001, 0.4, 16)  # of measured values
COUNT_LEVELS = np.concatenate([np.geomspace(1e-6, 1e-3, 4)[:-1], LEVELS])  # visits, bytes

# The distribution before any data: log-normal around 2 %, with a tail for everything else.
PRIOR_LOG_CENTRE, PRIOR_LOG_WIDTH = np.log(0.02), 1.5
PRIOR_TAIL = 0.05  # added at every level, relative to the peak
PRIOR_WEIGHT = 1.0  # counts like this many series
CHANGE_PRIOR_WEIGHT = 10.0  # the prior of changes of behaviour counts like this many series
POOL_WEIGHT = 300.0  # all magnitudes count like this many series for a single magnitude

EM_ROUNDS = 12  # of expectation maximisation
SAMPLE_SIZE = 300  # series that a distribution is learnt from
SAMPLE_SIZE_LONG = 100  # the same where series are long enough to be cut, which costs more
NEGLIGIBLE_PROBABILITY = 4e-3  # levels less probable than this are not computed …
STRIDE = 4  # … except every fourth, so that each series has a level near its own

SHARED_VARIANCE = 0.1  # share of a measurement's variance that its repetitions have in common
SAME_SOURCE_PRIOR = 0.7  # prior that points scatter as much as repetitions of one point do
# Deviation of a point, relative to the median over points, beyond which it counts like that: a
# repetition that is slow alone says nothing about all others. Chosen on noise of all kinds (that of
# tests/evaluation/noise.py, seeds 71 and 72); 3 would hold slightly less of crowded machines.
MAX_OF_USUAL = 5.0

DIGITS_PER_MAGNITUDE = 2  # a magnitude spans a factor of 10² = 100
SMALLEST_MAGNITUDE = 1e-12

LOG_IMPOSSIBLE = -1e3  # finite: differences of logarithms stay numbers


def noise_prior(levels: FloatArray) -> FloatArray:
    """Return the distribution before any data at levels (L,): broad, around 2 %; sums to 1."""
    distance = (np.log(levels) - PRIOR_LOG_CENTRE) / PRIOR_LOG_WIDTH
    weight = np.exp(-0.5 * distance**2) + PRIOR_TAIL
    return np.asarray(weight / weight.sum())


def fit_noise_distribution(
    log_likelihood: FloatArray, prior: FloatArray, *, prior_weight: float
) -> FloatArray:
    """Return the probability of each noise level: (L,).

    Args:
        log_likelihood: (s, L), of each series at each level.
        prior: (L,), the distribution without these series; counts like `prior_weight` series.
    """
    distribution = prior
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))

    for _ in range(EM_ROUNDS):
        share = likelihood * distribution
        share /= share.sum(axis=1, keepdims=True)
        distribution = (share.sum(axis=0) + prior_weight * prior) / (len(share) + prior_weight)

    return distribution


def fit_noise_and_changes(
    log_likelihood: FloatArray, noise_before: FloatArray, changes_before: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the probability of each noise level (L,) and of each kind of change (K,).

    Args:
        log_likelihood: (K, s, L), of each series of a sample, by kind of change and level.
        noise_before: (L,), counts like PRIOR_WEIGHT series.
        changes_before: (K,), counts like CHANGE_PRIOR_WEIGHT series.
    """
    noise, changes = noise_before, changes_before
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=(0, 2), keepdims=True))
    count = likelihood.shape[1]

    for _ in range(EM_ROUNDS):
        share = likelihood * noise * changes[:, None, None]
        share /= share.sum(axis=(0, 2), keepdims=True)
        of_levels, of_kinds = share.sum(axis=(0, 1)), share.sum(axis=(1, 2))
        noise = (of_levels + PRIOR_WEIGHT * noise_before) / (count + PRIOR_WEIGHT)
        changes = (of_kinds + CHANGE_PRIOR_WEIGHT * changes_before) / (count + CHANGE_PRIOR_WEIGHT)

    return noise, changes


def select_levels(probability: FloatArray) -> IntArray:
    """Return the indices of the levels worth computing under a distribution (L,).

    A coarse grid always stays, for series unlike the others.
    """
    is_relevant = probability > NEGLIGIBLE_PROBABILITY
    is_relevant[::STRIDE] = True
    is_relevant[-1] = True
    return np.flatnonzero(is_relevant)


def effective_repetitions(counts: FloatArray) -> FloatArray:
    """Return how many independent measurements so many repetitions are worth: (s, n) to (s, n).

    They are fewer than the repetitions, because repetitions share some of their noise.
    """
    return np.asarray(counts / (1 + SHARED_VARIANCE * np.maximum(counts - 1, 0)))


def log_likelihood_of_scatter(
    deviations: FloatArray, counts: FloatArray, levels: FloatArray
) -> FloatArray:
    """Return how well each noise level explains the scatter of repetitions: (s, L), logarithm.

    Points may scatter more than repetitions of one point do, which share the node and the hour.
    A level is therefore also possible if the repetitions scatter less than that. A point scatters
    by MAX_OF_USUAL of what the points of its series usually do, at most.

    Args:
        deviations: (s, n) relative standard deviation of one repetition, NaN where unknown.
        counts: (s, n) repetitions.
        levels: (L,).
    """
    is_known = ~np.isnan(deviations)
    degrees = np.where(is_known, counts - 1, 0.0)
    usual = _median_of(deviations, is_known & (deviations > 0))
    limited = np.minimum(np.where(is_known, deviations, 0.0), MAX_OF_USUAL * usual)
    squares = (degrees * limited**2).sum(axis=1)[:, None]
    total = degrees.sum(axis=1)[:, None]

    log_same = -total * np.log(levels) - squares / (2 * levels**2)
    log_same -= log_same.max(axis=1, keepdims=True, initial=-np.inf)
    same = np.exp(log_same)

    # If the source differs, the scatter of repetitions is as likely at any level up to this one.
    other = np.cumsum(same, axis=1) / np.arange(1, len(levels) + 1)
    return np.asarray(np.log(SAME_SOURCE_PRIOR * same + (1 - SAME_SOURCE_PRIOR) * other + 1e-300))


def log_likelihood_of_least(least: FloatArray, levels: FloatArray) -> FloatArray:
    """Return how possible noise levels are where a part of it is known: (s, L), logarithm.

    What is known, such as the error of samples, is independent of all other noise, so no level
    below it is possible. The known level itself, between two of the grid, is the higher of them.

    Args:
        least: (s,), the part that is known. levels: (L,), ascending; the last is always possible.
    """
    is_possible = levels >= np.minimum(least, levels[-1])[:, None]
    return np.where(is_possible, 0.0, LOG_IMPOSSIBLE)


def _median_of(values: FloatArray, is_used: BoolArray) -> FloatArray:
    """The median of some values of each series: (s, n) to (s, 1), infinite where there are none."""
    ascending = np.sort(np.where(is_used, values, np.inf), axis=1)
    ascending = np.pad(ascending, ((0, 0), (0, 1)), constant_values=np.inf)
    count = np.maximum(is_used.sum(axis=1, keepdims=True), 1)
    of_low = np.take_along_axis(ascending, (count - 1) // 2, axis=1)
    return np.asarray((of_low + np.take_along_axis(ascending, count // 2, axis=1)) / 2)


def are_counts(values: FloatArray) -> BoolArray:
    """Return which series (s, n) are counts: all values whole, not all zero. NaN is ignored."""
    finite = np.where(np.isnan(values), 0.0, values)
    return np.asarray((finite == np.round(finite)).all(axis=1) & (finite != 0).any(axis=1))


def magnitudes(values: FloatArray) -> IntArray:
    """Return the magnitude of each series (s, n), in steps of a factor of 100. NaN is ignored."""
    largest = np.abs(np.where(np.isnan(values), 0.0, values)).max(axis=1, initial=0.0)
    digits = np.log10(np.maximum(largest, SMALLEST_MAGNITUDE))
    return np.asarray(np.floor(digits / DIGITS_PER_MAGNITUDE), dtype=np.intp)
