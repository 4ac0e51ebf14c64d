"""Distances: how far what functions miss reaches beyond the points, and how far values are away."""

import numpy as np

from insitu.modeling.measurement import FloatArray

LOG_MARGIN = 0.5  # by which `log_distance` exceeds a logarithm at most


def drift_reach(doublings: FloatArray | float) -> FloatArray:
    """How far the drift reaches so many doublings beyond the points, relative to one doubling.

    What no function describes is a power of x that is off by a little at the points and goes on to
    change, in steps that are as likely up as down. The logarithm of the value integrates it: the
    first part grows with the distance, the second with its 1.5th power, as in a smoothing spline
    (Wahba, 1990, section 1.5). Both count the same at one doubling.
    """
    distance = np.asarray(doublings)
    return np.asarray(distance * np.sqrt((1 + distance) / 2))


def log_distance(log_ratio: FloatArray, linear: FloatArray | float = 1.0) -> FloatArray:
    """How far a value is from a function, in relative deviations, by the log r of their ratio.

    Errors of the logarithm have the distance r, and are as far up as down. Errors of the value have
    r + r²/2 - …, which is y/f - 1 to second order, so small errors count as they do elsewhere; far
    away it is r + ½, so that bounds are positive. It ascends everywhere.

    Args:
        linear: share of the variance that errors of the value have above the function. Below it,
            all of it is theirs.
    """
    squared = log_ratio**2
    bend = squared / (2 * (1 + squared))
    return np.asarray(log_ratio + bend * np.where(log_ratio > 0, linear, 1.0))
