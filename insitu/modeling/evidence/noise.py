"""The law of noise: how probable each relative noise level is, learnt from series that share it.

Empirical Bayes: the law is what makes the data of all series of a pool most probable together,
found by expectation maximisation over a grid of levels. Series are pooled by metric, by whether
they count, and by the size of their values, since short times are noisier than long ones.
"""

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.measurement import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

LEVELS = np.geomspace(0.001, 0.4, 16)  # of measured values
COUNTED = np.concatenate(
    [np.geomspace(1e-6, 1e-3, 4)[:-1], LEVELS]
)  # of integers, as visits and bytes
PRIOR_WEIGHT = 1.0  # of the law before any data, in series
KINDS_WEIGHT = 10.0  # of the prior of changes of behaviour before any data, in series
POOL_WEIGHT = 300.0  # of the law of all sizes for the law of one size, in series
PRIOR_CENTRE, PRIOR_WIDTH = np.log(0.02), 1.5  # of the logarithm of the level
ROUNDS = 12  # of expectation and maximisation
SAMPLE = 300  # series that a law is learnt from
SAMPLE_CUT = 100  # the same, where series are long enough to be cut
FAINT = 4e-3  # levels less probable than this are left out, but for every STRIDE-th
STRIDE = 4  # so that no series is without a level near its own
SHARED = 0.1  # of the variance of a measurement that repetitions have in common
SAME_SOURCE = 0.7  # prior that points vary between them as much as repetitions of one point


def prior(levels: FloatArray) -> FloatArray:
    """The law before any data at levels (L,): broad, around 2 %; sums to 1."""
    weight = np.exp(-0.5 * ((np.log(levels) - PRIOR_CENTRE) / PRIOR_WIDTH) ** 2) + 0.05
    return np.asarray(weight / weight.sum())


def law(log_likelihood: FloatArray, before: FloatArray, *, weight: float) -> FloatArray:
    """The probability of each level, from the likelihood of each series at each level: (s, L).

    `before` is the law without these series; it counts like `weight` of them.
    """
    answer = before
    relative = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    for _ in range(ROUNDS):
        share = relative * answer
        share /= share.sum(axis=1, keepdims=True)
        answer = (share.sum(axis=0) + weight * before) / (len(share) + weight)
    return answer


def learn(
    log_likelihood: FloatArray, before: FloatArray, kinds_before: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The probability of each level and of each kind of series, from those of a sample.

    Args:
        log_likelihood: (K, s, L). before: (L,), counts like PRIOR_WEIGHT series. kinds_before:
            (K,), counts like KINDS_WEIGHT series.
    """
    law, kinds = before, kinds_before
    relative = np.exp(log_likelihood - log_likelihood.max(axis=(0, 2), keepdims=True))
    count = relative.shape[1]
    for _ in range(ROUNDS):
        share = relative * law * kinds[:, None, None]
        share /= share.sum(axis=(0, 2), keepdims=True)
        law = (share.sum(axis=(0, 1)) + PRIOR_WEIGHT * before) / (count + PRIOR_WEIGHT)
        kinds = (share.sum(axis=(1, 2)) + KINDS_WEIGHT * kinds_before) / (count + KINDS_WEIGHT)
    return law, kinds


def worth_computing(probability: FloatArray) -> IntArray:
    """Indices of the levels that matter under a law (L,); a coarse grid stays for series unlike
    the others.
    """
    keep = probability > FAINT
    keep[::STRIDE] = True
    keep[-1] = True
    return np.flatnonzero(keep)


def weight_of_repetitions(counts: FloatArray) -> FloatArray:
    """How many independent measurements so many repetitions are worth, in the shape of `counts`
    (s, n): they share a part of their noise.
    """
    return np.asarray(counts / (1 + SHARED * np.maximum(counts - 1, 0)))


def likelihood_of_repetitions(
    deviations: FloatArray, counts: FloatArray, levels: FloatArray
) -> FloatArray:
    """Logarithm of how well each noise level explains the scatter of repetitions: (s, L).

    Points may scatter more between them than repetitions of one point do, which share the node and
    the hour; so a level is also possible where repetitions scatter less.

    Args:
        deviations: (s, n) relative standard deviation of one repetition, NaN where not known.
        counts: (s, n) repetitions.
    """
    known = ~np.isnan(deviations)
    degrees = np.where(known, counts - 1, 0.0)
    squares = (degrees * np.where(known, deviations, 0.0) ** 2).sum(axis=1)[:, None]
    total = degrees.sum(axis=1)[:, None]
    within = -total * np.log(levels) - squares / (2 * levels**2)
    within -= within.max(axis=1, keepdims=True, initial=-np.inf)
    share = np.exp(within)
    below = np.cumsum(share, axis=1) / np.arange(1, len(levels) + 1)
    return np.asarray(np.log(SAME_SOURCE * share + (1 - SAME_SOURCE) * below + 1e-300))


def counted(values: FloatArray) -> BoolArray:
    """Which series count something: all values whole, not all zero. (s, n) with NaN to (s,)."""
    finite = np.where(np.isnan(values), 0.0, values)
    return np.asarray((finite == np.round(finite)).all(axis=1) & (finite != 0).any(axis=1))


def sizes(values: FloatArray) -> IntArray:
    """The size of each series in steps of a factor of 100. (s, n) with NaN to (s,)."""
    largest = np.abs(np.where(np.isnan(values), 0.0, values)).max(axis=1, initial=0.0)
    return np.asarray(np.floor(np.log10(np.maximum(largest, 1e-12)) / 2), dtype=np.intp)
