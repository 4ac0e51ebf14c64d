"""From a posterior over hypotheses to one function, its probability and its spread.

The answer is one of the hypotheses: the one in whose leading term most posterior probability
agrees, and around whose prediction at the target most predictive probability lies; where none is
probable, the one that is least far from the others.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.evidence.hypothesis_space import Lattice
from insitu.modeling.evidence.marginal import Singles
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.measurement import FloatArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread

Number = TypeVar("Number", np.float64, np.intp)

ROUNDING = 1e-12  # part of the largest value below which a constant is none
AHEAD = 4.0  # the target is this many times the largest coordinate [REF §4.1]
KEPT = 6  # hypotheses that make up the spread of an answer
HUGE = 1e60  # values of terms at the target above which they do not decide
AS_GOOD = 0.3  # posterior below which no constant is answered
SIMPLER = 0.03  # what a term must add in agreement
FARTHEST = 2.0  # logarithm of a ratio of predictions; farther is as bad
FAR = 1e3  # standard deviations
TANH_SLOPE, TANH_BEND = np.float32(0.7978846), np.float32(0.0356774)  # √(2/π), 0.044715 of it
CLOSE = 0.02  # predictions this near agree [REF §4.1]


@dataclass(frozen=True, slots=True)
class Scales:
    """What makes fits of scaled data fits of the data: values (s,) with sign, terms (T,)."""

    values: FloatArray
    terms: FloatArray


class Answer(NamedTuple):
    """What is known about one series on one segment."""

    function: Function
    spread: Spread | None
    probability: float
    columns: int


@dataclass(frozen=True, slots=True)
class Posterior:
    """Probability of each hypothesis (s, h), noise level (s,) and its degrees of freedom (s,)."""

    hypotheses: FloatArray
    sigma: FloatArray
    degrees: FloatArray
    evidence: FloatArray  # logarithm of the probability of the data


def weigh(log_evidence: FloatArray, law: FloatArray, levels: FloatArray) -> Posterior:
    """Posterior over hypotheses and noise.

    Args:
        log_evidence: (s, h, L). law: (s, L), probability of each level. levels: (L,).
    """
    joint = log_evidence + np.log(np.maximum(law, 1e-300))[:, None, :]
    top = joint.max(axis=(1, 2), keepdims=True)
    joint = np.exp(joint - top)
    total = joint.sum(axis=(1, 2))
    noise = joint.sum(axis=1) / total[:, None]
    logs = np.log(levels)
    mean = noise @ logs
    variance = np.maximum(noise @ logs**2 - mean**2, 1e-3)
    sigma = np.sqrt(noise @ levels**2)
    degrees = np.clip(0.5 / variance, 2.0, 200.0)
    evidence = np.log(total) + top[:, 0, 0]
    return Posterior(joint.sum(axis=2) / total[:, None], sigma, degrees, evidence)


def answers(
    found: Candidates,
    posterior: Posterior,
    lattice: Lattice,
    *,
    parameter: str,
    scales: Scales,
    target: float,
    kept_hypotheses: int = KEPT,
) -> list[Answer]:
    """One answer per series; the target is the value of the parameter that decides what leads.

    kept_hypotheses: how many make up the spread of an answer.
    """
    kept = _Kept(found, posterior, lattice, scales, target, most=kept_hypotheses)
    chosen, agreement = kept.choose()
    spreads = kept.spreads(kept_hypotheses)
    shapes, names = lattice.shapes, (parameter,)
    rows = np.arange(len(chosen))
    coefficients = kept.coefficients[rows, chosen]
    rounding = np.abs(coefficients[:, 0]) < ROUNDING * np.abs(scales.values)
    coefficients[rounding & (coefficients[:, 1] != 0), 0] = 0.0
    first, second = kept.first[rows, chosen].tolist(), kept.second[rows, chosen].tolist()
    columns = (kept.inverse_diagonal()[rows, chosen] > 0).sum(axis=1).tolist()
    answer = []
    for i, (c0, c1, c2) in enumerate(coefficients.tolist()):
        terms = () if c1 == 0 else (Term(c1, shapes[first[i]]),)
        if c2 != 0:
            terms = (*terms, Term(c2, shapes[second[i]]))
        answer.append(Answer(Function(names, c0, terms), spreads[i], agreement[i], columns[i]))
    return answer


def expected_distance(predicted: FloatArray, weights: FloatArray, tried: int) -> FloatArray:
    """How far the truth is expected to be from each of the first predictions: (s, tried).

    Mean over the posterior of the logarithm of the ratio, at most FARTHEST: where no form is
    probable, the answer is one that predicts what most others do about.

    Args:
        predicted, weights: (s, h), of the hypotheses.
    """
    size = np.log(np.maximum(np.abs(predicted), 1 / HUGE))
    apart = np.abs(size[:, :tried, None] - size[:, None, :])
    return np.asarray((weights[:, None, :] * np.minimum(apart, FARTHEST)).sum(axis=2))


class _Kept:
    """The most probable hypotheses of each series, in the units of the data."""

    def __init__(
        self,
        found: Candidates,
        posterior: Posterior,
        lattice: Lattice,
        scales: Scales,
        target: float,
        *,
        most: int,
    ) -> None:
        count = min(max(2 * KEPT, most), posterior.hypotheses.shape[1])
        order = np.argsort(-posterior.hypotheses, axis=1)[:, :count]

        def take(values: NDArray[Number]) -> NDArray[Number]:
            return np.take_along_axis(values, order, 1)

        self.posterior, self.lattice = posterior, lattice
        self.weights = take(posterior.hypotheses)

        def possible(values: FloatArray) -> FloatArray:
            return np.where(self.weights > 0, values, 0.0)

        self.first, self.second = take(found.first), take(found.second)
        size = np.append(1 / scales.terms, 1.0)
        value = scales.values[:, None]
        factor = [np.ones_like(self.weights), size[self.first], size[self.second]]
        self.coefficients = np.stack(
            [
                possible(take(c)) * f * value
                for c, f in zip(found.coefficients, factor, strict=True)
            ],
            axis=2,
        )
        self.inverse = [
            possible(take(v)) * factor[i] * factor[j] * value**2
            for v, (i, j) in zip(found.inverse, PLACES, strict=True)
        ]
        self.exponents = np.vstack([lattice.exponents, np.zeros(3)])
        at = np.append(lattice.design(np.array([target]))[:, 0], 0.0)
        at = np.where(np.abs(at) < HUGE, at, 0.0)
        self.at = at[self.first], at[self.second]

    def inverse_diagonal(self) -> FloatArray:
        return np.stack(self.inverse[:3], axis=2)

    def choose(self) -> tuple[FloatArray, list[float]]:
        """Which of the kept hypotheses is the answer, and the posterior of its leading term."""
        a, b = self.at
        of_first = self.coefficients[..., 1] * a
        of_second = self.coefficients[..., 2] * b
        leading = np.where(np.abs(of_second) > np.abs(of_first), self.second, self.first)
        predicted = self.coefficients[..., 0] + of_first + of_second
        v00, v11, v22, v01, v02, v12 = self.inverse
        variance = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)
        deviation = np.sqrt(np.maximum(variance, 0)) * self.posterior.sigma[:, None]
        deviation = np.maximum(deviation, 1e-9 * np.abs(predicted))
        deviation = np.where((self.weights > 0) & (deviation > 1 / HUGE), deviation, 1.0)
        tried = slice(0, KEPT)
        agree = (self.weights[:, None, :] * (leading[:, tried, None] == leading[:, None, :])).sum(
            axis=2
        )
        centre, reach = predicted[:, tried, None], CLOSE * np.abs(predicted[:, tried, None])
        distance = _single((centre - predicted[:, None, :]) / deviation[:, None, :])
        width = _single(reach / deviation[:, None, :])
        near = _normal_share(distance + width) - _normal_share(distance - width)
        near = (self.weights[:, None, :] * near).sum(axis=2)
        simple = (self.first[:, tried] < 0).astype(float) + (self.second[:, tried] < 0)
        # Growth has many forms that share its probability; a constant has one.
        doubtful = (leading[:, tried] < 0) & (agree < AS_GOOD)
        far = expected_distance(predicted, self.weights, KEPT)
        chosen = np.argmax(agree + near - far + SIMPLER * simple - 2.0 * doubtful, axis=1)
        return chosen, np.take_along_axis(agree, chosen[:, None], 1)[:, 0].tolist()

    def spreads(self, count: int) -> list[Spread]:
        kept = slice(0, count)
        weights = self.weights[:, kept] / self.weights[:, kept].sum(axis=1, keepdims=True)
        exponents = np.stack(
            [self.exponents[self.first[:, kept]], self.exponents[self.second[:, kept]]], axis=2
        )[:, :, :, None, :]
        covariances = np.empty((*weights.shape, 3, 3))
        variance = self.posterior.sigma[:, None] ** 2
        for v, (i, j) in zip(self.inverse, PLACES, strict=True):
            covariances[:, :, i, j] = covariances[:, :, j, i] = v[:, kept] * variance
        coefficients = self.coefficients[:, kept]
        sigma, degrees = self.posterior.sigma.tolist(), self.posterior.degrees.tolist()
        return [
            Spread(exponents[i], coefficients[i], covariances[i], weights[i], sigma[i], degrees[i])
            for i in range(len(weights))
        ]


def _single(values: FloatArray) -> Singles:
    return np.clip(values, -FAR, FAR).astype(np.float32)


def _normal_share(z: Singles) -> Singles:
    """The normal distribution function, to within 0.0003: fast, and enough to choose by."""
    return np.asarray(0.5 * np.tanh(z * (TANH_SLOPE + TANH_BEND * z * z)))


PLACES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # order of Candidates.inverse
