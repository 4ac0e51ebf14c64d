"""Mixtures of Student distributions: quantiles and medians."""

from collections.abc import Callable, Sequence

import numpy as np

from insitu.modeling.distance import LOG_MARGIN, log_distance
from insitu.modeling.measurement import FloatArray

TOLERANCE = 1e-6  # of a bound, relative to the smallest function
BRACKET_TOLERANCE = 1e-8  # of a bound, relative to the widest bracket that holds it
MIN_LOG_TOLERANCE = 1e-12  # of the logarithm of a bound
MEDIAN_TOLERANCE = 1e-11  # relative; functions that agree to more digits than that are one
ROUNDING = 4 * float(np.finfo(float).eps)  # relative; brackets cannot be narrower
MAX_ROUNDS = 4000  # halvings from HUGE to TINY take half of that
MAX_LOG = 700.0  # logarithms of numbers that are finite
MIN_RELATIVE_SCALE = 1e-15  # of a function that predicts exactly

TINY = float(np.finfo(float).tiny)
HUGE = 1e300  # predictions and widths from here on count as infinite
REACH = 1e3  # standard deviations from a function, where a median may lie beside infinite ones


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
    above = _sum_in_order(np.where(is_infinite & (centre > 0), weights, 0.0))
    below = _sum_in_order(np.where(is_infinite & (centre < 0), weights, 0.0))
    total = _sum_in_order(used)
    share = 0.5 * (total + above - below)

    # Every function is symmetric, so the median lies between the smallest and the largest, unless
    # infinite ones move it into a tail.
    has_weight = used > 0
    reach = np.where(above + below > 0, REACH, 0.0) * np.where(has_weight, scale, 0.0)
    low = np.where(has_weight, centre - reach, HUGE).min(axis=0)
    high = np.where(has_weight, centre + reach, -HUGE).max(axis=0)
    median = _find_quantiles(
        _share_below,
        (low, high),
        (
            np.where(is_usable, centre, 0.0),
            np.where(is_usable, scale, 0.0),
            used,
            np.broadcast_to(degrees, share.shape),
        ),
        share=share,
        tolerance=np.full(share.shape, TINY),
        relative=MEDIAN_TOLERANCE,
    )

    median = np.where(total > share, median, np.inf)
    return np.where(share <= 0, np.where(above >= below, np.inf, -np.inf), median)


def bounds_of_mixtures(
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    *,
    shares: FloatArray,
    degrees: FloatArray | float,
    reach: FloatArray | float,
) -> FloatArray:
    """Return the values below which there are these shares (r, n) of the probability: (r, n).

    Args:
        centre, scale, weights: (k, n), weight zero where a function is not finite.
        degrees: of freedom, (n,) or the same for all.
        reach: (n,) or the same for all, standard deviations, further than which no quantile is
            from all functions.
    """
    is_used = weights > 0
    centre, scale = np.where(is_used, centre, 0.0), np.where(is_used, scale, 0.0)
    low = np.where(is_used, centre - reach * scale, HUGE).min(axis=0)
    high = np.where(is_used, centre + reach * scale, -HUGE).max(axis=0)

    # Functions that are orders of magnitude apart need a finer bracket than the widest of them.
    sizes = np.hypot(centre, scale)
    smallest = np.where(sizes > 0, sizes, HUGE).min(axis=0)
    tolerance = np.minimum(TOLERANCE * smallest, BRACKET_TOLERANCE * (high - low))

    columns = (centre, scale, weights, np.broadcast_to(degrees, tolerance.shape))
    return _find_bounds(_share_below, (low, high), columns, shares, tolerance)


def positive_bounds_of_mixtures(
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    *,
    linear: FloatArray,
    shares: FloatArray,
    degrees: FloatArray | float,
    reach: FloatArray | float,
) -> FloatArray:
    """The same for functions that are positive, whose errors are factors.

    A standard deviation of 80 % does not reach below zero: it is a factor of about 2 either
    way. For small deviations both are the same; see `log_distance`.

    Args:
        linear: (k, n), see `log_distance`.
    """
    is_used = weights > 0
    safe_centre = np.where(is_used, centre, 1.0)
    log_centre = np.log(safe_centre)
    relative = np.maximum(np.where(is_used, scale / safe_centre, 0.0), MIN_RELATIVE_SCALE)

    low = np.where(is_used, log_centre - reach * relative - LOG_MARGIN, np.inf).min(axis=0)
    high = np.where(is_used, log_centre + reach * relative, -np.inf).max(axis=0)
    low, high = np.clip(low, -MAX_LOG, MAX_LOG), np.clip(high, -MAX_LOG, MAX_LOG)
    smallest = np.where(is_used, relative, 1.0).min(axis=0, initial=1.0)
    tolerance = np.maximum(TOLERANCE * smallest, MIN_LOG_TOLERANCE)

    columns = (log_centre, relative, weights, linear, np.broadcast_to(degrees, tolerance.shape))
    logs = _find_bounds(_share_below_log, (low, high), columns, shares, tolerance)
    return np.asarray(np.exp(logs))


