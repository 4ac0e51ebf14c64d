"""What there is to know about one model: what competes with it, and how far its points are off."""

from fractions import Fraction

import numpy as np

from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.spread import Spread

MOST = 8  # candidates that are told
LEAST = 0.005  # probability of one below which it is not
DENOMINATOR = 64  # at most, of an exponent


def candidates(model: Model) -> list[tuple[Function, float]]:
    """Functions that compete for the last segment with their probabilities, the likeliest first.

    Empty where a modeler weighs none.
    """
    if not model.spreads:
        return []
    spread = model.spreads[-1]
    order = np.argsort(-spread.weights, kind="stable")[:MOST]
    return [
        (_function(model.parameters, spread, index), float(spread.weights[index]))
        for index in order.tolist()
        if spread.weights[index] >= LEAST
    ]


def residuals(model: Model) -> FloatArray:
    """How far each value is off its model, relative to the model: (n_points,), NaN at zero."""
    predicted = model.predict(model.coordinates)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (model.values - predicted) / np.abs(predicted)
    return np.where(np.isfinite(off), off, np.nan)


def _function(parameters: tuple[str, ...], spread: Spread, index: int) -> Function:
    """One of the functions of a spread, without its terms that are zero."""
    constant, *coefficients = spread.coefficients[index].tolist()
    terms = []
    for coefficient, powers in zip(coefficients, spread.exponents[index].tolist(), strict=True):
        factors = tuple(
            Factor(name, *(_exact(value) for value in exponents))
            for name, exponents in zip(parameters, powers, strict=True)
            if any(exponents)
        )
        if coefficient and factors:
            terms.append(Term(coefficient, factors))
    return Function(parameters, constant, tuple(terms))


def _exact(value: float) -> Fraction:
    return Fraction(value).limit_denominator(DENOMINATOR)
