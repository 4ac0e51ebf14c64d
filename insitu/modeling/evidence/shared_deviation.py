"""A deviation that all series share at a point: a run that was slow or fast as a whole.

A busy machine slows down all call paths of a run by the same factor. Models that know nothing of
it take the factor for growth, each of them. So the logarithms of the factors are a random effect,
estimated from what the series of a pool leave unexplained together. Only what no power law of the
parameters explains is ever called a deviation; otherwise a growth that series have in common would
be one.

Series whose growth ends have more in common than powers describe. On a grid, this differs from a
deviation of runs: it is the same for all values of the other parameters.
"""

from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.noise import BoolArray
from insitu.modeling.measurement import FloatArray
from insitu.modeling.spread import Spread

MIN_SERIES = 4  # that a deviation is shared by
MIN_RESIDUALS = 3  # degrees of freedom that power laws leave, at least
MIN_SHARE_OF_GRID = 1 / 3  # of all points, that any law of each parameter leaves free on a grid
SMALLEST_SINGULAR = 1e-9  # relative; columns that depend on others add nothing
SIGNIFICANCE = 1e-3  # of the F test: where nothing is shared, nothing is corrected
MAX_WEIGHT = 4.0  # of a quiet series, relative to the median
MIN_LOADING = 0.3  # of a series on the shared deviation; those with less do not have it
SMALLEST_VARIANCE = 1e-24  # of residuals, so that ratios stay finite


@dataclass(frozen=True, slots=True)
class SharedDeviation:
    """What series have in common at points n.

    logarithms: (n,), of the factor by which all values at a point are too large. is_shared: (s,),
    which series have it. laws: (n, k), orthonormal columns that span the logarithms of what is
    never called a deviation.
    """

    logarithms: FloatArray
    is_shared: BoolArray
    laws: FloatArray


def find_shared_deviation(
    residuals: FloatArray,
    levels: FloatArray,
    coordinates: FloatArray,
    *,
    laws: FloatArray | None = None,
) -> SharedDeviation | None:
    """Return the deviation that series share, None if there is none.

    Args:
        residuals: (s, n), logarithm of value over function; NaN where nothing was measured.
        levels: (s,), noise of each series.
        coordinates: (n, m), positive.
        laws: those of the deviation of which this is a rest; found here without.
    """
    is_complete = np.isfinite(residuals).all(axis=1)
    n_points = residuals.shape[1]
    is_rest = laws is not None
    if laws is None:
        laws = _orthonormal(np.column_stack([np.ones(n_points), np.log(coordinates)]))
    freedom = n_points - laws.shape[1]
    if is_complete.sum() < MIN_SERIES or freedom < MIN_RESIDUALS:
        return None

    weights = 1 / np.maximum(levels[is_complete], 1e-6) ** 2
    weights = np.minimum(weights, MAX_WEIGHT * np.median(weights))
    weights /= weights.sum()
    n_effective = 1 / float((weights**2).sum())
    if n_effective < MIN_SERIES:
        return None

    # What no power law of the parameters explains, …
    complete = residuals[is_complete]
    left = _leave(complete, laws)
    mean, ratio = _find_shared(left, weights, freedom)
    if not _is_significant(ratio, freedom, (n_effective - 1) * freedom):
        return None

    # … and no other law of each where one has to.
    any_law = None if is_rest else _span_any_law(coordinates)
    if any_law is not None:
        own = n_points - any_law.shape[1]
        of_runs = _leave(complete, any_law)
        mean_of_runs, ratio_of_runs = _find_shared(of_runs, weights, own)
        if not _is_significant(ratio_of_runs, own, (n_effective - 1) * own):
            return None
        size_of_runs = float(mean_of_runs @ mean_of_runs) / own
        size_of_laws = (float(mean @ mean) - own * size_of_runs) / (freedom - own)
        if _is_significant(size_of_laws / size_of_runs, freedom - own, own):
            laws, left, mean, ratio = any_law, of_runs, mean_of_runs, ratio_of_runs

    is_shared = np.zeros(len(residuals), dtype=bool)
    is_shared[is_complete] = left @ mean > MIN_LOADING * float(mean @ mean)
    if 2 * is_shared.sum() < len(residuals):
        return None
    is_shared[~is_complete] = True
    return SharedDeviation((1 - 1 / ratio) * mean, is_shared, laws)


def _find_shared(left: FloatArray, weights: FloatArray, freedom: int) -> tuple[FloatArray, float]:
    """Return what series have in common (n,), and its variance relative to their own.

    Args:
        left: (s, n), what laws do not explain. weights: (s,), sum to 1. freedom: degrees of, that
            the laws leave.
    """
    n_effective = 1 / float((weights**2).sum())
    mean = weights @ left
    own = float(weights @ ((left - mean) ** 2).sum(axis=1)) / freedom
    own = max(own * n_effective / (n_effective - 1), SMALLEST_VARIANCE)
    return mean, n_effective * float(mean @ mean) / freedom / own


def _is_significant(ratio: float, freedom: float, freedom_below: float) -> bool:
    """Whether a ratio of variances is larger than chance makes it: an F test."""
    from scipy.special import fdtrc  # takes 0.2 s to import, and few series need it

    return bool(fdtrc(freedom, freedom_below, ratio) <= SIGNIFICANCE)


def _span_any_law(coordinates: FloatArray) -> FloatArray | None:
    """Orthonormal columns that span products of any laws of each parameter, in logarithms: (n, k).

    None where these leave too few of the points n to tell runs apart, as without a grid.
    """
    n_points = len(coordinates)
    columns = [np.ones((n_points, 1))]
    for column in coordinates.T:
        columns.append((column[:, None] == np.unique(column)).astype(float))
    basis = _orthonormal(np.concatenate(columns, axis=1))
    freedom = n_points - basis.shape[1]
    return basis if freedom >= max(MIN_RESIDUALS, MIN_SHARE_OF_GRID * n_points) else None


def _orthonormal(columns: FloatArray) -> FloatArray:
    """Orthonormal columns that span the same space as columns (n, k)."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > SMALLEST_SINGULAR * sizes[0]])


def _leave(values: FloatArray, basis: FloatArray) -> FloatArray:
    """What a basis (n, k) does not explain of values (s, n)."""
    return np.asarray(values - (values @ basis) @ basis.T)


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
