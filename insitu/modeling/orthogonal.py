"""Many small least squares problems at once, by orthogonal factorisation.

Normal equations square the condition number of the columns: half of the digits are lost before
anything is solved. Modified Gram-Schmidt on the columns and the right-hand side together is as
stable as Householder's method (Björck, BIT 7, 1967), and it needs only sums over the points, so
it runs over many problems at once and does not depend on the processor's BLAS kernel.
"""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.measurement import FloatArray

SMALLEST_LENGTH = 1e-300  # of a column; a shorter one is zero, and so is its coefficient


@dataclass(frozen=True, slots=True)
class OrthogonalFits:
    """Solutions of h least squares problems of c columns.

    Attributes:
        coefficients: (h, c).
        squares: (h,), sums of the squared residuals.
    """

    coefficients: FloatArray
    squares: FloatArray


def solve_orthogonally(columns: FloatArray, right: FloatArray) -> OrthogonalFits:
    """Minimise |right - coefficients · columns|² for each of h problems.

    Args:
        columns: (h, c, n_points). Columns that depend on each other have no unique solution; add
            a ridge (points at which one column is small and all else is zero) where they may.
        right: (h, n_points).
    """
    columns, rest = columns.copy(), right.copy()
    n_problems, n_columns, _ = columns.shape
    triangle = np.zeros((n_columns, n_columns, n_problems))
    coefficients = np.empty((n_columns, n_problems))

    # Remove from all later columns, and from the right-hand side, what each column explains.
    for k in range(n_columns):
        column = columns[:, k]
        length = np.sqrt(_dot(column, column))
        triangle[k, k] = np.maximum(length, SMALLEST_LENGTH)
        column /= triangle[k, k][:, None]

        for j in range(k + 1, n_columns):
            triangle[k, j] = _dot(column, columns[:, j])
            columns[:, j] -= triangle[k, j][:, None] * column

        coefficients[k] = _dot(column, rest)
        rest -= coefficients[k][:, None] * column

    # Substitute backwards.
    for k in reversed(range(n_columns)):
        for j in range(k + 1, n_columns):
            coefficients[k] -= triangle[k, j] * coefficients[j]
        coefficients[k] /= triangle[k, k]

    return OrthogonalFits(coefficients.T, _dot(rest, rest))


def _dot(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the scalar product of each row: (h, n) and (h, n) to (h,)."""
    product: FloatArray = np.einsum("hn,hn->h", first, second)
    return product
