"""The spread of one function that was fitted to points by least squares."""

import numpy as np

from insitu.modeling.least_squares import relative_weights
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread


def spread_of(
    function: Function, points: FloatArray, values: FloatArray, *, constant: bool = True
) -> tuple[Spread, ...]:
    """Return the noise and the covariance of the coefficients that the residuals imply.

    Nothing without a degree of freedom.

    Args:
        function: fitted with relative errors.
        points: (n, n_parameters). values: (n,), all measured.
        constant: whether the constant was fitted; otherwise it is known to be zero.
    """
    names = function.parameters
    shapes = [Function(names, 0.0, (Term(1.0, term.factors),)) for term in function.terms]
    columns = [Function(names, 1.0), *shapes] if constant else shapes
    degrees = len(values) - len(columns)
    if degrees < 1:
        return ()

    weights = relative_weights(values[None])[0]
    design = np.stack([column(points) for column in columns])
    sigma = float(np.sqrt(np.sum(weights * (values - function(points)) ** 2) / degrees))
    inverse = np.linalg.pinv((design * weights) @ design.T, hermitian=True)

    # A spread always has an entry for the constant; without variance if it was not fitted.
    size, first = 1 + len(shapes), 0 if constant else 1
    covariance = np.zeros((1, size, size))
    covariance[0, first:, first:] = sigma**2 * inverse
    exponents = np.zeros((1, len(shapes), len(names), 3))
    for i, term in enumerate(function.terms):
        for factor in term.factors:
            exponents[0, i, names.index(factor.parameter)] = [float(v) for v in factor[1:]]

    coefficients = [function.constant, *(term.coefficient for term in function.terms)]
    spread = Spread(
        exponents=exponents,
        coefficients=np.array([coefficients]),
        covariances=covariance,
        weights=np.ones(1),
        sigma=sigma,
        degrees=float(degrees),
    )
    return (spread,)
