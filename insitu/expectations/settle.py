"""Which further point would settle a doubt: where the competing functions part.

A measurement that does not exist yet is weighed before it is made: how probable is it that the
posterior, with it, is right about what is asked? Where functions that answer yes and functions
that answer no predict values further apart than noise, it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.integrate import trapezoid

from insitu.entities import number
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.spread import Spread
from insitu.units import percent

AHEAD = (2.0, 4.0, 8.0, 16.0)  # times the largest measured value
GRID = 600  # values on which predictive densities are compared
REACH, FAR = 6.0, 40.0  # standard deviations
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class SettlingPoint:
    """A point that should be measured, and how probable it then is to be right."""

    at: tuple[tuple[str, float], ...]
    probability: float

    def __str__(self) -> str:
        place = ", ".join(f"{name}={number(value)}" for name, value in self.at)
        return f"measure {place} (right with {percent(self.probability)} then)"


def find_settling_point(
    spread: Spread,
    answers: NDArray[np.bool_],
    coordinates: FloatArray,
    parameters: Sequence[str],
    *,
    sure: float,
) -> SettlingPoint:
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
    told = answers[:, None].astype(float)
    centre, scale = spread.predictive(np.array(places))
    right = [
        _probability_of_right(centre[:, i], scale[:, i], spread.weights, lambda _: told)
        for i in range(len(places))
    ]
    return _nearest(places, right, parameters, sure)


def find_settling_point_for_limit(
    model: Model, at: Sequence[float], most: float, *, sure: float
) -> SettlingPoint | None:
    """The nearest point on the way to a place that tells whether a limit is exceeded there.

    The last point is the place itself. A function's own uncertainty counts too: what is measured
    on the way moves what it predicts at the place, whose doubt is taken as normal. None where the
    uncertainty is not known.

    Args:
        model: of the series. at: (n_parameters,). most: that is allowed there.
        sure: the probability that is enough.
    """
    goal = np.array(at, dtype=float)
    spread = model.spread_at(goal)
    if spread is None:
        return None
    largest = model.coordinates.max(axis=0)
    way = [tuple(np.minimum(goal, ahead * largest).tolist()) for ahead in AHEAD]
    places = list(dict.fromkeys([*way, tuple(goal.tolist())]))
    table = np.array(places)
    beyond = model.doublings_beyond(table)
    farthest = float(beyond[-1])
    centre, scale = spread.predictive(table, beyond=beyond)
    shared = spread.covariance(table, goal, beyond=beyond, beyond_at=farthest)
    slope = shared / np.maximum(scale, TINY)
    left = np.maximum(np.sqrt(np.maximum(scale[:, -1:] ** 2 - slope**2, 0.0)), TINY)

    def exceeds(i: int) -> Callable[[FloatArray], FloatArray]:
        def share(standard: FloatArray) -> FloatArray:
            there = centre[:, -1:] + slope[:, i : i + 1] * standard
            with np.errstate(over="ignore"):  # functions that predict exactly
                return np.asarray(special.ndtr((there - most) / left[:, i : i + 1]))

        return share

    right = [
        _probability_of_right(centre[:, i], scale[:, i], spread.weights, exceeds(i))
        for i in range(len(places))
    ]
    return _nearest(places, right, model.parameters, sure)


def _nearest(
    places: Sequence[tuple[float, ...]],
    right: Sequence[float],
    parameters: Sequence[str],
    sure: float,
) -> SettlingPoint:
    enough = [i for i, value in enumerate(right) if value >= sure]
    best = enough[0] if enough else int(np.argmax(right))
    return SettlingPoint(tuple(zip(parameters, places[best], strict=True)), right[best])


def _probability_of_right(
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    yes: Callable[[FloatArray], FloatArray],
) -> float:
    """yes: how probable each function finds it once a value is measured that differs by so many
    standard deviations (k, GRID) from what it predicts.
    """
    scale = np.maximum(scale, 1e-9 * np.abs(centre) + 1e-300)
    edges = np.sort(np.concatenate([centre - REACH * scale, centre, centre + REACH * scale]))
    grid = np.unique(np.interp(np.linspace(0, len(edges) - 1, GRID), np.arange(len(edges)), edges))
    with np.errstate(over="ignore"):  # functions that predict exactly
        standard = (grid - centre[:, None]) / scale[:, None]
    standard = np.clip(standard, -FAR, FAR)
    density = weights[:, None] * np.exp(-0.5 * standard**2) / scale[:, None]
    every, agreeing = density.sum(axis=0), (density * yes(standard)).sum(axis=0)
    best = np.maximum(agreeing, every - agreeing)
    total = float(trapezoid(every, grid))
    return min(float(trapezoid(best, grid)) / total, 1.0) if total > 0 else 0.0
