"""What functions that compete say of a place: probabilities instead of one value."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from insitu.modeling.base import Model
from insitu.modeling.measurement import FloatArray

MOST = 60  # parts of a mixture that are kept
SEARCHED = 1e9  # times the largest measured value, how far a crossing is looked for
STEPS = 400  # in equal ratios, between which a crossing is looked for
HALVINGS = 60  # of the step that has it: to the last bits of a float


@dataclass(frozen=True, slots=True)
class StudentMixture:
    """A value with its uncertainty: Student parts (k,), the distribution of `Model.interval`.

    scales: NaN where nothing is known of the uncertainty; degrees: of freedom, infinite where a
    part is normal.
    """

    weights: FloatArray
    centres: FloatArray
    scales: FloatArray
    degrees: FloatArray

    @classmethod
    def constant(cls, value: float) -> "StudentMixture":
        """A value that is known."""
        return cls(np.ones(1), np.array([value]), np.zeros(1), np.full(1, np.inf))

    def __add__(self, other: "StudentMixture") -> "StudentMixture":
        return _joined(self, other, lambda a, b: a + b, lambda a, b, s, t: (s, t))

    def __mul__(self, other: "StudentMixture") -> "StudentMixture":
        return _joined(self, other, lambda a, b: a * b, lambda a, b, s, t: (b * s, a * t))

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.weights @ self.centres)

    def probability_above(self, other: "StudentMixture") -> float:
        """How probable it is that this value is larger; NaN where uncertainty is not known."""
        distance = self.centres[:, None] - other.centres[None]
        width, degrees = _width(
            self.scales[:, None], other.scales[None], self.degrees[:, None], other.degrees[None]
        )
        size = np.maximum(np.abs(self.centres[:, None]), np.abs(other.centres[None]))
        above = special.stdtr(degrees, distance / np.maximum(width, 1e-12 * size + 1e-300))
        return float(np.clip(self.weights @ above @ other.weights, 0.0, 1.0))  # but for rounding


def predict(model: Model, at: ArrayLike) -> StudentMixture:
    """The value of a further measurement at one point (n_parameters,)."""
    point = np.asarray(at, dtype=float).reshape(1, -1)
    spread = model.spread_at(point[0])
    if spread is None:
        return replace(
            StudentMixture.constant(float(model.predict(point)[0])), scales=np.full(1, np.nan)
        )
    centre, scale = spread.predictive(point, beyond=model.doublings_beyond(point))
    degrees = np.full(len(spread.weights), spread.degrees)
    return StudentMixture(spread.weights, centre[:, 0], scale[:, 0], degrees)


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


def _width(
    s: FloatArray, t: FloatArray, of_s: FloatArray, of_t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How wide the sum of two Student variables is, and its degrees of freedom.

    Welch and Satterthwaite: ν = (s² + t²)² / (s⁴/ν_s + t⁴/ν_t), Biometrika 34 (1947), 28-35.
    Exact where one of both is a constant.
    """
    width = np.hypot(s, t)
    share = np.divide(s, width, out=np.ones_like(width), where=width > 0) ** 2
    doubt = share**2 / of_s + (1 - share) ** 2 / of_t
    return width, np.divide(1.0, doubt, out=np.full_like(doubt, np.inf), where=doubt > 0)


def _joined(
    a: StudentMixture,
    b: StudentMixture,
    centre: Callable[[FloatArray, FloatArray], FloatArray],
    scale: Callable[
        [FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]
    ],
) -> StudentMixture:
    weights = np.outer(a.weights, b.weights).ravel()
    kept = np.argsort(-weights, kind="stable")[:MOST]
    i, j = np.unravel_index(kept, (len(a.weights), len(b.weights)))
    means = a.centres[i], b.centres[j]
    s, t = scale(*means, a.scales[i], b.scales[j])
    width, degrees = _width(s, t, a.degrees[i], b.degrees[j])
    return StudentMixture(weights[kept] / weights[kept].sum(), centre(*means), width, degrees)
