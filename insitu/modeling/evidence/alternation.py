"""Grids that are square for every other number of processes: a law, and a factor for the others.

On two-dimensional grids, numbers such as 8 = 2 · 4 and 32 = 4 · 8 have longer surfaces than 4 and
16. Values then alternate around a smooth law, which no function of the space describes. The
hypothesis has one factor for twice a square, log-normal before any data, which is estimated from
the residuals of the functions that fit the values without it. It is decided before anything is
learnt about noise, since values that alternate look noisy otherwise. Whole numbers that a function
goes through do not alternate: it explains them as well, without a factor.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from insitu.modeling.base import BackTest
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.posterior import (
    Posterior,
    compute_posterior,
    fit_hypotheses,
    fitted_mean,
)
from insitu.modeling.evidence.relative_data import scale_errors
from insitu.modeling.grid_shape import grid_elongation
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

MIN_POINTS = 5  # of a series that may alternate
MIN_OF_EACH = 2  # squares, and numbers that are twice a square
PRIOR = 0.02  # that a series alternates, before any data
SIZE = 0.3  # standard deviation of the logarithm of the factor
MIN_FACTOR = 0.03  # its logarithm; smaller ones do not matter
MAX_UNEXPLAINED = 0.1  # of what a parabola leaves on logarithmic axes, with the factor beside it
ROUNDS = 2  # of estimating the factor
MIN_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Alternation:
    """The series that alternate: rows (k,), logarithm of the factor and its variance (k,)."""

    rows: IntArray
    factors: FloatArray
    variances: FloatArray

    def remove_from(self, series: Series) -> Series:
        """Return all series without the factors."""
        values = series.values.copy()
        elongation = grid_elongation(series.coordinates[:, 0])
        values[self.rows] /= np.exp(self.factors[:, None] * elongation)
        return replace(series, values=values)

    def add_to(self, answers: dict[int, Answer]) -> dict[int, Answer]:
        """Return the answers of the series that alternate, with their factors."""
        result = {}
        errors = np.sqrt(self.variances)
        for row, factor, error in zip(
            self.rows.tolist(), self.factors.tolist(), errors.tolist(), strict=True
        ):
            answer = answers[row]
            result[row] = answer._replace(
                spreads=tuple([_adjust(spread, factor, error) for spread in answer.spreads]),
                back_tests=tuple([_adjust_test(test, factor) for test in answer.back_tests]),
                alternation=float(np.exp(factor)),
            )
        return result


def _adjust(spread: Spread | None, factor: float, error: float) -> Spread | None:
    if spread is None:
        return None
    adjustments = spread.all_adjustments().copy()
    adjustments[:, 2:] = factor, error
    return replace(spread, adjustments=adjustments)


def _adjust_test(test: BackTest, factor: float) -> BackTest:
    by = float(np.exp(factor * grid_elongation(np.array([test.at]))[0]))
    return BackTest(test.at, test.predicted * by, test.measured * by)


def find_alternation(batch: Batch) -> Alternation | None:
    """Return which series alternate and by how much, None if none does."""
    elongation = grid_elongation(batch.x)
    measured = list(batch.pools().values())
    if not _can_alternate(batch.x, elongation) or not measured:
        return None
    rows = np.sort(np.concatenate(measured))
    suspects, first = _find_suspects(batch, rows, elongation)
    if len(suspects) == 0:
        return None

    levels = noise.LEVELS
    prior = noise.noise_prior(levels) * np.exp(batch.log_likelihood_of_noise(suspects, levels))
    smooth = _fit_law(batch, suspects, prior, log_factors=np.zeros((1, len(batch.x))))
    factors = first
    for _ in range(ROUNDS):
        law = _fit_law(batch, suspects, prior, log_factors=factors[:, None] * elongation)
        factors, variances = _estimate(batch, suspects, law, elongation)

    law = _fit_law(batch, suspects, prior, log_factors=factors[:, None] * elongation)
    of_factor = -0.5 * (factors / SIZE) ** 2 + 0.5 * np.log(variances / SIZE**2)
    log_odds = law.posterior.log_evidence - smooth.posterior.log_evidence
    log_odds += of_factor + np.log(PRIOR / (1 - PRIOR))
    alternates = np.flatnonzero((log_odds > 0) & (np.abs(factors) > MIN_FACTOR))
    if len(alternates) == 0:
        return None
    return Alternation(suspects[alternates], factors[alternates], variances[alternates])


def _can_alternate(x: FloatArray, elongation: FloatArray) -> bool:
    """Whether all points are squares or twice squares, and there are enough of each."""
    if len(x) < MIN_POINTS or (x != np.round(x)).any() or x[0] < 1:
        return False
    n_long = int((elongation == 1).sum())
    is_either = bool(((elongation == 0) | (elongation == 1)).all())
    return is_either and MIN_OF_EACH <= n_long <= len(x) - MIN_OF_EACH


def _find_suspects(
    batch: Batch, rows: IntArray, elongation: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Those of the rows whose values alternate around a parabola on logarithmic axes.

    Returns:
        Their indices, and the logarithms of their factors: (k,) each.
    """
    is_usable = (batch.relative[rows] > 0).all(axis=1) & (batch.data.counts[rows] == len(batch.x))
    rows = rows[is_usable]
    log_x, log_y = np.log(batch.x), np.log(batch.relative[rows]).T
    parabola = np.stack([np.ones(len(log_x)), log_x, log_x**2], axis=1)
    basis = np.linalg.qr(parabola)[0]
    left = log_y - basis @ (basis.T @ log_y)
    of_factor = elongation - basis @ (basis.T @ elongation)

    factors = of_factor @ left / (of_factor @ of_factor)
    before = (left**2).sum(axis=0)
    after = before - factors**2 * (of_factor @ of_factor)
    chosen = np.flatnonzero((after < MAX_UNEXPLAINED * before) & (np.abs(factors) > MIN_FACTOR))
    return rows[chosen], factors[chosen]


class _Law(NamedTuple):
    """What functions say about series without the factor; means: (s, n)."""

    posterior: Posterior
    means: FloatArray


def _fit_law(batch: Batch, rows: IntArray, prior: FloatArray, *, log_factors: FloatArray) -> _Law:
    """Functions of values that are divided by factors; prior: (s, L), of noise."""
    values = batch.relative[rows] / np.exp(log_factors)
    size = np.maximum(values, batch.min_size[rows])
    data = scale_errors(batch.data.terms, batch.data.repetitions[rows], values, size=size)
    candidates = fit_hypotheses(data, batch.space, noise.LEVELS)
    posterior = compute_posterior(candidates.log_evidence, prior, noise.LEVELS)
    return _Law(posterior, fitted_mean(candidates, posterior.hypotheses, batch.data.terms))


def _estimate(
    batch: Batch, rows: IntArray, law: _Law, elongation: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The logarithm of the factor beside a law, and its variance: (s,) each.

    The law keeps its form, but not its size.
    """
    ratio = batch.relative[rows] / np.maximum(law.means, batch.min_size[rows])
    repetitions = batch.data.repetitions[rows]
    share = (repetitions @ elongation) / repetitions.sum(axis=1)
    centred = elongation - share[:, None]
    precision = (repetitions * centred**2).sum(axis=1)
    projected = (repetitions * centred * np.log(ratio)).sum(axis=1)
    shrinkage = law.posterior.sigma**2 / SIZE**2
    variances = np.maximum(law.posterior.sigma**2 / (precision + shrinkage), MIN_VARIANCE)
    return projected / (precision + shrinkage), variances
