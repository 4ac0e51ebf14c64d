"""What repetitions are worth: noise that depends on the coordinate, and repetitions that hang
together.

Times at large scales are often noisier than at small ones, so the scatter of repetitions over the
series of a pool gives each coordinate a noise of its own, relative to the others. Repetitions that
follow each other on a machine that changes slowly resemble each other; so their mean is worth fewer
independent measurements than their number, and they scatter less than measurements of another day.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.noise import (
    effective_repetitions,
    log_likelihood_of_least,
    log_likelihood_of_scatter,
)
from insitu.modeling.evidence.normal_equations import TYPICAL_NOISE
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

PRIOR_DEGREES = 4.0  # the noise of a coordinate starts from that of all, which counts like so many
MIN_TRIPLES = 12  # of successive repetitions, from which a correlation is estimated
LOG_RATIO_ERROR = 2.0  # of two sums of squares, times the root of their number
MIN_CORRELATION_ERRORS = 2.0  # smaller correlations count as none
CORRELATIONS = np.linspace(0.0, 0.9, 19)  # equally probable before any data
SMALLEST_SUM = 1e-300  # of squares, so that ratios stay finite
MAX_RATIO = 4.0  # of the noise of a coordinate to that of all, either way


@dataclass(frozen=True, slots=True)
class RepetitionWorth:
    """What the repetitions of series s at points n are worth.

    repetitions: (s, n), independent measurements of the usual noise of the series. deviations:
    (s, n), standard deviation of one repetition, as if the noise were the usual there, NaN where
    unknown. newest: (s,), the noise at the largest coordinate, relative to the usual. degrees:
    (s,), of freedom with which the noise follows from the scatter, infinite without correlation.
    least: (s,), usual noise with which values have the errors that are known, and no others.
    """

    repetitions: FloatArray
    deviations: FloatArray
    newest: FloatArray
    degrees: FloatArray
    least: FloatArray

    def select(self, rows: IntArray) -> "RepetitionWorth":
        """Return that of some of the series (k,)."""
        return RepetitionWorth(
            repetitions=self.repetitions[rows],
            deviations=self.deviations[rows],
            newest=self.newest[rows],
            degrees=self.degrees[rows],
            least=self.least[rows],
        )

    def with_shared_deviation(
        self, rows: IntArray, variance: float
    ) -> tuple["RepetitionWorth", FloatArray]:
        """Return what repetitions are worth where series share a deviation at each coordinate.

        However often a coordinate was repeated, the deviation stays in the mean.

        Args:
            rows: (k,), the series that have it. variance: of its logarithm.

        Returns:
            The same for all series, and the least noise of one measurement of these: (k,).
        """
        own = np.nan_to_num(self.deviations[rows])
        own = np.median(own, axis=1, keepdims=True) ** 2
        repetitions = self.repetitions[rows]
        repeated = np.maximum(repetitions, 1.0)
        of_mean = np.maximum(own / repeated, variance)
        of_one = of_mean + own * (1 - 1 / repeated)

        changed = self.repetitions.copy()
        changed[rows] = np.where(repetitions > 0, np.minimum(of_one / of_mean, repetitions), 0.0)
        least = np.sqrt(np.median(of_one, axis=1))
        return replace(self, repetitions=changed), least


def weigh_repetitions(series: Series, pools: Iterable[IntArray]) -> RepetitionWorth:
    """Return what repetitions are worth, in pools of series that share their noise.

    Args:
        series: s of them. pools: indices of the series in each; the others keep the noise that
            repetitions have without correlation, the same at all coordinates.
    """
    excess = excess_of_known(series)
    deviations = series.deviations / np.sqrt(excess)
    worth = RepetitionWorth(
        repetitions=effective_repetitions(series.counts),
        deviations=deviations.copy(),
        newest=np.ones(len(series.values)),
        degrees=np.full(len(series.values), np.inf),
        least=least_noise(series),
    )
    for rows in pools:
        counts = series.counts[rows]
        ratios = noise_by_coordinate(deviations[rows], counts)
        posterior = correlation_of_repetitions(series.lags[rows])
        of_mean, within, between, degrees = _expected_variances(counts, posterior)

        worth.repetitions[rows] = effective_repetitions(counts) * between / of_mean / ratios**2
        worth.deviations[rows] = deviations[rows] / np.sqrt(within) / ratios
        worth.newest[rows] = ratios[-1] if len(ratios) else 1.0
        worth.degrees[rows] = degrees
    return replace(worth, repetitions=worth.repetitions / excess)


def excess_of_known(series: Series) -> FloatArray:
    """Return the factor by which known errors enlarge the variance of each value: (s, n), >= 1.

    All other noise counts as typical here: what it really is, the fit learns.
    """
    known = series.known_variances
    if known is None:
        return np.ones(series.values.shape)
    return np.asarray(1 + known / TYPICAL_NOISE**2)


def least_noise(series: Series) -> FloatArray:
    """Return the usual noise with which values have the known errors, and no others: (s,).

    The median over the points of a series: `excess_of_known` is right for typical noise only.
    """
    known = series.known_variances
    if known is None:
        return np.zeros(len(series.values))
    of_points = known / (1 + known / TYPICAL_NOISE**2)
    is_measured = series.counts > 0
    filled = np.where(is_measured.any(axis=1, keepdims=True) & ~is_measured, np.nan, of_points)
    return np.asarray(np.sqrt(np.nanmedian(filled, axis=1)))


def log_likelihood_of_noise(series: Series, levels: FloatArray) -> FloatArray:
    """Return what is known of the noise of series before any fit: (s, L), logarithm.

    Args:
        series: whose repetitions scatter alike at all coordinates. levels: (L,).
    """
    deviations = series.deviations / np.sqrt(excess_of_known(series))
    of_scatter = log_likelihood_of_scatter(deviations, series.counts, levels)
    return of_scatter + log_likelihood_of_least(least_noise(series), levels)


def noise_by_coordinate(deviations: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the noise at each coordinate relative to the usual, with geometric mean 1: (n,).

    The median over series of their deviation there, relative to their own median: a few outliers
    do not make a coordinate noisy. Series that share the deviations of a run are not so many
    independent ones: at each coordinate they scatter alike, more than their few repetitions would
    by chance.

    Args:
        deviations: (s, n), NaN where unknown. counts: (s, n), repetitions.
    """
    n_points = deviations.shape[1]
    is_known = np.isfinite(deviations) & (deviations > 0)
    is_used = is_known.all(axis=1)
    if not is_used.any():
        return np.ones(n_points)

    used = deviations[is_used]
    log_ratios = np.log(used / np.median(used, axis=1, keepdims=True))
    of_points = np.median(log_ratios, axis=0)
    degrees = (counts[is_used] - 1).sum(axis=0) / _series_per_independent(
        log_ratios, counts[is_used]
    )
    of_points = of_points * degrees / (degrees + PRIOR_DEGREES)
    of_points = of_points - of_points.mean()
    return np.asarray(np.exp(np.clip(of_points, -np.log(MAX_RATIO), np.log(MAX_RATIO))))