def _find_bounds(
    share_below: Callable[..., FloatArray],
    bracket: tuple[FloatArray, FloatArray],
    columns: Sequence[FloatArray],
    shares: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """Return the quantiles of n mixtures at several shares (r, n): (r, n).

    Args: as for `_find_quantiles`, which solves all of them at once.
    """
    n_shares = len(shares)
    low, high = bracket
    quantiles = _find_quantiles(
        share_below,
        (np.tile(low, n_shares), np.tile(high, n_shares)),
        [np.tile(column, n_shares) for column in columns],
        share=shares.ravel(),
        tolerance=np.tile(tolerance, n_shares),
    )
    return quantiles.reshape(shares.shape)


def _find_quantiles(
    share_below: Callable[..., FloatArray],
    bracket: tuple[FloatArray, FloatArray],
    columns: Sequence[FloatArray],
    *,
    share: FloatArray,
    tolerance: FloatArray,
    relative: float = ROUNDING,
) -> FloatArray:
    """Return the smallest values below which there is a share of the probability: (n,).

    Chandrupatla's method: inverse quadratic interpolation where the last three points let expect
    that it converges, bisection elsewhere (Advances in Engineering Software 28 (1997), 145-149).
    The logarithm of the odds takes the place of the share, since it is closer to a straight line:
    8 instead of 12 evaluations per bound in the median of 190 models of six points. Each value
    depends on its own column only, and is left out once its bracket is as narrow as it must be.

    Args:
        share_below: of values (n,) and columns to the probability below the values, (n,).
        bracket: (n,) each, between which the values lie; otherwise the nearer end is returned.
        columns: arrays whose last dimension is n, further arguments of `share_below`.
        share: (n,). tolerance: (n,), of the values. relative: the same, relative to them.
    """
    if not share.size:
        return np.empty(share.shape)

    goal = _log_odds(share)
    a, b = bracket
    excess_a = _log_odds(share_below(a, *columns)) - goal
    excess_b = _log_odds(share_below(b, *columns)) - goal
    # A bracket that lies beside the value has no width, so that its nearer end is the answer.
    a, b = np.where(excess_b < 0, b, a), np.where(excess_a < 0, b, a)

    quantiles, rows = np.empty(share.shape), np.arange(len(share))
    width = b - a
    fraction = np.full(share.shape, 0.5)  # of the bracket, from a to b, that is tried next
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(MAX_ROUNDS):
            value = a + fraction * width
            excess = _log_odds(share_below(value, *columns)) - goal

            # The value and what is on the other side of the quantile are the next bracket.
            is_beside_a = (excess < 0) == (excess_a < 0)
            c, excess_c = np.where(is_beside_a, a, b), np.where(is_beside_a, excess_a, excess_b)
            b, excess_b = np.where(is_beside_a, b, a), np.where(is_beside_a, excess_b, excess_a)
            a, excess_a = value, excess
            width = b - a
            margin = (tolerance + relative * np.abs(a)) / np.abs(width)

            is_open = margin < 1
            if not is_open.all():
                quantiles[rows] = np.where(np.abs(excess_a) < np.abs(excess_b), a, b)
                if not is_open.any():
                    return quantiles
                columns = [column[..., is_open] for column in columns]
                rows = rows[is_open]
                arrays = (goal, tolerance, width, margin)
                goal, tolerance, width, margin = (array[is_open] for array in arrays)
                a, b, c = (end[is_open] for end in (a, b, c))
                excesses = (excess_a, excess_b, excess_c)
                excess_a, excess_b, excess_c = (array[is_open] for array in excesses)

            xi, phi = width / (b - c), (excess_b - excess_a) / (excess_b - excess_c)
            is_smooth = (phi * phi < xi) & ((1 - phi) ** 2 < 1 - xi)
            interpolated = (excess_a / (excess_b - excess_c)) * (
                excess_c / (excess_b - excess_a)
                - (c - a) / width * excess_b / (excess_c - excess_a)
            )
            margin = margin / 2
            fraction = np.where(is_smooth, interpolated, 0.5)
            fraction = np.minimum(np.maximum(fraction, margin), 1 - margin)
    quantiles[rows] = a
    return quantiles


def _share_below(
    values: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    degrees: FloatArray,
) -> FloatArray:
    """The probability of a measurement below each of the values (n,): (n,).

    Args:
        centre, scale: (k, n). weights: (k, n), zero for functions that are left out. degrees: (n,).
    """
    with np.errstate(over="ignore"):  # functions that predict exactly
        standard = (values - centre) / np.maximum(scale, TINY)
    return _sum_in_order(weights * _cumulative(standard, degrees))


def _share_below_log(logs: FloatArray, *columns: FloatArray) -> FloatArray:
    """The same for the logarithms of values and functions, by `log_distance`.

    Args:
        columns: logarithms of centres, relative deviations, weights and `linear`, (k, n) each; and
            degrees, (n,).
    """
    log_centre, relative, weights, linear, degrees = columns
    distance = log_distance(logs - log_centre, linear) / relative
    return _sum_in_order(weights * _cumulative(distance, degrees))


def _sum_in_order(shares: FloatArray) -> FloatArray:
    """Sums of columns, (k, n) to (n,).

    Neither the number of columns nor zeros behind the others change how they are rounded.
    """
    return np.asarray(shares.cumsum(axis=0)[-1])


def _cumulative(standard: FloatArray, degrees: FloatArray) -> FloatArray:
    """The distribution of Student variables (k, n), element by element.

    Args:
        degrees: of freedom, (n,); infinite for a normal distribution.
    """
    from scipy import special  # slow to import, and not needed to gather a run

    is_normal = np.isinf(degrees)
    finite = special.stdtr(np.where(is_normal, 1.0, degrees), standard)
    if not is_normal.any():
        return np.asarray(finite)
    return np.where(is_normal, special.ndtr(standard), finite)


def _log_odds(share: FloatArray) -> FloatArray:
    """The logarithm of the odds of a probability, finite for 0 and 1."""
    inside = np.minimum(np.maximum(share, TINY), 1 - ROUNDING)
    return np.asarray(np.log(inside / (1 - inside)))


def student_quantile(share: float, degrees: float) -> float:
    """Return the value below which a Student variable is with this probability."""
    from scipy import special  # slow to import, and not needed to gather a run

    return float(special.ndtri(share) if np.isinf(degrees) else special.stdtrit(degrees, share))
