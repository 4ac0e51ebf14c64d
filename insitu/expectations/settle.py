"""Which further point would settle a doubt: where the competing functions part.

A measurement that does not exist yet is weighed before it is made: how probable is it that the
posterior, with it, is right about what is asked? Where functions that answer yes and functions
that answer no predict values further apart than noise, it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from insitu.entities import number
from insitu.measurement import FloatArray
from insitu.modeling.spread import Spread
from insitu.units import percent

AHEAD = (2.0, 4.0, 8.0, 16.0)  # times the largest measured value
GRID = 600  # values on which predictive densities are compared
REACH, FAR = 6.0, 40.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Settler:
    """A point that should be measured, and how probable it then is to be right."""

    at: tuple[tuple[str, float], ...]
    probability: float

    def __str__(self) -> str:
        place = ", ".join(f"{name}={number(value)}" for name, value in self.at)
        return f"measure {place} (right with {percent(self.probability)} then)"


def settling(
    spread: Spread,
    answers: NDArray[np.bool_],
    coordinates: FloatArray,
    parameters: Sequence[str],
    *,
    sure: float,
) -> Settler:
    """The nearest point beyond those measured that tells yes from no, else the best there is.

    Args:
        spread: k functions. answers: (k,), what each says to the question.
        coordinates: (n, m) that were measured. sure: the probability that is enough.
    """
    largest = coordinates.max(axis=0)
    places = [
        tuple(ahead * x if i == j else x for j, x in enumerate(largest.tolist()))
        for ahead in AHEAD
        for i in range(len(largest))
    ]
    centre, scale = spread.predictive(np.array(places))
    right = [
        _probability_of_right(centre[:, i], scale[:, i], spread.weights, answers)
        for i in range(len(places))
    ]
    enough = [i for i, value in enumerate(right) if value >= sure]
    best = enough[0] if enough else int(np.argmax(right))
    return Settler(tuple(zip(parameters, places[best], strict=True)), right[best])


def _probability_of_right(
    centre: FloatArray, scale: FloatArray, weights: FloatArray, answers: NDArray[np.bool_]
) -> float:
    scale = np.maximum(scale, 1e-9 * np.abs(centre) + 1e-300)
    edges = np.sort(np.concatenate([centre - REACH * scale, centre, centre + REACH * scale]))
    grid = np.unique(np.interp(np.linspace(0, len(edges) - 1, GRID), np.arange(len(edges)), edges))
    with np.errstate(over="ignore"):  # functions that predict exactly
        standard = (grid - centre[:, None]) / scale[:, None]
    standard = np.clip(standard, -FAR, FAR)
    density = weights[:, None] * np.exp(-0.5 * standard**2) / scale[:, None]
    best = np.maximum(density[answers].sum(axis=0), density[~answers].sum(axis=0))
    total = float(trapezoid(density.sum(axis=0), grid))
    return min(float(trapezoid(best, grid)) / total, 1.0) if total > 0 else 0.0
