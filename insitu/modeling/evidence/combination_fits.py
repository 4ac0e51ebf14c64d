"""Several parameters: the evidence of sums and products of the best terms of each parameter.

A line is a set of points along which only one parameter varies. For each parameter the terms that
describe its lines best are selected. Structures combine one term per parameter, as in Extra-P: t,
t + u, t·u, tu + v, and t + t·u, which a loop with a constant share produces; or two terms of one
parameter, such as volume and surface. Each combination has an evidence as with one parameter, and
so has a plane in log space. A sparse design needs one line per parameter and a point off the lines
for each interaction.
"""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any  # the state that pickle stores

import numpy as np

from insitu.modeling.evidence import noise
from insitu.modeling.evidence.batch import SMALLEST_TERM
from insitu.modeling.evidence.combinations import CombinationPlan, plan_combinations
from insitu.modeling.evidence.hypothesis_space import (
    MAX_PLAIN_EXPONENT,
    MAX_PLAIN_POINTS,
    MULTI_PARAMETER_WEIGHTS,
    HypothesisSpace,
    build_hypothesis_space,
)
from insitu.modeling.evidence.marginal import invisible_prior, log_evidence
from insitu.modeling.evidence.normal_equations import TYPICAL_NOISE, clip_rounding
from insitu.modeling.evidence.plane import Planes, weigh_planes
from insitu.modeling.evidence.posterior import MIN_RATIO, MIN_RATIO_SIZE
from insitu.modeling.evidence.relative_data import smallest_sizes
from insitu.modeling.evidence.repetitions import excess_of_known
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.orthogonal import solve_orthogonally
from insitu.modeling.series import Series

# Limits that keep the number of combinations computable, by the number of parameters.
SELECTED_TERMS = {2: 12, 3: 10, 4: 6}  # per parameter
SELECTED_TERMS_OF_MANY = {2: 12, 3: 7, 4: 4}  # the same with many points, which tell terms better
MANY_POINTS = 60
SELECTED_PAIRS = {2: 4, 3: 1, 4: 0}  # pairs of terms of one parameter, per parameter
MAX_CANDIDATES = {2: 32, 3: 128, 4: 128}  # combinations whose evidence is computed
PAIRED_CANDIDATES = 8  # further ones, in which a parameter has two terms

MIN_LINE_POINTS = 3  # of a line that shows growth
MIN_PAIR_LINE_POINTS = 4  # of a line that shows two terms
SMALLEST_NOISE = 1e-6  # assumed for the score of series without noise
MIN_DETERMINANT = 1e-9  # of normalised columns; below, they are dependent
LOG_PRICE_OF_COLUMN = 2.0  # log evidence that a column costs in the score
CACHED_NUMBERS = 400_000  # in the largest array, so that it stays in the cache


@dataclass(frozen=True, slots=True)
class WeighedCombinations:
    """The most probable combinations of some series, q each, with k columns at most.

    terms: (s, m, K) indices of the selected terms in the hypothesis spaces of the m parameters.
    chosen: (s, q) combinations of the plan. estimates: (s, q, k). inverses: (s, q, k, k) of the
    normal equations; both are zero where a combination has fewer columns. log_evidence: (s, q, L),
    with the prior. planes: in log space, of the same series.
    """

    terms: IntArray
    chosen: IntArray
    estimates: FloatArray
    inverses: FloatArray
    log_evidence: FloatArray
    planes: Planes

    def log_evidence_of_all(self) -> FloatArray:
        """Return the evidence of the combinations and, last, of the plane: (s, q + 1, L)."""
        of_planes = self.planes.log_evidence[:, None]
        return np.concatenate([self.log_evidence, of_planes], axis=1)


