"""Mixtures of Student distributions: shares below values, quantiles and medians."""

import numpy as np

from insitu.modeling.measurement import FloatArray

# The search for a quantile: each round divides its bracket into PARTS. Nine rounds of eight parts
# reach 8e-9 of the first bracket; more follow where functions differ by orders of magnitude.
MIN_ROUNDS, PARTS, MAX_ROUNDS = 9, 8, 400
INNER_BOUNDS = np.arange(1, PARTS)  # of the parts of a bracket
MEDIAN_TOLERANCE = 1e-11  # relative; functions that agree to more digits than that are one

TINY = float(np.finfo(float).tiny)
HUGE = 1e300  # predictions and widths from here on count as infinite


def median_of_mixtures(
    centre: FloatArray, scale: FloatArray, weights: FloatArray, degrees: FloatArray | float
) -> FloatArray:
    """Return the medians of n mixtures of k Student distributions each: (n,).

    Args:
        centre, scale: (k, n). weights: (k, n) or (k, 1), posterior probabilities. degrees: of
            freedom, (n,) or the same for all.
    """
    # Functions beyond all numbers lie above or below everything; unknown ones do not count.
    is_usable = (np.abs(centre) < HUGE) & (scale < HUGE)  # NaN is not
    used = np.where(is_usable, weights, 0.0)
    is_infinite = ~is_usable & ~np.isnan(centre)
    above = np.where(is_infinite & (centre > 0), weights, 0.0).sum(axis=0)
    below = np.where(is_infinite & (centre < 0), weights, 0.0).sum(axis=0)
    share = 0.5 * (used.sum(axis=0) + above - below)

    # Every function is symmetric, so the median lies between the smallest and the largest.
    has_weight = used > 0
    low = np.where(has_weight, centre, HUGE).min(axis=0)
    high = np.where(has_weight, centre, -HUGE).max(axis=0)
    centre, scale = np.where(is_usable, centre, 0.0), np.where(is_usable, scale, 0.0)
    for _ in range(MAX_ROUNDS):
        if (high - low <= MEDIAN_TOLERANCE * np.minimum(np.abs(low), np.abs(high)) + TINY).all():
            break
        step = (high - low) / PARTS
        inner = low[:, None] + step[:, None] * INNER_BOUNDS
        share_of_inner = share_below(inner[None], centre, scale, used, degrees=degrees)[0]
        low = low + step * (share_of_inner < share[:, None]).sum(axis=1)
        high = low + step

    median = np.where(used.sum(axis=0) > share, low + (high - low) / 2, np.inf)
    return np.where(share <= 0, np.where(above >= below, np.inf, -np.inf), median)


def share_below(
    values: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    *,
    degrees: FloatArray | float,
) -> FloatArray:
    """Return the probability of a measurement below each of the values (a, n, v).

    Args:
        centre, scale: (k, n). weights: (k, n), zero for functions that are left out. degrees: (n,)
            or the same for all.
    """
    scale = np.where(scale > 0, scale, TINY)[:, None, :, None]
    with np.errstate(over="ignore"):  # functions that predict exactly
        standard = (values - centre[:, None, :, None]) / scale
    return np.asarray(np.einsum("kn,kanv->anv", weights, cumulative(standard, degrees)))


def cumulative(standard: FloatArray, degrees: FloatArray | float) -> FloatArray:
    """Return the distribution of Student variables (k, a, n, v), element by element.

    Args:
        degrees: of freedom, (n,) or the same for all; infinite for a normal distribution.
    """
    from scipy import special  # slow to import, and not needed to gather a run

    if isinstance(degrees, float):
        if np.isinf(degrees):
            return np.asarray(special.ndtr(standard))
        return np.asarray(special.stdtr(degrees, standard))
    is_normal = np.isinf(degrees)
    finite = special.stdtr(np.where(is_normal, 1.0, degrees)[:, None], standard)
    if not is_normal.any():
        return np.asarray(finite)
    return np.where(is_normal[:, None], special.ndtr(standard), finite)


def student_quantile(share: float, degrees: float) -> float:
    """Return the value below which a Student variable is with this probability."""
    from scipy import special  # slow to import, and not needed to gather a run

    return float(special.ndtri(share) if np.isinf(degrees) else special.stdtrit(degrees, share))
