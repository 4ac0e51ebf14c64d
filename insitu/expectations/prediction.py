"""What functions that compete say of a place: probabilities instead of one value."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from insitu.measurement import FloatArray
from insitu.modeling.base import Model
from insitu.modeling.spread import Spread

MOST = 60  # parts of a mixture that are kept
SEARCHED = 1e9  # times the largest measured value, how far a crossing is looked for
STEPS = 400
HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Mixture:
    """A value with its uncertainty: normal parts (k,) with weights, centres, deviations."""

    weights: FloatArray
    centres: FloatArray
    scales: FloatArray

    @classmethod
    def constant(cls, value: float) -> "Mixture":
        """A value that is known."""
        return cls(np.ones(1), np.array([value]), np.zeros(1))

    def __add__(self, other: "Mixture") -> "Mixture":
        return _joined(self, other, lambda a, b: a + b, lambda a, b, s, t: np.hypot(s, t))

    def __mul__(self, other: "Mixture") -> "Mixture":
        return _joined(self, other, lambda a, b: a * b, lambda a, b, s, t: np.hypot(b * s, a * t))

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.weights @ self.centres)

    def probability_above(self, other: "Mixture") -> float:
        """How probable it is that this value is larger."""
        distance = self.centres[:, None] - other.centres[None]
        width = np.hypot(self.scales[:, None], other.scales[None])
        size = np.maximum(np.abs(self.centres[:, None]), np.abs(other.centres[None]))
        above = special.ndtr(distance / np.maximum(width, 1e-12 * size + 1e-300))
        return float(self.weights @ above @ other.weights)


def predict(model: Model, at: ArrayLike) -> Mixture:
    """The value of a further measurement at one point (n_parameters,)."""
    point = np.asarray(at, dtype=float).reshape(1, -1)
    spread = _spread_at(model, point)
    if spread is None:
        return Mixture.constant(float(model.predict(point)[0]))
    centre, scale = spread.predictive(point)
    return Mixture(spread.weights, centre[:, 0], scale[:, 0])


def first_above(low: float, difference: Callable[[float], float]) -> float | None:
    """The smallest value of a parameter, from `low` on, at which a difference is positive.

    None if there is none in reach; fractions matter little and are kept.
    """
    places = low * np.geomspace(1.0, SEARCHED, STEPS)
    above = [float(x) for x in places if difference(float(x)) > 0]
    if not above:
        return None
    high = above[0]
    below = max((float(x) for x in places if x < high), default=high)
    for _ in range(HALVINGS):
        middle = (below + high) / 2
        if difference(middle) > 0:
            high = middle
        else:
            below = middle
    return high


def _spread_at(model: Model, point: FloatArray) -> Spread | None:
    if len(model.spreads) != len(model.segments):
        return None
    ends = [(change.low + change.high) / 2 for change in model.change_points]
    return model.spreads[int(np.searchsorted(ends, point[0, 0]))]


def _joined(
    a: Mixture,
    b: Mixture,
    centre: Callable[[FloatArray, FloatArray], FloatArray],
    scale: Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray],
) -> Mixture:
    weights = np.outer(a.weights, b.weights).ravel()
    kept = np.argsort(-weights, kind="stable")[:MOST]
    i, j = np.unravel_index(kept, (len(a.weights), len(b.weights)))
    means = a.centres[i], b.centres[j]
    return Mixture(
        weights[kept] / weights[kept].sum(),
        centre(*means),
        scale(*means, a.scales[i], b.scales[j]),
    )
