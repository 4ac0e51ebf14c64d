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

from insitu.modeling.evidence.noise import effective_repetitions
from insitu.modeling.evidence.normal_equations import TYPICAL_NOISE
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

PRIOR_DEGREES = 4.0  # the noise of a coordinate starts from that of all, which counts like so many
MIN_TRIPLES = 12  # of successive repetitions, from which a correlation is estimated
CORRELATION_ERROR = 1.5  # standard error of the correlation, times the root of the triples
MIN_CORRELATION_ERRORS = 2.0  # smaller correlations count as none
MAX_CORRELATION = 0.9
SMALLEST_SUM = 1e-300  # of squares, so that ratios stay finite
MAX_RATIO = 4.0  # of the noise of a coordinate to that of all, either way


@dataclass(frozen=True, slots=True)
class RepetitionWorth:
    """What the repetitions of series s at points n are worth.

    repetitions: (s, n), independent measurements of the usual noise of the series. deviations:
    (s, n), standard deviation of one repetition, as if the noise were the usual there, NaN where
    unknown. newest: (s,), the noise at the largest coordinate, relative to the usual.
    """

    repetitions: FloatArray
    deviations: FloatArray
    newest: FloatArray

    def select(self, rows: IntArray) -> "RepetitionWorth":
        """Return that of some of the series (k,)."""
        return RepetitionWorth(self.repetitions[rows], self.deviations[rows], self.newest[rows])

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
        return RepetitionWorth(changed, self.deviations, self.newest), least


def weigh_repetitions(series: Series, pools: Iterable[IntArray]) -> RepetitionWorth:
    """Return what repetitions are worth, in pools of series that share their noise.

    Args:
        series: s of them. pools: indices of the series in each; the others keep the noise that
            repetitions have without correlation, the same at all coordinates.
    """
    excess = _excess(series)
    deviations = series.deviations / np.sqrt(excess)
    worth = RepetitionWorth(
        repetitions=effective_repetitions(series.counts),
        deviations=deviations.copy(),
        newest=np.ones(len(series.values)),
    )
    for rows in pools:
        counts = series.counts[rows]
        ratios = noise_by_coordinate(deviations[rows], counts)
        correlation = correlation_of_repetitions(series.lags[rows])
        of_mean, within, between = _correlated_variances(counts, correlation)

        worth.repetitions[rows] = effective_repetitions(counts) * between / of_mean / ratios**2
        worth.deviations[rows] = deviations[rows] / np.sqrt(within) / ratios
        worth.newest[rows] = ratios[-1] if len(ratios) else 1.0
    return replace(worth, repetitions=worth.repetitions / excess)


def _excess(series: Series) -> FloatArray:
    """Factor by which known errors enlarge the variance of each value: (s, n), at least 1.

    All other noise counts as typical here: what it really is, the fit learns.
    """
    known = series.known_variances
    if known is None:
        return np.ones(series.values.shape)
    return np.asarray(1 + known / TYPICAL_NOISE**2)


def noise_by_coordinate(deviations: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the noise at each coordinate relative to the usual, with geometric mean 1: (n,).

    The median over series of their deviation there, relative to their own median: a few outliers
    do not make a coordinate noisy.

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
    degrees = (counts[is_used] - 1).sum(axis=0)
    of_points = of_points * degrees / (degrees + PRIOR_DEGREES)
    of_points = of_points - of_points.mean()
    return np.asarray(np.exp(np.clip(of_points, -np.log(MAX_RATIO), np.log(MAX_RATIO))))


def correlation_of_repetitions(lags: FloatArray) -> float:
    """Return the correlation of successive repetitions, 0 where it is within its error.

    Of an autoregressive process with correlation φ, differences of lag two have 1 + φ times the
    variance of those of lag one. Series that share the deviations of a run are no independent
    evidence, so the error is at least that between coordinates, by the jackknife.

    Args:
        lags: (s, n, 3), see Series.
    """
    at_points = lags.sum(axis=0)
    of_one, of_two, triples = at_points.sum(axis=0).tolist()
    n_points = len(at_points)
    if triples < MIN_TRIPLES or n_points < 2 or of_one <= 0:
        return 0.0

    without_each = at_points.sum(axis=0) - at_points
    ratios = without_each[:, 1] / np.maximum(without_each[:, 0], SMALLEST_SUM)
    between_points = np.sqrt((n_points - 1) * ratios.var())
    error = max(CORRELATION_ERROR / np.sqrt(triples), float(between_points))
    correlation = of_two / of_one - 1
    if correlation < MIN_CORRELATION_ERRORS * error:
        return 0.0
    return float(min(correlation, MAX_CORRELATION))


def _correlated_variances(
    counts: FloatArray, correlation: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances of repetitions of an autoregressive process, relative to independent ones.

    Returns:
        Of the mean of the repetitions, of their scatter around it, and 1 over the factor by which
        correlated neighbours make coefficients less certain: (s, n) each.
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
    return of_mean, within, (1 - neighbours) / (1 + neighbours)
