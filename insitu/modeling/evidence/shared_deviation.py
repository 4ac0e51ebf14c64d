"""A deviation that all series share at a point: a run that was slow or fast as a whole.

A busy machine slows down all call paths of a run by the same factor. Models that know nothing of
it take the factor for growth, each of them. So the logarithms of the factors are a random effect,
estimated from what the series of a pool leave unexplained together. Only what no power law of the
parameters explains is ever called a deviation; otherwise a growth that series have in common would
be one.
"""

from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray
from insitu.modeling.spread import Spread

MIN_SERIES = 4  # that a deviation is shared by
MIN_RESIDUALS = 3  # degrees of freedom that power laws leave, at least
SIGNIFICANCE = 1e-3  # of the F test: where nothing is shared, nothing is corrected
MAX_WEIGHT = 4.0  # of a quiet series, relative to the median
MIN_LOADING = 0.3  # of a series on the shared deviation; those with less do not have it
SMALLEST_VARIANCE = 1e-24  # of residuals, so that ratios stay finite


@dataclass(frozen=True, slots=True)
class SharedDeviation:
    """What series have in common at points n.

    logarithms: (n,), of the factor by which all values at a point are too large. is_shared: (s,),
    which series have it.
    """

    logarithms: FloatArray
    is_shared: BoolArray


def find_shared_deviation(
    residuals: FloatArray, levels: FloatArray, coordinates: FloatArray
) -> SharedDeviation | None:
    """Return the deviation that series share, None if there is none.

    Args:
        residuals: (s, n), logarithm of value over function; NaN where nothing was measured.
        levels: (s,), noise of each series.
        coordinates: (n, m), positive.
    """
    is_complete = np.isfinite(residuals).all(axis=1)
    n_points = residuals.shape[1]
    columns = np.column_stack([np.ones(n_points), np.log(coordinates)])
    columns = columns[:, [0, *(1 + np.flatnonzero(np.ptp(columns[:, 1:], axis=0) > 0))]]
    freedom = n_points - columns.shape[1]
    if is_complete.sum() < MIN_SERIES or freedom < MIN_RESIDUALS:
        return None

    # What no power law of the parameters explains.
    basis = np.linalg.qr(columns)[0]
    complete = residuals[is_complete]
    left = complete - (complete @ basis) @ basis.T

    weights = 1 / np.maximum(levels[is_complete], 1e-6) ** 2
    weights = np.minimum(weights, MAX_WEIGHT * np.median(weights))
    weights /= weights.sum()
    n_effective = 1 / float((weights**2).sum())
    if n_effective < MIN_SERIES:
        return None

    # An F test of what is shared against what each series has on its own.
    mean = weights @ left
    own = float(weights @ ((left - mean) ** 2).sum(axis=1)) / freedom
    own = max(own * n_effective / (n_effective - 1), SMALLEST_VARIANCE)
    ratio = n_effective * float(mean @ mean) / freedom / own
    from scipy.special import fdtrc  # takes 0.2 s to import, and few series need it

    if fdtrc(freedom, (n_effective - 1) * freedom, ratio) > SIGNIFICANCE:
        return None

    is_shared = np.zeros(len(residuals), dtype=bool)
    is_shared[is_complete] = left @ mean > MIN_LOADING * float(mean @ mean)
    if 2 * is_shared.sum() < len(residuals):
        return None
    is_shared[~is_complete] = True
    return SharedDeviation((1 - 1 / ratio) * mean, is_shared)


def widen(answer: Answer, logarithms: FloatArray, n_parameters: int) -> Answer:
    """Return an answer whose spreads account for a deviation that was removed from its data.

    Its straight part in the logarithms of the parameters is unknown, and the next run has a
    deviation, too.

    Args:
        logarithms: (n,), of the factors that were removed. n_parameters: m.
    """
    n_points = len(logarithms)
    variance = float(logarithms @ logarithms) / (n_points - 1 - n_parameters)
    spreads: list[Spread | None] = []
    for spread in answer.spreads:
        if spread is None:
            spreads.append(spread)
            continue
        own = spread.sigma**2
        share = variance / (variance + own)
        degrees = 1 / (share / (n_points - 1) + (1 - share) / spread.degrees)
        spreads.append(
            replace(
                spread,
                covariances=spread.covariances * (own + variance) / max(own, SMALLEST_VARIANCE),
                sigma=float(np.sqrt(own + variance)),
                degrees=degrees,
            )
        )
    return answer._replace(spreads=tuple(spreads))


def limit_degrees(answer: Answer, share: float, n_points: int) -> Answer:
    """Return an answer whose noise has no more degrees of freedom than its points allow.

    However many series share a deviation, it was drawn once per point.

    Args:
        share: of the shared deviation in the variance of the noise.
    """
    spreads: list[Spread | None] = []
    for spread in answer.spreads:
        if spread is None:
            spreads.append(spread)
            continue
        degrees = 1 / (share / (n_points - 2) + (1 - share) / spread.degrees)
        spreads.append(replace(spread, degrees=min(degrees, spread.degrees)))
    return answer._replace(spreads=tuple(spreads))
