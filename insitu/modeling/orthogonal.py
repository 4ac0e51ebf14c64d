"""Many small least squares problems at once, without losing digits.

Normal equations square the condition number of the columns: half of the digits are lost before
anything is solved. Relative errors make it worse, because the rows of values that differ by many
orders of magnitude do so, too. Elimination with complete pivoting splits the columns into a product
L·U first, and an orthogonal factorisation of L gives the solution (Peters and Wilkinson, Computer
Journal 13, 1970). No element of L exceeds 1, so L is well conditioned; all scales are in U.

Every sum goes over few points in a fixed order, so results do not depend on the processor's BLAS
kernel, and those of one problem do not depend on the others.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

SMALLEST_LENGTH = 1e-300  # of a column; a shorter one is zero, and so is its coefficient
ROUNDING = 2.0**-48  # a difference this small relative to its terms is nothing but rounding


@dataclass(frozen=True, slots=True)
class OrthogonalFits:
    """Solutions of h least squares problems of c columns.

    Attributes:
        coefficients: (h, c).
        squares: (h,), sums of the squared residuals.
        inverse: (h, c, c), of the normal equations: the covariance of the coefficients where the
            errors have a variance of 1.
        log_determinant: (h,), of the normal equations.
        is_independent: (h,), false where a column is a sum of the others to working precision; the
            coefficient of such a column is meaningless.
    """

    coefficients: FloatArray
    squares: FloatArray
    inverse: FloatArray
    log_determinant: FloatArray
    is_independent: np.ndarray


def solve_orthogonally(columns: FloatArray, right: FloatArray) -> OrthogonalFits:
    """Minimise |right - coefficients · columns|² for each of h problems.

    Args:
        columns: (h, c, n_points), c <= n_points. Columns that depend on each other have no unique
            solution; add a ridge (points at which one column is small and all else is zero) where
            they may.
        right: (h, n_points).
    """
    n_problems, n_columns, _ = columns.shape
    every = np.arange(n_problems)[:, None]

    # With columns of comparable size, pivots compare rows.
    scale = np.maximum(np.abs(columns).max(axis=2, initial=0.0), SMALLEST_LENGTH)
    lower, upper, order, is_independent = _eliminate(columns / scale[:, :, None])
    pivots = np.diagonal(upper, axis1=1, axis2=2)

    # Right-hand sides: the data, and the unit vectors that the inverse is made of.
    triangle, projected, rest = _orthogonalise(lower, right)
    sides = np.zeros((n_problems, n_columns, n_columns + 1))
    sides[:, :, 0] = projected
    sides[:, np.arange(n_columns), np.arange(n_columns) + 1] = 1.0
    solved = _substitute(upper, _substitute(triangle, sides))

    # In the order of the columns, in their units.
    result = np.empty_like(solved)
    result[every, order] = solved
    result /= scale[:, :, None]
    root = result[:, :, 1:]
    lengths = np.abs(pivots) * np.diagonal(triangle, axis1=1, axis2=2)
    lengths = lengths * np.take_along_axis(scale, order, 1)
    return OrthogonalFits(
        coefficients=result[:, :, 0],
        squares=_dot(rest, rest),
        inverse=np.einsum("hik,hjk->hij", root, root),
        log_determinant=2 * np.log(lengths).sum(axis=1),
        is_independent=is_independent,
    )


def _eliminate(rest: FloatArray) -> tuple[FloatArray, FloatArray, IntArray, np.ndarray]:
    """Split the columns into L · U, choosing the largest element that is left as pivot.

    Args:
        rest: (h, c, n); overwritten.

    Returns:
        L as columns (h, c, n), with a 1 at the pivot of each; U (h, c, c); the column of each
        position (h, c); and whether no column became zero (h,), which has a pivot of 1 instead.
    """
    n_problems, n_columns, n_points = rest.shape
    every = np.arange(n_problems)
    upper = np.zeros((n_problems, n_columns, n_columns))
    order = np.tile(np.arange(n_columns), (n_problems, 1))
    is_independent = np.ones(n_problems, dtype=bool)
    terms = np.abs(rest)  # the largest numbers that were subtracted from each other

    for k in range(n_columns):
        largest = np.abs(rest[:, k:]).reshape(n_problems, -1).argmax(axis=1)
        column, row = k + largest // n_points, largest % n_points
        for array in (rest, terms, order, upper.swapaxes(1, 2)):
            array[every, k], array[every, column] = array[every, column], array[every, k]

        pivot = rest[every, k, row]
        is_zero = np.abs(pivot) <= SMALLEST_LENGTH
        is_independent &= ~is_zero
        pivot = np.where(is_zero, 1.0, pivot)
        upper[:, k, k] = pivot
        rest[:, k] /= pivot[:, None]

        for j in range(k + 1, n_columns):
            upper[:, k, j] = rest[every, j, row]
            subtracted = upper[:, k, j, None] * rest[:, k]
            rest[:, j] -= subtracted
            np.maximum(terms[:, j], np.abs(subtracted), out=terms[:, j])
            rest[:, j][np.abs(rest[:, j]) <= ROUNDING * terms[:, j]] = 0.0

    return rest, upper, order, is_independent


def _orthogonalise(
    columns: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Factorise by modified Gram-Schmidt, together with the right-hand side (h, n).

    This is as stable as Householder's method (Björck, BIT 7, 1967).

    Args:
        columns: (h, c, n); overwritten.

    Returns:
        The upper triangle (h, c, c), the projections of the right-hand side (h, c), and what no
        column explains of it (h, n).
    """
    n_problems, n_columns, _ = columns.shape
    triangle = np.zeros((n_problems, n_columns, n_columns))
    projected = np.empty((n_problems, n_columns))
    rest = right.copy()

    # Remove from all later columns, and from the right-hand side, what each column explains.
    for k in range(n_columns):
        column = columns[:, k]
        length = np.sqrt(_dot(column, column))
        triangle[:, k, k] = np.where(length > 0, length, 1.0)
        column /= triangle[:, k, k, None]

        for j in range(k + 1, n_columns):
            triangle[:, k, j] = _dot(column, columns[:, j])
            columns[:, j] -= triangle[:, k, j, None] * column

        projected[:, k] = _dot(column, rest)
        rest -= projected[:, k, None] * column

    return triangle, projected, rest


def _substitute(triangle: FloatArray, sides: FloatArray) -> FloatArray:
    """Solve upper triangular equations (h, c, c) for several right-hand sides (h, c, r)."""
    solution = sides.copy()
    for k in reversed(range(triangle.shape[1])):
        for j in range(k + 1, triangle.shape[1]):
            solution[:, k] -= triangle[:, k, j, None] * solution[:, j]
        solution[:, k] /= triangle[:, k, k, None]
    return solution


def _dot(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the scalar product of each row: (h, n) and (h, n) to (h,)."""
    product: FloatArray = np.einsum("hn,hn->h", first, second)
    return product
