"""Which hypotheses of two terms can be among the closest, by a bound, before they are solved.

Two parameters of unknown powers allow more than 100,000 hypotheses, and only the closest are used.
Scalar products of the rows give all misfits at once, with fewer digits than an orthogonal solution.
What they lose is bounded by the smallest eigenvalue of the normal equations. A hypothesis is left
out only if it is further away than the closest ones, or has a negative coefficient, by more.
"""

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

LEAST_EIGENVALUE = 1e-30  # keeps quotients finite
SCALAR_ROUNDING = 1e-13  # of scalar products of up to some hundred points, with a reserve
# Of a ridge of 1e-12 on coefficients below 10: rows are positive and of unit length.
RIDGE_EFFECT = 1e-11
COEFFICIENT_MARGIN = 1e-3  # beyond the bound; far above the rounding of an exact solution
MISFIT_MARGIN = 0.01  # of the variance of the noise; far above what separates ties


def select_contenders(
    rows: FloatArray, group: IntArray, *, count: int, variance: float
) -> IntArray:
    """Return the hypotheses that may be among the `count` closest without negative coefficients.

    Args:
        rows: (n_rows, n_points), positive and of unit length, the constant first.
        group: (n_hypotheses, 3), numbers of rows, 0 first.
        count: how many are needed.
        variance: of the noise; misfits are compared in this unit.

    Returns:
        (n, 3), rows of `group` in their order.
    """
    # Remove the constant from the data and from all rows; the second time removes the rounding.
    constant, others = rows[0], rows[1:]
    overlaps = others @ constant
    rest = others - overlaps[:, None] * constant
    rest -= (rest @ constant)[:, None] * constant
    lengths = np.maximum(np.linalg.norm(rest, axis=1), LEAST_EIGENVALUE)
    directions = rest / lengths[:, None]
    level = constant.sum()
    data = 1.0 - level * constant

    # The two terms explain the data in the plane of their directions.
    projections = directions @ data
    cosines = (directions @ directions.T)[group[:, 1] - 1, group[:, 2] - 1]
    first, second = group[:, 1] - 1, group[:, 2] - 1
    sines = np.maximum(1.0 - cosines**2, SCALAR_ROUNDING)
    along_first = (projections[first] - cosines * projections[second]) / sines
    along_second = (projections[second] - cosines * projections[first]) / sines
    explained = along_first * projections[first] + along_second * projections[second]
    misfits = data @ data - explained

    coefficients = np.stack([along_first / lengths[first], along_second / lengths[second]])
    of_constant = level - coefficients[0] * overlaps[first] - coefficients[1] * overlaps[second]
    smallest = np.minimum(coefficients.min(axis=0), of_constant)

    # The product of the three eigenvalues is the determinant; the larger two are at most 3 in sum.
    determinants = (lengths[first] * lengths[second]) ** 2 * sines
    eigenvalues = np.maximum(determinants / 2.25, LEAST_EIGENVALUE)
    coefficient_error = COEFFICIENT_MARGIN + RIDGE_EFFECT / eigenvalues
    misfit_error = MISFIT_MARGIN * variance + SCALAR_ROUNDING / eigenvalues

    is_certain = smallest >= coefficient_error
    if np.count_nonzero(is_certain) < count:
        limit = np.inf
    else:
        largest = (misfits + misfit_error)[is_certain]
        limit = np.partition(largest, count - 1)[count - 1]

    is_contender = (smallest >= -coefficient_error) & (misfits - misfit_error <= limit)
    contenders: IntArray = group[is_contender]
    return contenders