def _series_per_independent(log_deviations: FloatArray, counts: FloatArray) -> float:
    """How many series count like a single one, because they scatter alike at each coordinate.

    The logarithm of a standard deviation with ν degrees of freedom has a variance of ψ'(ν/2)/4. By
    as much less as series differ there, beside what they and the coordinates have on their own,
    they are correlated.

    Args:
        log_deviations: (s, n). counts: (s, n), repetitions, at least 2.
    """
    n_series, n_points = log_deviations.shape
    if n_series < 2 or n_points < 2:
        return 1.0
    from scipy.special import polygamma  # takes 0.2 s to import, and single values do not need it

    own = log_deviations - log_deviations.mean(axis=1, keepdims=True)
    own = own - own.mean(axis=0)
    observed = float((own**2).sum()) / ((n_series - 1) * (n_points - 1))
    expected = float(polygamma(1, (counts - 1) / 2).mean()) / 4
    correlation = max(0.0, 1.0 - observed / expected)
    return float(1 + (n_series - 1) * correlation)


def correlation_of_repetitions(lags: FloatArray) -> FloatArray | None:
    """Return the posterior of the correlation of successive repetitions: (C,) at CORRELATIONS.

    Of an autoregressive process with correlation φ, the difference of the first and the last of
    three repetitions, and the middle less the mean of both, are independent, and their variances
    have a ratio of 3 (1 + φ) / (3 - φ), scaled to 1 without correlation. The logarithm of the ratio
    of their sums has a standard error of 2 / √triples. Series that share the deviations of a run
    are no independent evidence, so the error is at least that between coordinates, by the
    jackknife.

    Args:
        lags: (s, n, 3), see Series.

    Returns:
        None where the ratio is within MIN_CORRELATION_ERRORS of its error.
    """
    at_points = lags.sum(axis=0)
    triples, n_points = float(at_points[:, 2].sum()), len(at_points)
    if triples < MIN_TRIPLES or n_points < 2:
        return None

    of_ends = at_points[:, 1] / 2
    of_middle = (4 * at_points[:, 0] - at_points[:, 1]) / 6
    without_each = np.stack([of_ends.sum() - of_ends, of_middle.sum() - of_middle])
    log_ratios = np.log(np.maximum(without_each, SMALLEST_SUM))
    between_points = np.sqrt((n_points - 1) * (log_ratios[0] - log_ratios[1]).var())
    error = max(LOG_RATIO_ERROR / np.sqrt(triples), float(between_points))

    sums = np.maximum([of_ends.sum(), of_middle.sum()], SMALLEST_SUM)
    log_ratio = float(np.log(sums[0] / sums[1]))
    if log_ratio < MIN_CORRELATION_ERRORS * error:
        return None
    distance = (np.log(3 * (1 + CORRELATIONS) / (3 - CORRELATIONS)) - log_ratio) / error
    distance -= np.abs(distance).min()  # a ratio beyond all correlations
    posterior = np.exp(-0.5 * distance**2)
    return np.asarray(posterior / posterior.sum())


