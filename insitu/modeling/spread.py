"""What is known about a function besides its most likely form: the basis of prediction
intervals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import powers

ROUNDS, PARTS = 9, 8  # of the bracket in which a quantile lies: to within 8e-9 of it, or finer
TINY, LARGEST = float(np.finfo(float).tiny), float(np.finfo(float).max)
HUGE = 1e300  # a prediction or a width from which on sizes are not told apart
FINE, MOST_ROUNDS = 1e-6, 400  # relative to a bound and to the smallest function; to end
INNER = np.arange(1, PARTS)  # the ends of the parts but the last


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Functions that compete for one segment, k of them with t terms at most, over m parameters.

    exponents: (k, t, m, 3) with alpha, beta, gamma of each factor; coefficients: (k, 1 + t), the
    constant first; covariances: (k, 1 + t, 1 + t) of the coefficients; weights: (k,), their
    posterior probabilities; sigma: relative noise of one measurement (0.02 is 2 %); degrees:
    degrees of freedom of sigma, infinite where it is known.
    """

    exponents: FloatArray
    coefficients: FloatArray
    covariances: FloatArray
    weights: FloatArray
    sigma: float
    degrees: float

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """For other processes: four small arrays as one, which takes a quarter of the time."""
        arrays = (self.exponents, self.coefficients, self.covariances, self.weights)
        flat = np.concatenate([one.ravel() for one in arrays]).tobytes()
        return _from_bytes, (flat, self.exponents.shape[:3], self.sigma, self.degrees)

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """A form that JSON can hold; `from_dict` reads it back exactly."""
        return {
            "shape": list(self.exponents.shape),
            "exponents": self.exponents.ravel().tolist(),
            "coefficients": self.coefficients.tolist(),
            "covariances": self.covariances.tolist(),
            "weights": self.weights.tolist(),
            "sigma": self.sigma,
            "degrees": None if np.isinf(self.degrees) else self.degrees,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Spread":
        """Read what `to_dict` wrote."""
        degrees = data["degrees"]
        return cls(
            np.array(data["exponents"], dtype=float).reshape(data["shape"]),
            np.array(data["coefficients"], dtype=float),
            np.array(data["covariances"], dtype=float),
            np.array(data["weights"], dtype=float),
            float(data["sigma"]),
            np.inf if degrees is None else float(degrees),
        )

    def interval(
        self, points: FloatArray, *, level: float, beyond: FloatArray | float = 0.0
    ) -> FloatArray:
        """Between which bounds a measurement at each point will lie, with this probability.

        The predictive distribution is a mixture of Student distributions, one per function, each as
        wide as the noise and the uncertainty of its coefficients at that point. A bound that lies
        beyond all numbers is infinite; a lower one then the largest number, as "at least".

        Args:
            points: (n, m). level: 0.95 for 95 %. Answers (n, 2).
            beyond: (n,) how many times the noise what the functions miss varies there.
        """
        tail = (1 - level) / 2
        reach = _quantile_of_student(1 - tail / 100, self.degrees)
        centre, scale = self.predictive(points, beyond=beyond)
        with np.errstate(over="ignore"):
            is_known = np.abs(centre) + reach * scale < HUGE  # NaN is not
        # What is too large lies beyond all numbers, what is of unknown size on either side.
        beneath = np.where(np.abs(centre) >= HUGE, np.where(centre > 0, 0.0, 1.0), 0.5)
        beneath = (self.weights[:, None] * np.where(is_known, 0.0, beneath)).sum(axis=0)
        centre, scale = np.where(is_known, centre, 0.0), np.where(is_known, scale, 0.0)
        known = np.where(is_known, self.weights[:, None], 0.0)
        low = np.where(is_known, centre - reach * scale, HUGE).min(axis=0)
        high = np.where(is_known, centre + reach * scale, -HUGE).max(axis=0)
        low, high = np.stack([low, low]), np.stack([high, high])  # (2, n)
        shares = np.array([tail, 1 - tail])[:, None] - beneath
        is_above = known.sum(axis=0) <= shares
        # Functions that are orders of magnitude apart need a finer look than the widest of them.
        sizes = np.hypot(centre, scale)
        fine = FINE * np.where(sizes > 0, sizes, HUGE).min(axis=0)
        for i in range(MOST_ROUNDS):
            if i >= ROUNDS and (high - low <= np.maximum(fine, FINE * np.abs(low))).all():
                break
            step = (high - low) / PARTS
            below = self._below(low[..., None] + step[..., None] * INNER, centre, scale, known)
            low = low + step * (below < shares[..., None]).sum(axis=2)
            high = low + step
        found = np.where(is_above, np.inf, low + (high - low) / 2)
        found = np.where(shares <= 0, -np.inf, found)
        return np.stack([np.minimum(found[0], LARGEST), np.maximum(found[1], -LARGEST)], axis=1)

    def _below(
        self, values: FloatArray, centre: FloatArray, scale: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """The probability of a measurement less than each of the values (2, n, v).

        Args:
            weights: (k, n), zero for functions that are left out.
        """
        from scipy import special  # slow to load, and not needed to gather a run

        scale = np.where(scale > 0, scale, TINY)[:, None, :, None]
        with np.errstate(over="ignore"):  # functions that predict exactly
            standard = (values - centre[:, None, :, None]) / scale
        share = (
            special.ndtr(standard)
            if np.isinf(self.degrees)
            else special.stdtr(self.degrees, standard)
        )
        return np.asarray(np.einsum("kn,kanv->anv", weights, share))

    @np.errstate(over="ignore", invalid="ignore")  # far out some functions are infinite
    def predictive(
        self, points: FloatArray, *, beyond: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """What each function predicts at points (n, m), and its standard deviation: both (k, n).

        A measurement is a Student variable of `degrees` about the one, as wide as the other.

        Args:
            points: (n, m). beyond: as for `interval`.
        """
        design = self._design(points)
        centre = np.einsum("kc,kcn->kn", self.coefficients, design)
        variance = np.einsum("kcn,kcd,kdn->kn", design, self.covariances, design)
        scale = np.sqrt(np.maximum(variance, 0) + (self.sigma * centre) ** 2)
        return centre, np.hypot(scale, self.sigma * centre * beyond)

    @np.errstate(over="ignore", invalid="ignore")  # far out some functions are infinite
    def covariance(
        self, points: FloatArray, at: FloatArray, *, beyond: FloatArray | float, beyond_at: float
    ) -> FloatArray:
        """How measurements at points (n, m) vary together with another at one place (m,): (k, n).

        Their noise is each one's own; the coefficients are the same, and so is what a function
        misses, in proportion to how far beyond the measured coordinates they lie.
        """
        design, other = self._design(points), self._design(at[None])[..., 0]
        shared = np.einsum("kcn,kcd,kd->kn", design, self.covariances, other)
        centres = np.einsum("kc,kcn->kn", self.coefficients, design)
        centre = np.einsum("kc,kc->k", self.coefficients, other)[:, None]
        return np.asarray(shared + self.sigma**2 * centres * centre * beyond * beyond_at)

    def _design(self, points: FloatArray) -> FloatArray:
        k, t = self.exponents.shape[:2]
        design = np.ones((k, 1 + t, len(points)))
        design[:, 1:] = powers(points.T, self.exponents[:, :, :, None]).prod(axis=2)
        return design


def _quantile_of_student(share: float, degrees: float) -> float:
    from scipy import special  # slow to load, and not needed to gather a run

    return float(special.ndtri(share) if np.isinf(degrees) else special.stdtrit(degrees, share))


def _from_bytes(flat: bytes, shape: tuple[int, int, int], sigma: float, degrees: float) -> Spread:
    k, t, m = shape
    numbers = np.frombuffer(flat)
    first = k * t * m * 3
    second = first + k * (1 + t)
    third = second + k * (1 + t) ** 2
    return Spread(
        numbers[:first].reshape(k, t, m, 3),
        numbers[first:second].reshape(k, 1 + t),
        numbers[second:third].reshape(k, 1 + t, 1 + t),
        numbers[third:],
        sigma,
        degrees,
    )
