"""A plane in log space: a product of one power of each parameter, with continuous exponents.

    ln f = a₀ + a₁ ln x₁ + … + aₘ ln xₘ

Growth over a range that is not wide often looks like this, whatever causes it. No combination of
terms from the hypothesis space may fit so well. The noise is log-normal, the exponents are normal
around zero before any data, and the factor is log-uniform, so the evidence has a closed form.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from insitu.modeling.evidence.marginal import LOG_RANGE, LOG_TWO_PI
from insitu.modeling.measurement import FloatArray
from insitu.modeling.spread import Spread

PLANE_PRIOR = 0.2  # that growth is best described by a plane, before any data
EXPONENT_SIZE = 1.0  # standard deviation of an exponent before any data
NEGLIGIBLE_SHARE = 0.01  # probability below which a plane does not enter a prediction
SMALLEST_VARIANCE = 1e-24  # of an exponent, so that a series without noise has a root

# Nodes and weights that represent a normal distribution: Gauss-Hermite quadrature of three points.
NODES, WEIGHTS = np.sqrt([3.0, 0.0, 3.0]) * [-1, 1, 1], np.array([1, 4, 1]) / 6


@dataclass(frozen=True, slots=True)
class Planes:
    """The planes of series s over m parameters, at noise levels L.

    log_evidence: (s, L), with the prior of a plane, -inf where a value is not positive.
    coefficients: (s, L, m + 1), means of a₀ … aₘ. covariances: (s, L, m + 1, m + 1) of these.
    """

    log_evidence: FloatArray
    coefficients: FloatArray
    covariances: FloatArray


def weigh_planes(
    coordinates: FloatArray, relative: FloatArray, repetitions: FloatArray, levels: FloatArray
) -> Planes:
    """Return the planes through series and their evidence.

    Args:
        coordinates: (n, m).
        relative: (s, n), values divided by the largest of their series.
        repetitions: (s, n), how many measurements each value is worth, 0 where there is none.
        levels: (L,) of noise.
    """
    is_measured = repetitions > 0
    is_possible = np.all((relative > 0) | ~is_measured, axis=1) & np.all(coordinates > 0)
    log_y = np.log(np.where(is_measured & (relative > 0), relative, 1.0))
    columns = np.column_stack([np.ones(len(coordinates)), np.log(np.maximum(coordinates, 1e-300))])
    centre = columns[:, 1:].mean(axis=0)  # exponents and factor are less correlated there
    columns[:, 1:] -= centre

    gram = np.einsum("sn,na,nb->sab", repetitions, columns, columns)
    right = np.einsum("sn,sn,na->sa", repetitions, log_y, columns)
    squares = (repetitions * log_y**2).sum(axis=1)
    n_columns = columns.shape[1]
    prior = np.diag([0.0, *[1 / EXPONENT_SIZE**2] * (n_columns - 1)])

    precision = gram[:, None] / levels[:, None, None] ** 2 + prior
    precision += 1e-12 * np.eye(n_columns)  # where nothing was measured
    covariances = np.linalg.inv(precision)
    projected = right[:, None] / levels[:, None] ** 2
    means = np.einsum("slab,slb->sla", covariances, projected)

    misfit = squares[:, None] / levels**2 - (means * projected).sum(axis=2)
    log_determinant = np.linalg.slogdet(precision)[1]
    counts = is_measured.sum(axis=1)[:, None]
    log_evidence = -0.5 * (misfit + log_determinant + counts * (LOG_TWO_PI + 2 * np.log(levels)))
    log_evidence += 0.5 * LOG_TWO_PI - np.log(LOG_RANGE) - (n_columns - 1) * np.log(EXPONENT_SIZE)
    log_evidence += np.log(PLANE_PRIOR)

    # Back from the centre: a₀ is the factor at 1.
    shift = np.eye(n_columns)
    shift[0, 1:] = -centre
    return Planes(
        log_evidence=np.where(np.asarray(is_possible)[:, None], log_evidence, -np.inf),
        coefficients=means @ shift.T,
        covariances=shift @ covariances @ shift.T,
    )


def plane_functions(
    mean: FloatArray, covariance: FloatArray, scale: float, n_terms: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return functions that represent the distribution of one plane.

    Each has exponents on a grid of quadrature nodes, and the factor that goes with them.

    Args:
        mean: (m + 1,). covariance: (m + 1, m + 1). scale: of the series, with its sign.
        n_terms: for which the arrays have room.

    Returns:
        Exponents (k, n_terms, m, 3), coefficients (k, 1 + n_terms), covariances
        (k, 1 + n_terms, 1 + n_terms) and weights (k,), as in `Spread`.
    """
    n_parameters = len(mean) - 1
    of_exponents = covariance[1:, 1:] + SMALLEST_VARIANCE * np.eye(n_parameters)
    root = np.linalg.cholesky(of_exponents)
    nodes = np.array(list(product(NODES, repeat=n_parameters)))
    deviations = nodes @ root.T

    # The logarithm of the factor, given the exponents.
    slope = np.linalg.solve(of_exponents, covariance[1:, 0])
    log_factor = mean[0] + deviations @ slope
    variance = max(float(covariance[0, 0] - slope @ covariance[1:, 0]), 0.0)

    count = len(nodes)
    exponents = np.zeros((count, n_terms, n_parameters, 3))
    exponents[:, 0, :, 0] = mean[1:] + deviations
    coefficients = np.zeros((count, 1 + n_terms))
    coefficients[:, 1] = scale * np.exp(log_factor)
    covariances = np.zeros((count, 1 + n_terms, 1 + n_terms))
    covariances[:, 1, 1] = coefficients[:, 1] ** 2 * variance
    weights = np.array([np.prod(row) for row in product(WEIGHTS, repeat=n_parameters)])
    return exponents, coefficients, covariances, weights


def with_plane(
    spread: Spread, mean: FloatArray, covariance: FloatArray, *, scale: float, share: float
) -> Spread:
    """Return a spread with a plane of this probability beside its functions.

    Args:
        spread: of other functions, with weights that sum to 1.
        mean, covariance: of the coefficients of the plane, (m + 1,) and (m + 1, m + 1).
        scale: of the series. share: the probability of the plane.
    """
    n_terms = spread.exponents.shape[1]
    exponents, coefficients, covariances, weights = plane_functions(
        mean, covariance, scale, n_terms
    )
    return Spread(
        exponents=np.concatenate([spread.exponents, exponents]),
        coefficients=np.concatenate([spread.coefficients, coefficients]),
        covariances=np.concatenate([spread.covariances, covariances]),
        weights=np.concatenate([spread.weights * (1 - share), weights * share]),
        sigma=spread.sigma,
        degrees=spread.degrees,
        is_led=spread.is_led,
    )
