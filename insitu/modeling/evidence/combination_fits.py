"""Several parameters: evidence of sums and products of the best terms of each parameter.

For each parameter the terms that best describe lines of points, along which only it varies, are
kept. Structures combine one term per parameter, as in Extra-P: t, t + u, t·u, tu + v, and t + t·u,
which a loop with a constant part gives. Each combination has an evidence as in one parameter.
Sparse designs need one line per parameter and a point off the lines for each interaction.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any  # of what pickle keeps

import numpy as np

from insitu.modeling.evidence import noise
from insitu.modeling.evidence.batch import SMALLEST, TINY
from insitu.modeling.evidence.combinations import Plan, plan
from insitu.modeling.evidence.hypothesis_space import FEW, PLAIN, SEVERAL, lattice
from insitu.modeling.evidence.marginal import log_evidence, negligible
from insitu.modeling.evidence.normal_equations import TYPICAL_NOISE
from insitu.modeling.evidence.posterior import SMALLEST_RATIO
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

BEST = {2: 12, 3: 10, 4: 6}  # terms kept per parameter, by the number of parameters
BEST_OF_MANY = {2: 12, 3: 7, 4: 4}  # the same from MANY points on, which tell terms better
MANY = 60  # points
WEIGHED = {2: 32, 3: 128, 4: 128}  # combinations whose evidence is computed
DEPENDENT = 1e-9  # determinant of normalised columns below which they cannot be told apart
MIN_LINE = 3  # points of a line that tells growth
PRICE_OF_COLUMN = 2.0  # logarithm of odds, for the choice of what is weighed
AT_ONCE = 400_000  # numbers in the largest array, so that it stays in the cache


@dataclass(frozen=True, slots=True)
class Weighed:
    """The most probable combinations of some series, q each with k columns at most.

    terms: (s, m, K) indices of the kept terms in the lattices of the m parameters; chosen: (s, q)
    combinations of the plan; estimates: (s, q, k), inverses: (s, q, k, k) of the normal equations,
    zero where a combination has fewer columns; log_evidence: (s, q, L), prior included.
    """

    terms: IntArray
    chosen: IntArray
    estimates: FloatArray
    inverses: FloatArray
    log_evidence: FloatArray


class Table:
    """Series over several parameters in relative form, with the terms of each parameter."""

    def __init__(self, series: Series, parameters: tuple[str, ...]) -> None:
        self.series, self.parameters = series, parameters
        self.lattices = [lattice(name, taste=SEVERAL) for name in parameters]
        values = np.nan_to_num(series.values)
        largest = np.abs(values).max(axis=1, initial=0.0)
        sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
        self.scale = sign * np.where(largest > 0, largest, 1.0)
        self.relative = values / self.scale[:, None]
        trust = noise.weight_of_repetitions(series.counts)
        self.trust = np.where(series.counts > 0, trust, 0.0)
        self.rows, self.sizes, self.usable = [], [], []
        for column, terms in enumerate(self.lattices):
            rows = terms.design(series.coordinates[:, column])
            with np.errstate(invalid="ignore"):
                most = np.abs(rows).max(axis=1, initial=0.0)
            usable = np.isfinite(most) & (most > TINY) & (most < 1 / TINY)
            most = np.where(usable, most, 1.0)
            different = len(np.unique(series.coordinates[:, column]))
            if different <= FEW:
                usable &= terms.exponents[:, 0] <= PLAIN
            self.rows.append(np.where(usable[:, None], rows / most[:, None], 0.0))
            self.sizes.append(most)
            self.usable.append(usable & (different > 1))
        self.lines = [self._lines(column) for column in range(len(parameters))]
        many = len(series.coordinates) >= MANY
        self.kept = (BEST_OF_MANY if many else BEST)[len(parameters)]
        self.plan: Plan = plan(len(parameters), self.kept)

    def part(self, rows: IntArray) -> "Table":
        """The series of these numbers (k,), for whom it is nothing to know the others."""
        part = copy(self)
        part.series = self.series.part(rows)
        part.scale, part.relative = self.scale[rows], self.relative[rows]
        part.trust = self.trust[rows]
        return part

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; plan and lattices are larger than it, and known there."""
        return {name: of for name, of in vars(self).items() if name not in ("plan", "lattices")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lattices = [lattice(name, taste=SEVERAL) for name in self.parameters]
        self.plan = plan(len(self.parameters), self.kept)

    def _lines(self, column: int) -> list[IntArray]:
        """Points that differ in one parameter only."""
        others = np.delete(self.series.coordinates, column, axis=1)
        _, index = np.unique(others, axis=0, return_inverse=True)
        lines = [np.flatnonzero(index.ravel() == i) for i in range(int(index.max()) + 1)]
        return [line for line in lines if len(line) >= MIN_LINE]

    def at_once(self) -> int:
        """How many series to weigh in one call."""
        numbers = len(self.plan.pairs) * len(self.series.coordinates)
        return max(1, AT_ONCE // max(numbers, 1))

    def weigh(
        self,
        members: IntArray,
        levels: FloatArray,
        structures: FloatArray,
        *,
        size: FloatArray | None = None,
    ) -> Weighed:
        """The most probable combinations of some series and their evidence.

        Args:
            members: (s,) indices of the series. structures: (s, n_structures), logarithm of the
                prior of each structure of the plan. size: (s, n) what errors are relative to; the
                values if not given.
        """
        y, trust = self.relative[members], self.trust[members]
        size = np.maximum(np.abs(y) if size is None else size, SMALLEST)
        w = trust / size**2
        kept = [self._best_terms(column, w, y) for column in range(len(self.parameters))]
        terms = np.stack([best for best, _ in kept], axis=1)
        design = self.plan.columns([r[terms[:, i]] for i, r in enumerate(self.rows)])
        prior = self.plan.prior([score for _, score in kept], structures)
        score = self._scores(design, w, y, prior)
        most = min(WEIGHED[len(self.parameters)], score.shape[1])
        chosen = np.argpartition(-score, most - 1, axis=1)[:, :most]
        possible = np.isfinite(np.take_along_axis(score, chosen, 1))
        prior = np.where(possible, np.take_along_axis(prior, chosen, 1), -np.inf)
        fits = _Fits(self.plan.members[chosen], design, w, y, trust)
        return Weighed(terms, chosen, *fits.evidence(levels, prior))

    def _best_terms(self, column: int, w: FloatArray, y: FloatArray) -> tuple[IntArray, FloatArray]:
        """The terms of one parameter that describe the lines of each series best: (s, K).

        With their prior as logarithm, -inf where a term is not usable.
        """
        prior = np.where(self.usable[column], self.lattices[column].singles, -np.inf)
        rss = np.zeros((len(w), len(prior)))
        points = np.zeros((len(w), 1))
        for line in self.lines[column]:
            told = (w[:, line] > 0).sum(axis=1, keepdims=True)
            told = np.where(told < MIN_LINE, 0, told)
            rss += np.where(
                told > 0, _misfit(self.rows[column][:, line], w[:, line], y[:, line]), 0
            )
            points += told
        floor = np.maximum(points, 1) * TYPICAL_NOISE**2
        score = prior - points / 2 * np.log(rss + floor)
        best = np.argsort(-score, axis=1, kind="stable")[:, : self.kept]
        return best, prior[best]

    def _scores(
        self, design: FloatArray, w: FloatArray, y: FloatArray, prior: FloatArray
    ) -> FloatArray:
        """How good each combination of the plan looks: (s, h), -inf where it is not possible."""
        first, second = self.plan.pairs.T
        weighted = design * w[:, None, :]
        gram = np.einsum("spn,spn->sp", weighted[:, first], design[:, second])
        right = np.einsum("scn,sn->sc", weighted, y)
        squares = (w * y**2).sum(axis=1)[:, None]
        measured = (w > 0).sum(axis=1)[:, None]
        root = np.sqrt(np.maximum(gram[:, self.plan.squares], 1e-300))
        gram = gram / (root[:, first] * root[:, second])
        right = right / root
        answer = np.full(prior.shape, -np.inf)
        for family in self.plan.families:
            size = family.columns.shape[1]
            explained, feasible = _eliminated(
                [[gram[:, places] for places in row] for row in family.places],
                [right[:, column] for column in family.columns.T],
            )
            if family.only_constant:
                feasible = np.ones_like(feasible)
            rss = np.maximum(squares - explained, 0.0)
            score = prior[:, family.combinations] - PRICE_OF_COLUMN * size
            score = score - measured / 2 * np.log(rss + measured * TYPICAL_NOISE**2)
            answer[:, family.combinations] = np.where(feasible & (measured >= size), score, -np.inf)
        return answer


def _misfit(rows: FloatArray, w: FloatArray, y: FloatArray) -> FloatArray:
    """Weighted residual sum of squares of constant + term: (s, T), coefficients free."""
    total = np.maximum(w.sum(axis=1, keepdims=True), 1e-300)
    sums = (w * y).sum(axis=1, keepdims=True)
    mean = w @ rows.T / total
    spread = np.maximum(w @ (rows**2).T - mean**2 * total, 1e-12 * total)
    along = (w * y) @ rows.T - mean * sums
    around = (w * y**2).sum(axis=1, keepdims=True) - sums**2 / total
    return np.asarray(np.maximum(around - along**2 / spread, 0.0))


def _eliminated(
    normal: list[list[FloatArray]], right: list[FloatArray]
) -> tuple[FloatArray, np.ndarray]:
    """Solve many normal equations with ones on the diagonal, given by their lower triangles.

    Answers what the solution explains of the sum of squares, and whether columns are independent
    and no coefficient is negative; both in the shape of the elements.
    """
    size = len(right)
    lower = [list(row) for row in normal]
    right = list(right)
    determinant = np.ones_like(right[0])
    explained = np.zeros_like(right[0])
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
    feasible = determinant > DEPENDENT
    solution: list[FloatArray] = []
    for k in reversed(range(size)):
        rest = right[k]
        for i, value in enumerate(reversed(solution), start=k + 1):
            rest = rest - lower[i][k] * value
        solution.append(rest / pivots[k])
        feasible = feasible & (solution[-1] >= 0)
    return explained, feasible


class _Fits:
    """Least squares of chosen combinations: (s, q, k) columns of the design, -1 for none."""

    def __init__(
        self, columns: IntArray, design: FloatArray, w: FloatArray, y: FloatArray, trust: FloatArray
    ) -> None:
        self.columns, self.design = columns, design
        self.w, self.y, self.trust = w, y, trust

    def evidence(
        self, levels: FloatArray, prior: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Estimates, inverse normal equations, logarithm of the evidence with the prior."""
        s, q, k = self.columns.shape
        estimates, inverses = np.zeros((s, q, k)), np.zeros((s, q, k, k))
        answer = np.full((s, q, len(levels)), -np.inf)
        sizes = (self.columns >= 0).sum(axis=2)
        seen = np.log(negligible(levels))
        for size in np.unique(sizes):
            i, j = np.nonzero((sizes == size) & np.isfinite(prior))
            if len(i) == 0:
                continue
            columns = self.columns[i, j, :size]
            estimate, inverse, value = self._of_size(i, columns, levels)
            without = (columns[:, 0] != 0)[:, None] * seen
            estimates[i, j, :size] = estimate
            inverses[i, j, :size, :size] = inverse
            answer[i, j] = value + prior[i, j][:, None] + without
        return estimates, inverses, answer

    def _of_size(
        self, rows: IntArray, columns: IntArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        design = self.design[rows[:, None], columns]
        w, y, trust = self.w[rows], self.y[rows], self.trust[rows]
        root = np.sqrt(w)
        weighted = design * root[:, None, :]
        length = np.sqrt(np.maximum((weighted**2).sum(axis=2), 1e-300))
        unit = weighted / length[:, :, None]
        normal = unit @ unit.transpose(0, 2, 1)
        inverse = np.linalg.inv(normal)
        estimate = (inverse @ (unit @ (root * y)[:, :, None]))[:, :, 0] / length
        inverse = inverse / (length[:, :, None] * length[:, None, :])
        fitted = np.einsum("ak,akn->an", estimate, design)
        missed = w * (y - fitted) ** 2
        value = log_evidence(
            levels,
            degrees=(w > 0).sum(axis=1) - float(columns.shape[1]),
            rss=missed.sum(axis=1),
            log_determinant=np.linalg.slogdet(normal)[1] + 2 * np.log(length).sum(axis=1),
            estimates=tuple(estimate.T),
            deviations=tuple(np.sqrt(np.maximum(np.diagonal(inverse, axis1=1, axis2=2), 1e-300)).T),
            largest=tuple(np.maximum(weighted.max(axis=2), 1e-300).T),
        )
        ratio = np.clip(fitted / np.where(y > 0, y, 1.0), SMALLEST_RATIO, 1 / SMALLEST_RATIO)
        by_ratio = missed - trust * np.log(ratio) ** 2
        change = np.where((w > 0) & (y > SMALLEST), by_ratio, 0.0).sum(axis=1)
        return estimate, inverse, value + change[:, None] / (2 * levels**2)
