"""From weighed combinations of terms to one function and a spread for each series."""

from dataclasses import dataclass

import numpy as np

from insitu.modeling.evidence.answer import (
    CLOSE,
    MAX_LOG_DISTANCE,
    MAX_TERM_VALUE,
    N_HYPOTHESES,
    TARGET_FACTOR,
    Answer,
    expected_distance,
)
from insitu.modeling.evidence.combination_fits import MultiParameterBatch, WeighedCombinations
from insitu.modeling.evidence.plane import NEGLIGIBLE_SHARE, with_plane
from insitu.modeling.evidence.posterior import compute_posterior
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.spread import Spread

NEGLIGIBLE_TERM = 1e-10  # relative to the largest term: a smaller one is left out
SPREAD_SIZE = 40  # combinations that make up the spread of an answer
NEGLIGIBLE_WEIGHT = 1e-6  # of one of them: far less than lies beyond a bound
MAX_SHARE_OF_PLANE = 0.5  # below, predictions are those of the best combination, not the median


@dataclass(frozen=True, slots=True)
class Solution:
    """Answers of series s, with the posterior mean of their functions (s, n) and noise (s,).

    The means are relative to the scales of their batch.
    """

    answers: list[Answer]
    means: FloatArray
    sigmas: FloatArray


class BestCombinations:
    """The combinations of some series, most probable first: from them to one function each."""

    def __init__(
        self,
        batch: MultiParameterBatch,
        rows: IntArray,
        weighed: WeighedCombinations,
        noise_prior: FloatArray,
        *,
        levels: FloatArray,
    ) -> None:
        """Compute the posterior.

        Args:
            batch: the series. rows: (s,), those to answer.
            weighed: their combinations. noise_prior: (s, L). levels: (L,) of noise.
        """
        self.batch, self.rows, self.terms = batch, rows, weighed.terms
        log_evidence = weighed.log_evidence_of_all()
        self.posterior = compute_posterior(log_evidence, noise_prior, levels)
        self.planes, self.share_of_plane = weighed.planes, self.posterior.hypotheses[:, -1]
        joint = weighed.planes.log_evidence + np.log(np.maximum(noise_prior, 1e-300))
        joint = np.where(np.isfinite(joint), joint, -1e300)
        self.levels_of_plane = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))

        of_combinations = self._weigh_without_plane(log_evidence, noise_prior)
        order = np.argsort(-of_combinations, axis=1, kind="stable")
        self.weights = np.take_along_axis(of_combinations, order, 1)
        self.chosen = np.take_along_axis(weighed.chosen, order, 1)
        self.columns = batch.plan.members[self.chosen]
        self.estimates = np.take_along_axis(weighed.estimates, order[:, :, None], 1)
        self.inverses = np.take_along_axis(weighed.inverses, order[:, :, None, None], 1)

    def _weigh_without_plane(self, log_evidence: FloatArray, noise_prior: FloatArray) -> FloatArray:
        """The probability of each combination if it is not the plane: (s, q).

        Where the plane is so probable that no number is left for the others, as for exact counts
        on a line through the coordinates, their evidence alone decides.

        Args:
            log_evidence: (s, q + 1, L), of all. noise_prior: (s, L).
        """
        weights = self.posterior.hypotheses[:, :-1]
        is_vanishing = self.share_of_plane == 1
        rest = np.where(is_vanishing, 1.0, 1 - self.share_of_plane)
        weights = weights / rest[:, None]
        if is_vanishing.any():
            joint = log_evidence[is_vanishing, :-1]
            joint = joint + np.log(np.maximum(noise_prior[is_vanishing], 1e-300))[:, None]
            of_each = np.logaddexp.reduce(joint, axis=2)
            of_each -= np.logaddexp.reduce(of_each, axis=1, keepdims=True)
            weights[is_vanishing] = np.exp(of_each)
        return np.asarray(weights)

    def mean(self) -> FloatArray:
        """Return the posterior mean of the function at each point, relative: (s, n)."""
        terms = [values[self.terms[:, i]] for i, values in enumerate(self.batch.terms)]
        columns = self._columns_of_each(self.batch.plan.design_matrix(terms))
        mean = np.einsum("sq,sqk,sqkn->sn", self.weights, self.estimates, columns)
        return np.asarray(mean)

    def _columns_of_each(self, design: FloatArray) -> FloatArray:
        """The columns of each combination: (s, q, k, n), zero where it has none."""
        padded = np.concatenate([design, np.zeros_like(design[:, :1])], axis=1)
        return np.asarray(padded[np.arange(len(design))[:, None, None], self.columns])

    def answers(self) -> list[Answer]:
        """Return one answer per series."""
        chosen, agreement = self._choose()
        spreads = self._spreads(chosen)
        answers = []
        for i, k in enumerate(chosen.tolist()):
            n_columns = int((self.columns[i, k] >= 0).sum())
            function = self._function(i, k)
            probability = float(agreement[i] * (1 - self.share_of_plane[i]))
            spread = self._with_plane(i, spreads[i])
            answers.append(Answer((function,), (spread,), probability, n_columns))
        return answers

    def _with_plane(self, i: int, spread: Spread) -> Spread:
        """The spread of series i with its plane, if that is not negligible."""
        share = float(self.share_of_plane[i])
        if not share > NEGLIGIBLE_SHARE:
            return spread
        of_levels = self.levels_of_plane[i]
        return with_plane(
            spread,
            of_levels @ self.planes.coefficients[i],
            np.einsum("l,lab->ab", of_levels, self.planes.covariances[i]),
            scale=float(self.batch.scale[self.rows[i]]),
            share=share,
        )

    def _choose(self) -> tuple[IntArray, FloatArray]:
        """The combination with whose terms and prediction most probability agrees (s,).

        With the posterior of its terms. Compare `answer._BestHypotheses.choose`.
        """
        predicted, deviation = self._predict()
        weights, tried = self.weights[:, None, :], slice(0, N_HYPOTHESES)

        keys = self.batch.plan.keys[self.chosen]
        has_same_terms = keys[:, tried, None] == keys[:, None, :]
        agreement = (has_same_terms * weights).sum(axis=2)

        centre = predicted[:, tried, None]
        distance = (centre - predicted[:, None, :]) / deviation[:, None, :]
        width = CLOSE * np.abs(centre) / deviation[:, None, :]
        from scipy.special import ndtr  # takes 0.2 s to import, and one parameter does not need it

        near = ndtr(distance + width) - ndtr(distance - width)
        near = (weights * near).sum(axis=2)

        gain = agreement + near - expected_distance(predicted, self.weights, N_HYPOTHESES)
        is_possible = self.weights[:, tried] > 0
        chosen = np.argmax(np.where(is_possible, gain, -MAX_LOG_DISTANCE), axis=1)
        return chosen, np.take_along_axis(agreement, chosen[:, None], 1)[:, 0]

    def _predict(self) -> tuple[FloatArray, FloatArray]:
        """The prediction at the target and its standard deviation: (s, q) each."""
        batch = self.batch
        target = TARGET_FACTOR * batch.series.coordinates.max(axis=0)
        terms = []
        for i, space in enumerate(batch.spaces):
            at_target = space.evaluate_terms(target[i : i + 1])[:, 0] / batch.term_scales[i]
            at_target = np.where(np.abs(at_target) < MAX_TERM_VALUE, at_target, 0.0)
            terms.append(at_target[self.terms[:, i], None])

        columns = self._columns_of_each(batch.plan.design_matrix(terms))[..., 0]
        predicted = (columns * self.estimates).sum(axis=2)
        variance = np.einsum("sqk,sqkl,sql->sq", columns, self.inverses, columns)
        deviation = np.sqrt(np.maximum(variance, 0.0)) * self.posterior.sigma[:, None]
        return predicted, np.maximum(deviation, 1e-9 * np.abs(predicted) + 1e-300)

    def _function(self, i: int, k: int) -> Function:
        """Combination k of series i in the units of the data."""
        batch = self.batch
        shares = np.abs(self.estimates[i, k])
        is_visible = shares > NEGLIGIBLE_TERM * shares.max()
        estimates = np.where(is_visible, self.estimates[i, k], 0.0)
        coefficients = (estimates * self._scales(i, k)).tolist()

        constant, terms = 0.0, []
        for column, coefficient in zip(self.columns[i, k].tolist(), coefficients, strict=True):
            if column == 0:
                constant = coefficient
            elif column > 0 and coefficient != 0:
                factors = []
                for parameter, slot in batch.plan.factors[column]:
                    index = self.terms[i, parameter, slot]
                    factors.append(batch.spaces[parameter].shapes[index][0])
                terms.append(Term(coefficient, tuple(factors)))
        return Function(batch.parameters, constant, tuple(terms))

    def _scales(self, i: int, k: int) -> FloatArray:
        """The factors from coefficients of scaled columns to those of the data: (k,)."""
        batch = self.batch
        scales = []
        for column in self.columns[i, k]:
            of_factors = []
            for parameter, slot in batch.plan.factors[column]:
                of_factors.append(1 / batch.term_scales[parameter][self.terms[i, parameter, slot]])
            scales.append(np.prod(of_factors))
        return np.asarray(np.array(scales) * batch.scale[self.rows[i]])

    def _spreads(self, chosen: IntArray) -> list[Spread]:
        """The most probable combinations of each series, in the units of the data.

        Args:
            chosen: (s,), the answers. They come first, and lead where no plane is more probable.
        """
        batch, plan = self.batch, self.batch.plan
        others = np.broadcast_to(np.arange(self.weights.shape[1]), self.weights.shape)
        order = np.argsort(others != chosen[:, None], axis=1, kind="stable")[:, :SPREAD_SIZE]
        columns = np.take_along_axis(self.columns, order[:, :, None], 1)
        s, q, k = columns.shape
        n_parameters = len(batch.parameters)

        # The exponents of each column, and what turns its coefficient into that of the data.
        exponents = np.zeros((s, q, k, n_parameters, 3))
        scales = np.ones((s, q, k))
        slots = plan.column_slots[columns]
        for p in range(n_parameters):
            terms = self.terms[np.arange(s)[:, None, None], p, slots[..., p]]
            is_used = slots[..., p] >= 0
            of_terms = batch.spaces[p].exponents[terms]
            exponents[..., p, :] = np.where(is_used[..., None], of_terms, 0)
            scales /= np.where(is_used, batch.term_scales[p][terms], 1.0)
        scales *= batch.scale[self.rows][:, None, None]

        inverses = np.take_along_axis(self.inverses, order[:, :, None, None], 1)
        covariances = inverses * scales[..., :, None] * scales[..., None, :]
        covariances *= self.posterior.sigma[:, None, None, None] ** 2
        coefficients, covariances, exponents = _constant_first(
            np.take_along_axis(self.estimates, order[:, :, None], 1) * scales,
            covariances,
            exponents,
            has_constant=columns[:, :, 0] == 0,
        )
        weights = np.take_along_axis(self.weights, order, 1)
        weights = weights / weights.sum(axis=1, keepdims=True)
        # Combinations that are not possible predict 0, which is no positive value.
        is_negligible = ~(weights > NEGLIGIBLE_WEIGHT)
        is_negligible[:, 0] = False  # the answer
        weights = np.where(is_negligible, 0.0, weights)
        weights /= weights.sum(axis=1, keepdims=True)

        spreads = []
        for i in range(s):
            kept = np.flatnonzero(~is_negligible[i])
            spreads.append(
                Spread(
                    exponents=exponents[i, kept],
                    coefficients=coefficients[i, kept],
                    covariances=covariances[i, kept],
                    weights=weights[i, kept],
                    sigma=float(self.posterior.sigma[i]),
                    degrees=float(self.posterior.degrees[i]),
                    is_led=bool(self.share_of_plane[i] < MAX_SHARE_OF_PLANE),
                )
            )
        return spreads


def _constant_first(
    coefficients: FloatArray,
    covariances: FloatArray,
    exponents: FloatArray,
    *,
    has_constant: np.ndarray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give all combinations an entry for the constant, followed by their terms.

    Args:
        coefficients: (s, q, k). covariances: (s, q, k, k). exponents: (s, q, k, m, 3).
        has_constant: (s, q), whether the first entry already is the constant.

    Returns:
        The same in shapes (s, q, k + 1), (s, q, k + 1, k + 1) and (s, q, k, m, 3).
    """
    s, q, k = coefficients.shape
    values, spread = np.zeros((s, q, k + 1)), np.zeros((s, q, k + 1, k + 1))
    of_terms = np.zeros((s, q, k, *exponents.shape[3:]))

    values[:, :, :k], spread[:, :, :k, :k] = coefficients, covariances
    of_terms[:, :, : k - 1] = exponents[:, :, 1:]

    without = ~has_constant
    values[without] = 0.0
    spread[without] = 0.0
    values[without, 1:] = coefficients[without]
    spread[without, 1:, 1:] = covariances[without]
    of_terms[without] = exponents[without]
    return values, spread, of_terms
