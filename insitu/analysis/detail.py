"""Details of one model: the functions that compete for it, and the residuals of its points."""

import math
from fractions import Fraction

import numpy as np

from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.spread import Spread
from insitu.units import percent

MAX_CANDIDATES = 8
LIKELIEST = 0.5  # of a leading term; if less, others together are likelier
MIN_PROBABILITY = 0.005  # candidates below it are left out
MAX_DENOMINATOR = 64  # of an exponent: turns floats back into the fractions they came from


def candidates(model: Model) -> list[tuple[Function, float]]:
    """Functions that compete for the last segment, with their probabilities, likeliest first.

    Empty where the modeler weighs no functions.
    """
    if not model.spreads:
        return []

    spread = model.spreads[-1]
    most_likely = np.argsort(-spread.weights, kind="stable")[:MAX_CANDIDATES]
    result = []
    for index in most_likely.tolist():
        probability = float(spread.weights[index])
        if probability >= MIN_PROBABILITY:
            result.append((_function(model.parameters, spread, index), probability))
    return result


def describe_claim(model: Model) -> str:
    """`80 % probable`, of the leading term of the printed formula; "" where it is not known.

    A formula may be near all points while others explain them better and decide predictions.
    """
    if not math.isfinite(model.probability):
        return ""
    rest = ", other functions are likelier" if model.probability < LIKELIEST else ""
    return f"{percent(model.probability)} probable{rest}"


def residuals(model: Model) -> FloatArray:
    """Deviation of each value from the printed formula, relative: (n_points,), NaN at zero."""
    predicted = model.formula_at(model.coordinates)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (model.values - predicted) / np.abs(predicted)
    return np.where(np.isfinite(relative), relative, np.nan)


def _function(parameters: tuple[str, ...], spread: Spread, index: int) -> Function:
    """One of the functions of a spread, without terms that are zero."""
    constant, *coefficients = spread.coefficients[index].tolist()
    terms = []
    for coefficient, powers in zip(coefficients, spread.exponents[index].tolist(), strict=True):
        factors = []
        for name, exponents in zip(parameters, powers, strict=True):
            if any(exponents):
                factors.append(Factor(name, *map(_to_fraction, exponents)))
        if coefficient and factors:
            terms.append(Term(coefficient, tuple(factors)))
    return Function(parameters, constant, tuple(terms))


def _to_fraction(value: float) -> Fraction:
    return Fraction(value).limit_denominator(MAX_DENOMINATOR)