class MultiParameterBatch:
    """Series over several parameters in relative form, with the terms of each parameter."""

    def __init__(self, series: Series) -> None:
        """Scale the series and evaluate the terms."""
        self.series, self.parameters = series, series.parameters
        self.spaces = [_space(name) for name in self.parameters]

        self.scale, self.relative = _scale(series.values)
        repetitions = noise.effective_repetitions(series.counts) / excess_of_known(series)
        self.repetitions = np.where(series.counts > 0, repetitions, 0.0)

        # Of each parameter: terms (T, n) scaled to at most 1, their scale and usability (T,).
        self.terms, self.term_scales, self.is_usable = [], [], []
        for column, space in enumerate(self.spaces):
            terms = space.evaluate_terms(series.coordinates[:, column])
            with np.errstate(invalid="ignore"):
                size = np.abs(terms).max(axis=1, initial=0.0)
            is_usable = np.isfinite(size) & (size > SMALLEST_TERM) & (size < 1 / SMALLEST_TERM)
            size = np.where(is_usable, size, 1.0)
            n_values = len(np.unique(series.coordinates[:, column]))
            if n_values <= MAX_PLAIN_POINTS:
                is_usable &= space.exponents[:, 0] <= MAX_PLAIN_EXPONENT
            self.terms.append(np.where(is_usable[:, None], terms / size[:, None], 0.0))
            self.term_scales.append(size)
            self.is_usable.append(is_usable & (n_values > 1))

        n_parameters = len(self.parameters)
        self.lines = [self._lines(column) for column in range(n_parameters)]
        has_many_points = len(series.coordinates) >= MANY_POINTS
        self.n_terms = (SELECTED_TERMS_OF_MANY if has_many_points else SELECTED_TERMS)[n_parameters]
        self.plan = self._make_plan()

    def select(self, rows: IntArray) -> "MultiParameterBatch":
        """Return a batch of some of the series (k,); results do not depend on the others."""
        selected = copy(self)
        selected.series = self.series.select(rows)
        selected.scale, selected.relative = self.scale[rows], self.relative[rows]
        selected.repetitions = self.repetitions[rows]
        return selected

    def divide(self, factors: FloatArray) -> "MultiParameterBatch":
        """Return a batch of the series divided by positive factors (s, n)."""
        divided = copy(self)
        divided.series = replace(self.series, values=self.series.values / factors)
        divided.scale, divided.relative = _scale(divided.series.values)
        return divided

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it can build plan and spaces, which are large."""
        state = dict(vars(self))
        del state["plan"], state["spaces"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the batch, and build its plan and spaces again."""
        vars(self).update(state)
        self.spaces = [_space(name) for name in self.parameters]
        self.plan = self._make_plan()

    def _make_plan(self) -> CombinationPlan:
        n_parameters = len(self.parameters)
        return plan_combinations(n_parameters, self.n_terms, SELECTED_PAIRS[n_parameters])

    def _lines(self, column: int) -> list[IntArray]:
        """Sets of points that differ in one parameter only."""
        others = np.delete(self.series.coordinates, column, axis=1)
        _, index = np.unique(others, axis=0, return_inverse=True)
        lines = [np.flatnonzero(index.ravel() == i) for i in range(int(index.max()) + 1)]
        return [line for line in lines if len(line) >= MIN_LINE_POINTS]

    def chunk_size(self) -> int:
        """Return how many series to weigh in one call."""
        numbers = len(self.plan.pairs) * len(self.series.coordinates)
        return max(1, CACHED_NUMBERS // max(numbers, 1))

    def weigh(
        self,
        members: IntArray,
        levels: FloatArray,
        structures: FloatArray,
        *,
        size: FloatArray | None = None,
    ) -> WeighedCombinations:
        """Return the most probable combinations of some series and their evidence.

        Args:
            members: (s,) indices of the series.
            levels: (L,) of noise.
            structures: (s, n_structures), log prior of each structure of the plan.
            size: (s, n) what errors are relative to; by default the values.
        """
        y, repetitions = self.relative[members], self.repetitions[members]
        size = np.maximum(np.abs(y) if size is None else size, smallest_sizes(y))
        w = repetitions / size**2

        selected = [self._fill_slots(column, w, y) for column in range(len(self.parameters))]
        terms = np.stack([indices for indices, _ in selected], axis=1)
        design = self.plan.design_matrix([t[terms[:, i]] for i, t in enumerate(self.terms)])
        log_prior = self.plan.log_prior([prior for _, prior in selected], structures)

        score = self._score(design, w, y, log_prior)
        chosen = self._best_combinations(score)
        is_possible = np.isfinite(np.take_along_axis(score, chosen, 1))
        log_prior = np.where(is_possible, np.take_along_axis(log_prior, chosen, 1), -np.inf)

        fits = _CombinationFits(self.plan.members[chosen], design, w, y, repetitions=repetitions)
        estimates, inverses, evidence = fits.weigh(levels, log_prior)
        planes = weigh_planes(self.series.coordinates, y, repetitions, levels)
        return WeighedCombinations(terms, chosen, estimates, inverses, evidence, planes)

    def _best_combinations(self, score: FloatArray) -> IntArray:
        """The combinations with the highest scores (s, h): (s, q), the best pairs among them."""
        count = min(MAX_CANDIDATES[len(self.parameters)], score.shape[1])
        paired = np.flatnonzero(self.plan.is_paired)
        if len(paired) <= PAIRED_CANDIDATES:
            return np.argpartition(-score, count - 1, axis=1)[:, :count]

        first = np.argpartition(-score[:, paired], PAIRED_CANDIDATES - 1, axis=1)
        first = paired[first[:, :PAIRED_CANDIDATES]]
        others = score.copy()
        np.put_along_axis(others, first, -np.inf, axis=1)
        best = np.argpartition(-others, count - 1, axis=1)[:, :count]
        return np.concatenate([best, first], axis=1)

    def _fill_slots(self, column: int, w: FloatArray, y: FloatArray) -> tuple[IntArray, FloatArray]:
        """The terms in the slots of one parameter, and their log prior: (s, S) each.

        The prior of a pair stands in the slot of its first term.
        """
        terms, log_prior = self._select_terms(column, w, y)
        pairs, log_prior_pairs = self._select_pairs(column, w, y)
        log_prior_slots = np.zeros(pairs.shape)
        log_prior_slots[:, :, 0] = log_prior_pairs
        n_series = len(terms)
        return (
            np.concatenate([terms, pairs.reshape(n_series, -1)], axis=1),
            np.concatenate([log_prior, log_prior_slots.reshape(n_series, -1)], axis=1),
        )

    def _select_pairs(
        self, column: int, w: FloatArray, y: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """The pairs of terms of one parameter that describe the lines of each series best.

        Returns:
            Their terms (s, Q, 2) and log prior (s, Q), -inf where a pair is not usable.
        """
        space = self.spaces[column]
        n_pairs = SELECTED_PAIRS[len(self.parameters)]
        are_usable = self.is_usable[column][space.pairs].all(axis=1)
        log_prior = space.log_prior_pairs - np.logaddexp.reduce(space.log_prior_pairs)
        log_prior = np.where(are_usable, log_prior, -np.inf)

        rss = np.zeros((len(w), len(log_prior)))
        points = np.zeros((len(w), 1))
        for line in self.lines[column]:
            count = (w[:, line] > 0).sum(axis=1, keepdims=True)
            count = np.where(count < MIN_PAIR_LINE_POINTS, 0, count)
            misfit = misfit_of_pairs(
                self.terms[column][:, line], space.pairs, w[:, line], y[:, line]
            )
            rss += np.where(count > 0, misfit, 0)
            points += count

        log_prior = np.where(points > 0, log_prior, -np.inf)
        score = log_prior - points / 2 * np.log(rss + _score_floor(rss, points))
        best = np.argsort(-score, axis=1, kind="stable")[:, :n_pairs]
        return space.pairs[best], np.take_along_axis(log_prior, best, 1)

    def _select_terms(
        self, column: int, w: FloatArray, y: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """The terms of one parameter that describe the lines of each series best: (s, K).

        With their log prior, -inf where a term is not usable.
        """
        space = self.spaces[column]
        log_prior = np.where(self.is_usable[column], space.log_prior_terms, -np.inf)

        rss = np.zeros((len(w), len(log_prior)))
        points = np.zeros((len(w), 1))
        for line in self.lines[column]:
            count = (w[:, line] > 0).sum(axis=1, keepdims=True)
            count = np.where(count < MIN_LINE_POINTS, 0, count)
            misfit = _misfit(self.terms[column][:, line], w[:, line], y[:, line])
            rss += np.where(count > 0, misfit, 0)
            points += count

        floor = np.maximum(points, 1) * TYPICAL_NOISE**2
        score = log_prior - points / 2 * np.log(rss + floor)
        best = np.argsort(-score, axis=1, kind="stable")[:, : self.n_terms]
        return best, log_prior[best]

    def _score(
        self, design: FloatArray, w: FloatArray, y: FloatArray, log_prior: FloatArray
    ) -> FloatArray:
        """The score of each combination of the plan: (s, h), -inf where it is not possible."""
        first, second = self.plan.pairs.T
        weighted = design * w[:, None, :]
        gram = np.einsum("spn,spn->sp", weighted[:, first], design[:, second])
        right = np.einsum("scn,sn->sc", weighted, y)
        squares = (w * y**2).sum(axis=1)[:, None]
        counts = (w > 0).sum(axis=1)[:, None].astype(float)

        # Normalise the columns to length 1.
        length = np.sqrt(np.maximum(gram[:, self.plan.squares], 1e-300))
        gram = gram / (length[:, first] * length[:, second])
        right = right / length

        residuals = np.full(log_prior.shape, np.inf)
        prices = np.zeros(log_prior.shape[1])
        for family in self.plan.families:
            size = family.columns.shape[1]
            triangle = []
            for row in family.elements:
                triangle.append([gram[:, element] for element in row])
            explained, is_feasible = _solve_normalised(
                triangle, [right[:, column] for column in family.columns.T]
            )
            if family.is_constant:
                is_feasible = np.ones_like(is_feasible)

            rss = np.maximum(squares - explained, 0.0)
            is_possible = is_feasible & (counts >= size)
            residuals[:, family.combinations] = np.where(is_possible, rss, np.inf)
            prices[family.combinations] = LOG_PRICE_OF_COLUMN * size

        floor = _score_floor(residuals, counts)
        return np.asarray(log_prior - prices - counts / 2 * np.log(residuals + floor))


def _scale(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest value of each series with its sign (s,), and the series divided by it (s, n)."""
    values = np.nan_to_num(values)
    largest = np.abs(values).max(axis=1, initial=0.0)
    sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
    scale = sign * np.where(largest > 0, largest, 1.0)
    return scale, values / scale[:, None]


def _space(parameter: str) -> HypothesisSpace:
    return build_hypothesis_space(parameter, weights=MULTI_PARAMETER_WEIGHTS)


def _score_floor(residuals: FloatArray, counts: FloatArray) -> FloatArray:
    """The residual squares that noise leaves at least, for scores: (s, 1).

    Those of typical noise, or of the noise that the best hypothesis leaves where that is less.

    Args:
        residuals: (s, h). counts: (s, 1), of points.
    """
    counts = np.maximum(counts, 1.0)
    smallest: FloatArray = residuals.min(axis=1, keepdims=True) / counts
    return np.asarray(counts * np.clip(smallest, SMALLEST_NOISE**2, TYPICAL_NOISE**2))


def _misfit(terms: FloatArray, w: FloatArray, y: FloatArray) -> FloatArray:
    """Weighted residual sum of squares of constant + term, by term: (s, T)."""
    sum_w = np.maximum(w.sum(axis=1, keepdims=True), 1e-300)
    sum_wy = (w * y).sum(axis=1, keepdims=True)
    mean_t = w @ terms.T / sum_w
    centred_tt = np.maximum(w @ (terms**2).T - mean_t**2 * sum_w, 1e-12 * sum_w)
    centred_ty = (w * y) @ terms.T - mean_t * sum_wy
    centred_yy = (w * y**2).sum(axis=1, keepdims=True) - sum_wy**2 / sum_w
    return np.asarray(np.maximum(centred_yy - centred_ty**2 / centred_tt, 0.0))


def misfit_of_pairs(terms: FloatArray, pairs: IntArray, w: FloatArray, y: FloatArray) -> FloatArray:
    """Return the weighted residual squares of constant + term + term, by pair: (s, P).

    Where a coefficient would be negative, those of the constant and the better term.

    Args:
        terms: (T, n). pairs: (P, 2) of terms. w, y: (s, n).
    """
    first, second = pairs.T
    sum_w = w.sum(axis=1, keepdims=True)
    sum_w = np.where(sum_w > 0, sum_w, 1.0)  # without points, all sums are 0
    sum_wy = (w * y).sum(axis=1, keepdims=True)
    mean_t = w @ terms.T / sum_w
    centred_tt = np.maximum(w @ (terms**2).T - mean_t**2 * sum_w, 1e-12 * sum_w)
    unit = 1 / np.sqrt(centred_tt)
    projected = ((w * y) @ terms.T - mean_t * sum_wy) * unit
    centred_yy = (w * y**2).sum(axis=1, keepdims=True) - sum_wy**2 / sum_w

    cosine = w @ (terms[first] * terms[second]).T - mean_t[:, first] * mean_t[:, second] * sum_w
    cosine *= unit[:, first] * unit[:, second]
    determinant = 1 - cosine**2
    u, v = projected[:, first], projected[:, second]
    a, b = u - cosine * v, v - cosine * u
    is_feasible = (determinant > MIN_DETERMINANT) & (a >= 0) & (b >= 0)

    of_pair = (u * a + v * b) / np.maximum(determinant, MIN_DETERMINANT)
    of_term = np.maximum(np.maximum(u, v), 0.0) ** 2
    explained = np.where(is_feasible, of_pair, of_term)
    return np.asarray(np.maximum(centred_yy - explained, 0.0))


def _solve_normalised(
    triangle: list[list[FloatArray]], right: list[FloatArray]
) -> tuple[FloatArray, np.ndarray]:
    """Solve many normal equations with ones on the diagonal by Gaussian elimination.

    Args:
        triangle: the elements of the lower triangles, row by row. right: the right sides.

    Returns:
        What the solution explains of the sum of squares, and whether columns are independent and
        no coefficient is negative; both in the shape of the elements.
    """
    size = len(right)
    lower, right = [list(row) for row in triangle], list(right)
    determinant, explained = np.ones_like(right[0]), np.zeros_like(right[0])

    pivots = []
    for k in range(size):
        pivot = np.maximum(lower[k][k], 1e-12)
        determinant = determinant * pivot
        pivots.append(pivot)
        explained = explained + right[k] ** 2 / pivot
        factors = [lower[i][k] / pivot for i in range(k + 1, size)]
        for i, factor in enumerate(factors, start=k + 1):
            for j in range(k + 1, i + 1):
                lower[i][j] = lower[i][j] - factor * lower[j][k]
            right[i] = right[i] - factor * right[k]

    is_feasible = determinant > MIN_DETERMINANT
    solution: list[FloatArray] = []  # last coefficient first
    for k in reversed(range(size)):
        rest = right[k]
        for i, value in enumerate(reversed(solution), start=k + 1):
            rest = rest - lower[i][k] * value
        solution.append(rest / pivots[k])
        is_feasible = is_feasible & (solution[-1] >= 0)
    return explained, is_feasible


class _CombinationFits:
    """Least squares of chosen combinations: (s, q, k) columns of the design, -1 for none."""

    def __init__(
        self,
        columns: IntArray,
        design: FloatArray,
        w: FloatArray,
        y: FloatArray,
        *,
        repetitions: FloatArray,
    ) -> None:
        self.columns, self.design = columns, design
        self.w, self.y, self.repetitions = w, y, repetitions

    def weigh(
        self, levels: FloatArray, log_prior: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return estimates, inverse normal equations, and log evidence with the prior."""
        s, q, k = self.columns.shape
        estimates, inverses = np.zeros((s, q, k)), np.zeros((s, q, k, k))
        evidence = np.full((s, q, len(levels)), -np.inf)
        log_invisible = np.log(invisible_prior(levels))

        sizes = (self.columns >= 0).sum(axis=2)
        for size in np.unique(sizes):
            i, j = np.nonzero((sizes == size) & np.isfinite(log_prior))
            if len(i) == 0:
                continue
            columns = self.columns[i, j, :size]
            estimate, inverse, value = self._fit(i, columns, levels)

            # A combination without a constant stands for one whose constant cannot be seen.
            without_constant = (columns[:, 0] != 0)[:, None] * log_invisible
            estimates[i, j, :size] = estimate
            inverses[i, j, :size, :size] = inverse
            evidence[i, j] = value + log_prior[i, j][:, None] + without_constant
        return estimates, inverses, evidence

    def _fit(
        self, rows: IntArray, columns: IntArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Fits of a combinations with equally many columns (a, c) of the series `rows` (a,)."""
        design = self.design[rows[:, None], columns]
        w, y, repetitions = self.w[rows], self.y[rows], self.repetitions[rows]

        root = np.sqrt(w)
        weighted = design * root[:, None, :]
        fits = solve_orthogonally(weighted, root * y)
        variances = np.maximum(np.diagonal(fits.inverse, axis1=1, axis2=2), 1e-300)
        estimate, is_positive = clip_rounding(fits.coefficients, np.sqrt(variances))
        is_feasible = (is_positive.all(axis=1) & fits.is_independent) | (columns.shape[1] == 1)
        fitted = np.einsum("ak,akn->an", estimate, design)

        value = log_evidence(
            levels,
            degrees=(w > 0).sum(axis=1) - float(columns.shape[1]),
            log_determinant=fits.log_determinant,
            estimates=tuple(estimate.T),
            deviations=tuple(np.sqrt(variances).T),
            largest=tuple(np.maximum(weighted.max(axis=2), 1e-300).T),
        )

        # As for one parameter, errors are logarithms of ratios; see posterior._misfit.
        ratio = np.clip(fitted / np.where(y > 0, y, 1.0), MIN_RATIO, 1 / MIN_RATIO)
        has_ratio = (y > 0) & (w * y**2 > MIN_RATIO_SIZE**2 * repetitions)
        misfit = np.where(has_ratio, repetitions * np.log(ratio) ** 2, w * (y - fitted) ** 2)
        value = value - misfit.sum(axis=1)[:, None] / (2 * levels**2)
        return estimate, fits.inverse, np.where(is_feasible[:, None], value, -np.inf)
