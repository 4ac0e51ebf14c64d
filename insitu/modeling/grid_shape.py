"""The shape of the most even grid of p processes, as `MPI_Dims_create` makes it."""

from functools import lru_cache
from math import isqrt, log2

import numpy as np

from insitu.modeling.measurement import FloatArray

LARGEST_NUMBER = 2**40  # whose divisors are searched for
UNKNOWN = 0.5  # elongation of larger numbers
LARGEST_EXACT = 64  # processes up to which any grid is taken as it is, such as 1 x 7


def grid_elongation(numbers: FloatArray) -> FloatArray:
    """Return how far the grid of each number of processes is from a square: (n,), 0 to 1.

    The logarithm to base 2 of the ratio of both sides: 0 for squares, 1 for twice a square and for
    all that are longer.
    """
    return np.array([_elongation(round(x)) for x in numbers.tolist()])


def grid_sides(numbers: FloatArray) -> FloatArray:
    """Return rows and columns, added, of the grid of each number of processes: (n,).

    Nobody runs 383 processes for a grid of 1 x 383: above LARGEST_EXACT, a grid is at most twice as
    long as it is wide.
    """
    return np.array([_sides(round(x)) for x in numbers.tolist()])


@lru_cache(maxsize=4096)
def _sides(number: int) -> float:
    if not 1 <= number <= LARGEST_NUMBER:
        return float(2.0 * max(number, 0) ** 0.5)
    least = 1 if number <= LARGEST_EXACT else isqrt(number // 2)
    width = _find_width(number, least)
    return float(width + number // width) if width else 2.0 * number**0.5


@lru_cache(maxsize=4096)
def _elongation(number: int) -> float:
    if not 1 <= number <= LARGEST_NUMBER:
        return UNKNOWN
    width = _find_width(number, isqrt(number) // 2 + 1)
    return min(1.0, log2(number / width**2)) if width else 1.0


def _find_width(number: int, least: int) -> int:
    """The shorter side of the most even grid, 0 if that is below `least`."""
    return next((side for side in range(isqrt(number), least - 1, -1) if number % side == 0), 0)


@lru_cache(maxsize=4096)
def even_grid(number: int, n_dimensions: int) -> tuple[int, ...]:
    """The sides of the most even grid of some processes, descending; no other has less range."""
    if n_dimensions == 1:
        return (number,)
    grids = [
        tuple(sorted((side, *even_grid(number // side, n_dimensions - 1)), reverse=True))
        for side in range(1, number + 1)
        if number % side == 0
    ]
    return min(grids, key=lambda sides: (sides[0] - sides[-1], sides))