def _expected_variances(
    counts: FloatArray, posterior: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What `_correlated_variances` returns, in the mean over a correlation that is not exact.

    The more repetitions resemble each other, the less they scatter and the less their mean is
    worth, and both rise steeply: the variance at the estimate is less than the expected variance.

    Returns:
        The same, and the degrees of freedom of the variance of the noise: (s,).
    """
    if posterior is None:
        return (*_correlated_variances(counts, 0.0), np.full(len(counts), np.inf))
    of_noise = np.zeros(counts.shape)
    squares = np.zeros(counts.shape)
    of_means = np.zeros(counts.shape)
    of_fits = np.zeros(counts.shape)
    for value, weight in zip(CORRELATIONS.tolist(), posterior.tolist(), strict=True):
        of_mean, within, between = _correlated_variances(counts, value)
        of_noise += weight / within
        squares += weight / within**2
        of_means += weight * of_mean / within
        of_fits += weight * of_mean / within / between

    # A variance with ν degrees of freedom has a relative variance of 2/ν.
    relative = np.maximum(squares / of_noise**2 - 1, 0.0).max(axis=1, initial=0.0)
    degrees = 2 / np.maximum(relative, SMALLEST_SUM)
    return of_means / of_noise, 1 / of_noise, of_means / of_fits, degrees


def _correlated_variances(
    counts: FloatArray, correlation: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances of repetitions of an autoregressive process, relative to independent ones.

    Returns:
        Of the mean of the repetitions, of their scatter around it, and 1 over the factor by which
        correlated neighbours make a line through all points less certain: (s, n) each.
    """
    if correlation == 0:
        return (np.ones(counts.shape),) * 3
    sums = np.zeros(counts.shape)
    across = np.zeros(counts.shape)
    largest = int(counts.max(initial=0))
    for lag in range(1, largest):
        sums += np.maximum(counts - lag, 0) * correlation**lag
    for lag in range(1, 2 * largest):
        pairs = np.minimum(lag, 2 * counts - lag)  # of repetitions of neighbours, so far apart
        across += np.maximum(pairs, 0) * correlation**lag

    repeated = np.maximum(counts, 1)
    of_mean = (repeated + 2 * sums) / repeated
    within = np.where(counts > 1, 1 - 2 * sums / np.maximum(counts * (counts - 1), 1), 1.0)
    neighbours = np.where(counts > 0, across / (repeated + 2 * sums), 0.0)
    return of_mean, within, 1 / _inflation_of_line(neighbours, correlation**repeated)


def _inflation_of_line(neighbours: FloatArray, decay: FloatArray) -> FloatArray:
    """The variance of a line at the next point, relative to that of independent points: (s, n).

    Of points equally far apart. How a series grows is a contrast between its ends, which share less
    of their noise than neighbours do, so it is more certain than the mean.

    Args:
        neighbours: (s, n), correlation of the values of neighbours. decay: (s, n), by which it
            falls with each further point.
    """
    n_points = neighbours.shape[1]
    centred = np.arange(n_points) - (n_points - 1) / 2
    weights = 1 / n_points + (n_points + 1) / 2 * centred / max(float(centred @ centred), 0.5)
    squares = float(weights @ weights)
    inflation = np.ones(neighbours.shape)
    for lag in range(1, n_points):
        shared = float(weights[lag:] @ weights[:-lag]) / squares
        inflation += 2 * shared * neighbours * decay ** (lag - 1)
    return np.maximum(inflation, 1.0)
