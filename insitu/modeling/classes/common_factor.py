"""Two groups of ranks in what several series have in common, where no series shows them alone.

Where two classes lie about one standard deviation apart, no single series has classes. Several
series that share the classes vary together, though: a factor analysis finds the common factor of
their values [D. N. Lawley and A. E. Maxwell, Factor Analysis as a Statistical Method (1971)]. Ranks
that are slower or faster without groups have a common factor as well, so that two groups must
describe it more briefly than continuous distributions do.
"""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.classes.candidates import HALF_LOG_2PI
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.measurement import FloatArray, IntArray

MIN_SERIES = 3  # that a factor needs: of two, its share in each is not defined
MIN_RANKS = 16  # of a run that decides; in smaller ones the mean depends on the classes of few
MAX_DEVIATION = 3.0  # standard deviations, beyond which a value is drawn near
MIN_SIGNAL = 1.0  # variance of the factor over that of its noise, below which nothing is visible
MAX_COMMUNALITY = 0.95  # share of the factor in a series; above it, a series decides alone
ROUNDS = 30  # of factor analysis, and of expectation maximisation
START_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of the upper group
# Nats by which two groups must be better than no groups. Of eleven continuous distributions, three
# of them those below, none of 792 samples of 240 and 1,000 ranks reached it; the highest was 5.
WORTH = 6.0


def find_groups(logs: Sequence[FloatArray], run: IntArray) -> IntArray | None:
    """Find two groups of values that several series have in common.

    Args:
        logs: of each series, (n,) of all runs.
        run: of each value, (n,).

    Returns:
        The group of each value, (n,) 0 or 1; None where the series have no groups in common.
    """
    if len(logs) < MIN_SERIES:
        return None
    deviations = np.stack([_standardise(item, run) for item in logs])
    is_large = np.bincount(run)[run] >= MIN_RANKS
    if is_large.sum() < MIN_RANKS * MIN_SERIES:
        return None

    # A series whose values differ in small runs alone, as without noise, has no part in a factor.
    varies = np.ptp(deviations[:, is_large], axis=1) > 0
    if varies.sum() < MIN_SERIES:
        return None

    score = _score_factor(deviations[varies], is_large)
    if score is None:
        return None
    deciding = score[is_large]
    low, high, share, likelihood = _fit_two_groups(deciding)
    price = float(np.log(len(deciding)))  # of two more parameters than without groups
    if likelihood - price < _fit_continuous(deciding) + WORTH:
        return None
    weights = np.log([1 - share, share])
    distances = np.stack([score - low, score - high]) ** 2 / 2
    groups: IntArray = (weights[:, None] - distances).argmax(axis=0)
    return groups if 0 < groups.sum() < len(groups) else None


def _standardise(logs: FloatArray, run: IntArray) -> FloatArray:
    """Values above the mean of their run, in standard deviations, outliers drawn near."""
    count = np.bincount(run)
    near = logs
    for _ in range(2):
        above = logs - (np.bincount(run, near) / count)[run]
        limit = MAX_DEVIATION * 1.4826 * max(float(np.median(abs(above))), 1e-12)
        near = logs - above + np.clip(above, -limit, limit)
    above = near - (np.bincount(run, near) / count)[run]
    standardised: FloatArray = above / max(float(above.std()), 1e-12)
    return standardised


def _score_factor(deviations: FloatArray, is_large: BoolArray) -> FloatArray | None:
    """The common factor of the series for each value, with noise of variance 1; None without one.

    Args:
        deviations: (n_series, n), standardised.
        is_large: (n,), values that the factor is estimated from.
    """
    large = deviations[:, is_large]
    correlation: FloatArray = np.array(np.corrcoef(large))
    off_diagonal = correlation - np.eye(len(large))
    communality = np.clip(abs(off_diagonal).max(axis=1), 0.05, MAX_COMMUNALITY)
    loading = np.sqrt(communality)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(off_diagonal + np.diag(communality))
        loading = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
        communality = np.clip(loading**2, 1e-3, MAX_COMMUNALITY)

    loading = loading * np.sign(loading.sum() or 1.0)
    weight = loading / (1 - communality)
    signal = float(weight @ loading)
    if signal < MIN_SIGNAL:
        return None
    score: FloatArray = weight @ deviations / np.sqrt(signal)
    return score - float(score[is_large].mean())


def _fit_two_groups(score: FloatArray) -> tuple[float, float, float, float]:
    """Two normal distributions of variance 1: their means, the share of the upper, likelihood."""
    best = (0.0, 0.0, 0.5, -np.inf)
    for start in START_SHARES:
        cut = np.quantile(score, 1 - start)
        low, high = float(score[score <= cut].mean()), float(score[score >= cut].mean())
        share, likelihood = start, -np.inf
        for _ in range(ROUNDS):
            densities = np.stack(
                [
                    np.log(1 - share) - (score - low) ** 2 / 2,
                    np.log(share) - (score - high) ** 2 / 2,
                ]
            )
            total = np.logaddexp(*densities)
            likelihood = float(total.sum()) - HALF_LOG_2PI * len(score)
            upper = np.exp(densities[1] - total)
            share = float(np.clip(upper.mean(), 1e-3, 1 - 1e-3))
            high = float((upper * score).sum() / max(upper.sum(), 1e-9))
            low = float(((1 - upper) * score).sum() / max((1 - upper).sum(), 1e-9))
        if likelihood > best[3]:
            best = (low, high, share, likelihood)
    return best


def _fit_continuous(score: FloatArray) -> float:
    """The highest likelihood of distributions without groups, with normal noise of variance 1.

    Their variance is that of the values: normal, uniform, and exponential in both directions.
    """
    from scipy.special import log_ndtr  # slow to load, and seldom needed

    variance = max(float(score @ score) / len(score), 1.01)
    signal = float(np.sqrt(variance - 1))
    normal = -len(score) * (HALF_LOG_2PI + np.log(variance) / 2 + 0.5)

    half_width = np.sqrt(3) * signal
    upper, lower = log_ndtr(score + half_width), log_ndtr(score - half_width)
    difference = upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-12)))
    uniform = float(difference.sum()) - len(score) * float(np.log(2 * half_width))

    likelihoods = [float(normal), uniform]
    rate = 1 / signal
    for direction in (1.0, -1.0):
        above = direction * score + signal
        density = np.log(rate) - rate * above + rate**2 / 2 + log_ndtr(above - rate)
        likelihoods.append(float(density.sum()))
    return max(likelihoods)
