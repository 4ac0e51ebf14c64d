"""From a posterior over hypotheses to one function, its probability and its spread.

The answer is one of the hypotheses: the one with whose leading term most of the posterior agrees,
and around whose prediction at the target most of the predictive probability lies. Where no
hypothesis is probable, it is the one whose prediction is nearest to those of the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from insitu.modeling.base import BackTest
from insitu.modeling.evidence.claims import probability_of_constant, weigh_constants_evenly
from insitu.modeling.evidence.grid_changes import GridChange
from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.evidence.marginal import Float32Array
from insitu.modeling.evidence.normal_equations import INVERSE_ELEMENTS, Candidates
from insitu.modeling.evidence.posterior import Posterior
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread

Number = TypeVar("Number", np.float64, np.intp)

TARGET_FACTOR = 4.0  # the target is this many times the largest coordinate [REF §4.1]
CLOSE = 0.02  # predictions within this relative distance agree [REF §4.1]
N_HYPOTHESES = 6  # that may be the answer
N_COMPETING = 2 * N_HYPOTHESES  # that make up its spread at most: further ones hardly move a bound
MIN_COMPETING = 0.004  # share of one of them; a bound cuts off 0.025
MAX_TERM_VALUE = 1e60  # larger values of terms at the target do not decide

# How hypotheses compare, in units of posterior probability.
# A constant with at least this agreement is answered, one with less is not: outliers, and what the
# call paths of a run share, look like growth that is 70 to 90 % probable. Chosen on campaigns of
# seed 1101 of tests/evaluation/noise.py, where growth is missed in 1 % more of the series.
MIN_AGREEMENT_OF_CONSTANT = 0.1
CONSTANT_PREFERENCE = 10.0  # outweighs everything else
SIMPLICITY_BONUS = 0.03  # what a further term must add in agreement
MAX_LOG_DISTANCE = 2.0  # predictions whose ratio is larger than e² are all equally bad

MAX_STANDARD_DISTANCE = 1e3  # standard deviations; clipped before single precision
# Φ(z) ≈ ½ + ½ tanh(√(2/π) (z + 0.044715 z³)), the approximation known from the GELU function.
TANH_SLOPE, TANH_BEND = np.float32(0.7978846), np.float32(0.0356774)


@dataclass(frozen=True, slots=True)
class Scales:
    """What turns fits of scaled data into fits of the data.

    values: (s,), with the sign of the series. terms: (T,), the largest value of each term. noise:
    (s,), of the next measurement, relative to the usual noise of the series. degrees: (s,), of
    freedom that the noise has at most. smallest: (s,), the smallest value, in the units of the
    data.
    """

    values: FloatArray
    terms: FloatArray
    noise: FloatArray
    degrees: FloatArray
    smallest: FloatArray


class Answer(NamedTuple):
    """What modeler "evidence" concludes about one series.

    functions, spreads: one per segment. probability: posterior of the leading term of the last
    segment. columns: coefficients of all functions. cuts: index of the first point after each
    change. change_probability: that behaviour changes, and just there. newest_factor: by which the
    newest value is larger than the function, if it leaves the law of the others, otherwise NaN.
    off_point, off_factor: index of an earlier point that leaves the law of the others, -1 for none,
    and the same factor there. sole_point: index of the point that alone supports the leading term,
    -1 for none. log_evidence: logarithm of the probability of the data and of a change, or of a
    point that is off. back_tests: what models of the smaller scales predicted for the largest.
    alternation: factor of values at numbers of processes that are twice a square. work: bounds of
    the work that is divided unevenly, None where it is not. quotient: the parameters that are work
    and processes, where functions are of n and n / ceil(n / p). grid_changes: of several
    parameters, those whose earlier points the function does not describe.
    """

    functions: tuple[Function, ...]
    spreads: tuple[Spread | None, ...]
    probability: float
    columns: int
    cuts: tuple[int, ...] = ()
    change_probability: float = 0.0
    newest_factor: float = np.nan
    off_point: int = -1
    off_factor: float = np.nan
    sole_point: int = -1
    log_evidence: float = -np.inf
    back_tests: tuple[BackTest, ...] = ()
    alternation: float = 1.0
    work: tuple[float, float] | None = None
    quotient: tuple[int, int] | None = None
    grid_changes: tuple[GridChange, ...] = ()

    def follows_one_law(self) -> bool:
        """Return whether one function describes all values, with no remark on any of them."""
        return (
            not self.cuts
            and not self.has_point_off()
            and self.sole_point < 0
            and self.alternation == 1
            and self.work is None
        )

    def has_point_off(self) -> bool:
        """Return whether the newest or an earlier value leaves the law of the others."""
        return math.isfinite(self.newest_factor) or self.off_point >= 0


def join_segments(
    segments: Sequence[Answer], cuts: Sequence[int], change_probability: float
) -> Answer:
    """Return one answer of the answers of consecutive segments, one function each."""
    return Answer(
        functions=tuple([segment.functions[0] for segment in segments]),
        spreads=tuple([segment.spreads[0] for segment in segments]),
        probability=segments[-1].probability,
        columns=sum(segment.columns for segment in segments),
        cuts=tuple(cuts),
        change_probability=change_probability,
    )


def mix_claims(chosen: Answer, other: Answer, share: float, *, at: float) -> float:
    """Return the probability of the leading term of an answer, beside another answer.

    Args:
        chosen, other: of one function each. share: probability of what the other is based on.
        at: the largest value of the parameter.
    """
    point = np.array([[TARGET_FACTOR * at]])
    is_same = chosen.functions[-1].leading(point) == other.functions[-1].leading(point)
    agreed = other.probability if is_same else 0.0
    return (1 - share) * chosen.probability + share * agreed


def choose_answers(
    candidates: Candidates,
    posterior: Posterior,
    space: HypothesisSpace,
    *,
    scales: Scales,
    target: float,
    n_hypotheses: int = N_COMPETING,
) -> list[Answer]:
    """Return one answer per series.

    Args:
        candidates, posterior: of the same series and hypotheses.
        space: that the candidates are from.
        scales: of the series and the terms.
        target: value of the parameter at which the leading term and the prediction are compared.
        n_hypotheses: how many make up the spread of an answer.
    """
    best = _BestHypotheses(
        candidates, posterior, space, scales=scales, target=target, n_hypotheses=n_hypotheses
    )
    chosen, agreement = best.choose()
    spreads = best.spreads(n_hypotheses)
    rows = np.arange(len(chosen))

    coefficients = best.coefficients[rows, chosen]
    first, second = best.first[rows, chosen].tolist(), best.second[rows, chosen].tolist()
    columns = best.count_columns()[rows, chosen].tolist()

    parameters = (space.parameter,)
    answers = []
    for i, (constant, of_first, of_second) in enumerate(coefficients.tolist()):
        terms: tuple[Term, ...] = ()
        if of_first != 0:
            terms = (Term(of_first, space.shapes[first[i]]),)
        if of_second != 0:
            terms = (*terms, Term(of_second, space.shapes[second[i]]))
        function = Function(parameters, constant, terms)
        answers.append(Answer((function,), (spreads[i],), agreement[i], columns[i]))
    return answers


def expected_distance(predicted: FloatArray, weights: FloatArray, n_first: int) -> FloatArray:
    """Return how far the truth is expected to be from each of the first predictions: (s, n_first).

    The mean over the posterior of the absolute logarithm of the ratio, at most MAX_LOG_DISTANCE.
    Where no form is probable, it selects one that predicts about what most others do.

    Args:
        predicted, weights: (s, h), of the hypotheses.
    """
    size = np.log(np.maximum(np.abs(predicted), 1 / MAX_TERM_VALUE))
    distance = np.abs(size[:, :n_first, None] - size[:, None, :])
    distance = np.minimum(distance, MAX_LOG_DISTANCE)
    return np.asarray((weights[:, None, :] * distance).sum(axis=2))


class _BestHypotheses:
    """The most probable hypotheses of each series, in the units of the data: (s, k) each."""

    def __init__(
        self,
        candidates: Candidates,
        posterior: Posterior,
        space: HypothesisSpace,
        *,
        scales: Scales,
        target: float,
        n_hypotheses: int,
    ) -> None:
        # Twice as many as may be chosen: the others vote on them.
        count = min(max(N_COMPETING, n_hypotheses), posterior.hypotheses.shape[1])
        order = np.argsort(-posterior.hypotheses, axis=1)[:, :count]

        def take(values: NDArray[Number]) -> NDArray[Number]:
            return np.take_along_axis(values, order, 1)

        self.posterior, self.space, self.noise = posterior, space, scales.noise
        self.degrees = np.where(
            np.isinf(scales.degrees),
            posterior.degrees,
            1 / (1 / posterior.degrees + 1 / scales.degrees),
        )
        self.smallest = np.abs(scales.smallest)
        self.weights = take(posterior.hypotheses)
        self.first, self.second = take(candidates.first), take(candidates.second)

        def take_possible(values: FloatArray) -> FloatArray:
            return np.where(self.weights > 0, take(values), 0.0)

        # From scaled columns to the units of the data; index -1 is the absent term.
        per_term = np.append(1 / scales.terms, 1.0)
        value = scales.values[:, None]
        factor = [np.ones_like(self.weights), per_term[self.first], per_term[self.second]]
        in_units = []
        for i, coefficients in enumerate(candidates.coefficients):
            in_units.append(take_possible(coefficients) * factor[i] * value)
        self.coefficients = np.stack(in_units, axis=2)
        self.inverse = []
        for element, (i, j) in zip(candidates.inverse, INVERSE_ELEMENTS, strict=True):
            self.inverse.append(take_possible(element) * factor[i] * factor[j] * value**2)

        self.exponents = np.vstack([space.exponents, np.zeros(3)])
        at_target = np.append(space.evaluate_terms(np.array([target]))[:, 0], 0.0)
        at_target = np.where(np.abs(at_target) < MAX_TERM_VALUE, at_target, 0.0)
        self.first_at_target = at_target[self.first]
        self.second_at_target = at_target[self.second]

    def count_columns(self) -> IntArray:
        """Return the number of coefficients of each hypothesis: (s, k)."""
        diagonal = np.stack(self.inverse[:3], axis=2)
        return np.asarray((diagonal > 0).sum(axis=2))

    def choose(self) -> tuple[IntArray, list[float]]:
        """Return which hypothesis is the answer (s,), and the posterior of its leading term."""
        leading, predicted = self._predict()
        deviation = self._deviation(predicted)
        weights, tried = self.weights[:, None, :], slice(0, N_HYPOTHESES)

        has_same_leading = leading[:, tried, None] == leading[:, None, :]
        agreement = (weights * has_same_leading).sum(axis=2)

        # The probability that the truth is within CLOSE of the prediction of each.
        centre = predicted[:, tried, None]
        distance = _to_single((centre - predicted[:, None, :]) / deviation[:, None, :])
        width = _to_single(CLOSE * np.abs(centre) / deviation[:, None, :])
        near = _normal_distribution(distance + width) - _normal_distribution(distance - width)
        near = (weights * near).sum(axis=2)

        absent_terms = (self.first[:, tried] < 0).astype(float) + (self.second[:, tried] < 0)
        # Growth has many forms that share its probability; a constant has one.
        is_constant = leading[:, tried] < 0
        is_possible = agreement >= MIN_AGREEMENT_OF_CONSTANT
        far = expected_distance(predicted, self.weights, N_HYPOTHESES)
        gain = agreement + near - far + SIMPLICITY_BONUS * absent_terms
        gain += CONSTANT_PREFERENCE * np.where(is_possible, 1.0, -1.0) * is_constant
        chosen = np.argmax(gain, axis=1)
        return chosen, self._claim(chosen, leading).tolist()

    def _claim(self, chosen: IntArray, leading: IntArray) -> FloatArray:
        """The probability of the leading term of the chosen hypotheses: (s,).

        Args:
            chosen: (s,). leading: (s, k), term of each hypothesis, -1 for a constant.
        """
        sigma = self.posterior.sigma
        term = np.take_along_axis(leading, chosen[:, None], 1)
        has_same_leading = leading == term
        agreement = (self.weights * has_same_leading).sum(axis=1)

        smallest = np.where(self.smallest > 0, self.smallest, np.inf)[:, None]
        revised = weigh_constants_evenly(
            self.weights, np.abs(self.coefficients[..., 0]) / smallest, self.first >= 0, sigma
        )
        return np.where(
            term[:, 0] < 0,
            probability_of_constant(agreement, sigma),
            (revised * has_same_leading).sum(axis=1),
        )

    def _predict(self) -> tuple[IntArray, FloatArray]:
        """The leading term at the target, -1 for none, and the prediction there: (s, k)."""
        of_first = self.coefficients[..., 1] * self.first_at_target
        of_second = self.coefficients[..., 2] * self.second_at_target
        leading = np.where(np.abs(of_second) > np.abs(of_first), self.second, self.first)
        return leading, self.coefficients[..., 0] + of_first + of_second

    def _deviation(self, predicted: FloatArray) -> FloatArray:
        """The standard deviation of the predictions at the target: (s, k), positive."""
        a, b = self.first_at_target, self.second_at_target
        v00, v11, v22, v01, v02, v12 = self.inverse
        variance = v00 + a * a * v11 + b * b * v22 + 2 * (a * v01 + b * v02 + a * b * v12)

        deviation = np.sqrt(np.maximum(variance, 0)) * self.posterior.sigma[:, None]
        deviation = np.maximum(deviation, 1e-9 * np.abs(predicted))
        is_usable = (self.weights > 0) & (deviation > 1 / MAX_TERM_VALUE)
        return np.where(is_usable, deviation, 1.0)

    def spreads(self, count: int) -> list[Spread]:
        """Return the `count` most probable hypotheses of each series as its spread.

        Without those that no bound depends on, unless more than N_COMPETING are asked for.
        """
        first, second = self.first[:, :count], self.second[:, :count]
        exponents = np.stack([self.exponents[first], self.exponents[second]], axis=2)
        exponents = exponents[:, :, :, None, :]
        coefficients = self.coefficients[:, :count]
        weights = self.weights[:, :count]
        weights = weights / weights.sum(axis=1, keepdims=True)

        covariances = np.empty((*weights.shape, 3, 3))
        variance = self.posterior.sigma[:, None] ** 2
        for element, (i, j) in zip(self.inverse, INVERSE_ELEMENTS, strict=True):
            covariances[:, :, i, j] = element[:, :count] * variance
            covariances[:, :, j, i] = covariances[:, :, i, j]

        kept = np.full(len(weights), weights.shape[1])
        if count <= N_COMPETING:
            kept = np.maximum((weights > MIN_COMPETING).sum(axis=1), 1)  # weights descend
            is_kept = np.arange(weights.shape[1]) < kept[:, None]
            weights = np.where(is_kept, weights, 0.0)
            weights /= weights.sum(axis=1, keepdims=True)

        sigma = (self.posterior.sigma * self.noise).tolist()
        degrees = self.degrees.tolist()
        return [
            Spread(
                exponents=exponents[i, :k].copy(),  # without those that are left out
                coefficients=coefficients[i, :k],
                covariances=covariances[i, :k].copy(),
                weights=weights[i, :k],
                sigma=sigma[i],
                degrees=degrees[i],
            )
            for i, k in enumerate(kept.tolist())
        ]


def _to_single(values: FloatArray) -> Float32Array:
    clipped = np.clip(values, -MAX_STANDARD_DISTANCE, MAX_STANDARD_DISTANCE)
    return clipped.astype(np.float32)


def _normal_distribution(z: Float32Array) -> Float32Array:
    """Φ(z) - ½ to within 0.0003: fast, and accurate enough to choose by."""
    return np.asarray(0.5 * np.tanh(z * (TANH_SLOPE + TANH_BEND * z * z)))
