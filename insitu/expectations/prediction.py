"""Predictions of competing hypotheses at a coordinate: a distribution instead of one value."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from insitu.modeling.base import Model
from insitu.modeling.distance import log_distance
from insitu.modeling.measurement import FloatArray
from insitu.modeling.student import MIN_RELATIVE_SCALE

COMPONENTS_LIMIT = 60  # of a mixture; the least probable are dropped
SEARCH_FACTOR = 1e9  # a crossing is searched up to this multiple of the start
STEPS = 400  # of that range, in equal ratios; then of the step with the crossing


@dataclass(frozen=True, slots=True)
class StudentMixture:
    """A mixture of k Student distributions, as `Model.interval` uses it.

    Attributes:
        weights: (k,), sum 1.
        centres: (k,).
        scales: (k,), NaN if the uncertainty is unknown.
        degrees: (k,), degrees of freedom, infinite for a normal distribution.
        linear: (k,), share of errors of the value in the variance, above the centre; see
            `log_distance`.
    """

    weights: FloatArray
    centres: FloatArray
    scales: FloatArray
    degrees: FloatArray
    linear: FloatArray | float = 1.0

    @classmethod
    def constant(cls, value: float) -> "StudentMixture":
        """Return a value without uncertainty."""
        return cls(np.ones(1), np.array([value]), np.zeros(1), np.full(1, np.inf))

    def __add__(self, other: "StudentMixture") -> "StudentMixture":
        return _combine(self, other, lambda a, b: a + b, lambda a, b, s, t: (s, t))

    def __mul__(self, other: "StudentMixture") -> "StudentMixture":
        return _combine(self, other, lambda a, b: a * b, lambda a, b, s, t: (b * s, a * t))

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.weights @ self.centres)

    def probability_above(self, other: "StudentMixture") -> float:
        """Return the probability that this value is larger; NaN if an uncertainty is unknown.

        Compared with a constant, errors are factors, as for `Model.interval`.
        """
        from scipy.special import stdtr  # takes 0.2 s to import, and a report may have no limits

        if not other.scales.any() and (self.centres > 0).all() and (other.centres > 0).all():
            ratio = np.log(other.centres[None] / self.centres[:, None])
            relative = np.maximum((self.scales / self.centres)[:, None], MIN_RELATIVE_SCALE)
            linear = np.broadcast_to(self.linear, self.weights.shape)[:, None]
            below = stdtr(self.degrees[:, None], log_distance(ratio, linear) / relative)
            return float(np.clip(1 - self.weights @ below @ other.weights, 0.0, 1.0))

        distance = self.centres[:, None] - other.centres[None]
        width, degrees = _width(
            self.scales[:, None], other.scales[None], self.degrees[:, None], other.degrees[None]
        )
        size = np.maximum(np.abs(self.centres[:, None]), np.abs(other.centres[None]))
        above = stdtr(degrees, distance / np.maximum(width, 1e-12 * size + 1e-300))
        return float(
            np.clip(self.weights @ above @ other.weights, 0.0, 1.0)
        )  # removes rounding errors


def predict(model: Model, at: ArrayLike) -> StudentMixture:
    """Return the distribution of a further measurement at one point (n_parameters,)."""
    point = np.asarray(at, dtype=float).reshape(1, -1)
    spread = model.spread_at(point[0])
    if spread is None:
        return replace(
            StudentMixture.constant(float(model.predict(point)[0])), scales=np.full(1, np.nan)
        )
    centre, scale, linear = spread.distribution(point, beyond=model.doublings_beyond(point))
    degrees = np.full(len(spread.weights), spread.degrees)
    return StudentMixture(spread.weights, centre[:, 0], scale[:, 0], degrees, linear=linear[:, 0])


def first_above(low: float, difference: Callable[[FloatArray], FloatArray]) -> float | None:
    """Return the smallest value of a parameter, from `low` on, at which a difference is positive.

    The result is None if there is none within reach. It need not be a whole number.

    Args:
        difference: of values of the parameter (n,) to what is compared with 0, (n,).
    """
    grid = low * np.geomspace(1.0, SEARCH_FACTOR, STEPS)
    while True:
        first = int(np.argmax(difference(grid) > 0))  # 0 if there is none as well
        if first == 0:
            return float(grid[0]) if difference(grid[:1])[0] > 0 else None
        below, high = float(grid[first - 1]), float(grid[first])
        if np.nextafter(below, high) >= high:
            return high
        grid = np.linspace(below, high, STEPS)


def _width(
    s: FloatArray, t: FloatArray, of_s: FloatArray, of_t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the scale of the sum of two Student variables, and its degrees of freedom.

    Welch and Satterthwaite: ν = (s² + t²)² / (s⁴/ν_s + t⁴/ν_t), Biometrika 34 (1947), 28-35.
    The result is exact if one of them is a constant.
    """
    width = np.hypot(s, t)
    share = np.divide(s, width, out=np.ones_like(width), where=width > 0) ** 2
    inverse = share**2 / of_s + (1 - share) ** 2 / of_t
    degrees = np.divide(1.0, inverse, out=np.full_like(inverse, np.inf), where=inverse > 0)
    return width, degrees


def _combine(
    a: StudentMixture,
    b: StudentMixture,
    centre: Callable[[FloatArray, FloatArray], FloatArray],
    scale: Callable[
        [FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]
    ],
) -> StudentMixture:
    """Combine all pairs of components.

    Args:
        centre: returns the centre of a pair from both centres.
        scale: returns the scales that add up, from both centres and both scales.
    """
    weights = np.outer(a.weights, b.weights).ravel()
    largest = np.argsort(-weights, kind="stable")[:COMPONENTS_LIMIT]
    i, j = np.unravel_index(largest, (len(a.weights), len(b.weights)))
    means = a.centres[i], b.centres[j]
    s, t = scale(*means, a.scales[i], b.scales[j])
    width, degrees = _width(s, t, a.degrees[i], b.degrees[j])

    chosen = weights[largest]
    return StudentMixture(chosen / chosen.sum(), centre(*means), width, degrees)
