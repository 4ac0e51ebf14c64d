"""Adjustments: what functions of one parameter have in place of x, and a factor for grid shapes.

Rows of four numbers, one per function: start and work, which replace x by max(x, start) and then by
work / ceil(work / x); 0 and infinity leave it as it is. Mean and standard deviation of the
logarithm of a factor for numbers of processes that are twice a square; see `grid_shape.py`.
"""

from collections.abc import Sequence

import numpy as np

from insitu.modeling.grid_shape import grid_elongation
from insitu.modeling.measurement import FloatArray

SMALLEST = 1e-300  # coordinate that work is divided by


def no_adjustments(count: int) -> FloatArray:
    """Return rows that change nothing: (k, 4)."""
    return np.tile([0.0, np.inf, 0.0, 0.0], (count, 1))


def replace_coordinate(x: FloatArray, adjustments: FloatArray) -> FloatArray:
    """Return what each function has in place of values (n,) of its parameter: (k, n)."""
    start, work = adjustments[:, :1], adjustments[:, 1:2]
    later = np.maximum(x, start)
    is_divided = np.isfinite(work)
    finite = np.where(is_divided, work, 1.0)
    chunks = np.maximum(np.ceil(finite / np.maximum(later, SMALLEST)), 1.0)
    return np.asarray(np.where(is_divided, finite / chunks, later))


def divide_evenly(points: FloatArray, pair: tuple[int, int]) -> FloatArray:
    """Return points (n, m) with n / ceil(n / p) in place of p.

    Args:
        pair: the columns of n and p.
    """
    work, processes = points[:, pair[0]], np.maximum(points[:, pair[1]], SMALLEST)
    result = np.array(points, dtype=float)
    result[:, pair[1]] = work / np.maximum(np.ceil(work / processes), 1.0)
    return result


def log_grid_factor(x: FloatArray, adjustments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the logarithm of the factor: (k, n) each."""
    if not adjustments[:, 2:].any():
        zero = np.zeros((len(adjustments), len(x)))
        return zero, zero
    elongation = grid_elongation(x)
    return adjustments[:, 2, None] * elongation, adjustments[:, 3, None] * elongation


def to_rows(adjustments: FloatArray) -> list[list[float | None]]:
    """Return a form that JSON can hold; `from_rows` reads it back exactly."""
    return [
        [start, None if np.isinf(work) else work, *factor]
        for start, work, *factor in adjustments.tolist()
    ]


def from_rows(rows: Sequence[Sequence[float | None]]) -> FloatArray:
    """Read what `to_rows` has written."""
    finite = [[np.inf if number is None else number for number in row] for row in rows]
    return np.array(finite, dtype=float).reshape(-1, 4)
