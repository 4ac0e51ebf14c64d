"""The further measurement that would settle a question: where the competing hypotheses differ.

A measurement is weighed before it is made, by the probability that the posterior with it answers
the question correctly. That probability is high where the hypotheses that answer yes and those that
answer no predict values that differ by more than the noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.entities import RANKS, number
from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray
from insitu.modeling.rank_counts import next_accepted
from insitu.modeling.spread import Spread
from insitu.units import percent

SCALE_FACTORS = (2.0, 4.0, 8.0, 16.0)  # candidates, as multiples of the largest measured value
GRID = 600  # values at which predictive densities are compared
GRID_DEVIATIONS = 6.0  # standard deviations around each hypothesis that the grid covers
DEVIATIONS_LIMIT = 40.0  # standard deviations; exp(-x²/2) is about 0 beyond
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class SettlingPoint:
    """A point to measure, and the probability that the answer with it is right."""

    at: tuple[tuple[str, float], ...]
    probability: float

    def __str__(self) -> str:
        point = ", ".join(f"{name}={number(value)}" for name, value in self.at)
        return f"measure {point} (then right with a probability of {percent(self.probability)})"


def find_settling_point(
    spread: Spread,
    answers: NDArray[np.bool_],
    coordinates: FloatArray,
    parameters: Sequence[str],
    *,
    sure: float,
) -> SettlingPoint:
    """Return the nearest point beyond the measured ones that settles a question.

    If no candidate is sure enough, the best one is returned.

    Args:
        spread: k hypotheses.
        answers: (k,), whether each hypothesis answers yes.
        coordinates: (n, n_parameters), the measured points.
        parameters: their names.
        sure: the probability that is enough.
    """
    largest = coordinates.max(axis=0).tolist()
    candidates = []
    for factor in SCALE_FACTORS:
        for i, name in enumerate(parameters):
            larger = _scaled(coordinates[:, i], factor, name)
            candidates.append((*largest[:i], larger, *largest[i + 1 :]))
    candidates = list(dict.fromkeys(candidates))

    is_yes = answers[:, None].astype(float)
    centre, scale = spread.predictive(np.array(candidates))
    probabilities = [
        _probability_right(centre[:, i], scale[:, i], spread.weights, lambda _: is_yes)
        for i in range(len(candidates))
    ]
    return _choose_nearest(candidates, probabilities, parameters, sure)


def find_settling_point_for_limit(
    model: Model, at: Sequence[float], most: float, *, sure: float
) -> SettlingPoint | None:
    """Return the nearest point that settles whether a limit is exceeded at a target.

    The candidates lie between the measured points and the target; the last one is the target
    itself. The uncertainty of each hypothesis counts, too: a measurement changes what the
    hypothesis predicts at the target, and the remaining uncertainty is taken as normal. The result
    is None if the uncertainty is unknown.

    Args:
        model: of the series.
        at: (n_parameters,), the target.
        most: the limit.
        sure: the probability that is enough.
    """
    from scipy.special import ndtr  # takes 0.2 s to import, and settled answers do not need it

    target = np.array(at, dtype=float)
    spread = model.spread_at(target)
    if spread is None:
        return None

    columns = list(zip(model.coordinates.T, model.parameters, strict=True))
    candidates = []
    for factor in SCALE_FACTORS:
        larger = [_scaled(column, factor, name) for column, name in columns]
        candidates.append(tuple(np.minimum(target, larger).tolist()))
    candidates = list(dict.fromkeys([*candidates, tuple(target.tolist())]))
    points = np.array(candidates)
    beyond = model.doublings_beyond(points)
    centre, scale = spread.predictive(points, beyond=beyond)

    # How a measurement, in standard deviations, shifts the prediction at the target.
    covariance = spread.covariance(points, target, beyond=beyond, beyond_at=float(beyond[-1]))
    slope = covariance / np.maximum(scale, TINY)
    remaining = np.maximum(np.sqrt(np.maximum(scale[:, -1:] ** 2 - slope**2, 0.0)), TINY)

    def probability_of_excess(i: int) -> Callable[[FloatArray], FloatArray]:
        def of_deviation(deviation: FloatArray) -> FloatArray:
            at_target = centre[:, -1:] + slope[:, i : i + 1] * deviation
            with np.errstate(over="ignore"):  # hypotheses that predict exactly
                return np.asarray(ndtr((at_target - most) / remaining[:, i : i + 1]))

        return of_deviation

    probabilities = [
        _probability_right(centre[:, i], scale[:, i], spread.weights, probability_of_excess(i))
        for i in range(len(candidates))
    ]
    return _choose_nearest(candidates, probabilities, model.parameters, sure)


def _scaled(values: FloatArray, factor: float, parameter: str) -> float:
    """A multiple of the largest of (n,) measured values; of ranks, as many as are accepted."""
    larger = factor * float(values.max())
    is_whole = all(value.is_integer() for value in values.tolist())
    if parameter != RANKS or not is_whole:
        return larger
    measured = [int(size) for size in np.unique(values).tolist()]
    return float(next_accepted(measured, round(larger)) or larger)


def _choose_nearest(
    candidates: Sequence[tuple[float, ...]],
    probabilities: Sequence[float],
    parameters: Sequence[str],
    sure: float,
) -> SettlingPoint:
    """Return the first candidate that is sure enough, otherwise the best one."""
    chosen = int(np.argmax(probabilities))
    for i, probability in enumerate(probabilities):
        if probability >= sure:
            chosen = i
            break
    return SettlingPoint(
        tuple(zip(parameters, candidates[chosen], strict=True)), probabilities[chosen]
    )


def _probability_right(
    centre: FloatArray,
    scale: FloatArray,
    weights: FloatArray,
    probability_yes: Callable[[FloatArray], FloatArray],
) -> float:
    """Return the probability that the more probable answer is right after a measurement.

    Args:
        centre, scale, weights: (k,), the predictive distribution of each hypothesis.
        probability_yes: returns how probable yes is under each hypothesis after a measurement that
            deviates from its prediction by so many standard deviations (k, GRID).
    """
    scale = np.maximum(scale, 1e-9 * np.abs(centre) + 1e-300)
    reach = GRID_DEVIATIONS * scale
    edges = np.sort(np.concatenate([centre - reach, centre, centre + reach]))
    positions = np.linspace(0, len(edges) - 1, GRID)
    grid = np.unique(np.interp(positions, np.arange(len(edges)), edges))

    with np.errstate(over="ignore"):  # hypotheses that predict exactly
        deviations = (grid - centre[:, None]) / scale[:, None]
    deviations = np.clip(deviations, -DEVIATIONS_LIMIT, DEVIATIONS_LIMIT)
    density = weights[:, None] * np.exp(-0.5 * deviations**2) / scale[:, None]

    from scipy.integrate import trapezoid  # slow to import, and settled answers do not need it

    total_density = density.sum(axis=0)
    yes_density = (density * probability_yes(deviations)).sum(axis=0)
    right_density = np.maximum(yes_density, total_density - yes_density)
    total = float(trapezoid(total_density, grid))
    return min(float(trapezoid(right_density, grid)) / total, 1.0) if total > 0 else 0.0
