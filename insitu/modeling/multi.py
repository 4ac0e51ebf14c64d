"""Several parameters: evidence of sums and products of the best terms of each parameter.

For each parameter the terms that best describe lines of points, along which only it varies, are
kept. Structures combine one term per parameter, as in Extra-P: t, t + u, t·u, tu + v, and t + t·u,
which a loop with a constant part gives. Each combination has an evidence as in one parameter.
Sparse designs need one line per parameter and a point off the lines for each interaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from insitu.measurement import FloatArray, IntArray
from insitu.modeling import noise
from insitu.modeling.batch import SMALLEST, TINY
from insitu.modeling.lattice import SEVERAL, lattice
from insitu.modeling.marginal import log_evidence, negligible
from insitu.modeling.noise import BoolArray
from insitu.modeling.posterior import TYPICAL_NOISE
from insitu.modeling.series import Series

BEST = {2: 12, 3: 7, 4: 4}  # terms kept per parameter, by the number of parameters
WEIGHED = 32  # combinations whose evidence is computed
PRIOR_OF_CONSTANT = 0.1
DEPENDENT = 1e-9  # determinant of normalised columns below which they cannot be told apart
MIN_LINE = 3  # points of a line that tells growth

Groups = tuple[tuple[int, ...], ...]  # parameters that make up each product of a structure


@dataclass(frozen=True, slots=True)
class Weighed:
    """Combinations of one series and their evidence.

    terms: per combination, per product, (parameter, index in its lattice); constants: whether the
    combination has a constant; estimates and inverse normal equations per combination, constant
    first; log_evidence: (h, L), prior included.
    """

    terms: list[tuple[tuple[tuple[int, int], ...], ...]]
    constants: list[bool]
    estimates: list[FloatArray]
    inverses: list[FloatArray]
    log_evidence: FloatArray


@lru_cache(maxsize=16)
def structures(count: int) -> tuple[tuple[Groups, float], ...]:
    """Ways to combine one term per parameter, with their prior: (products, probability)."""
    found: dict[Groups, float] = {(): PRIOR_OF_CONSTANT}
    share = (1 - PRIOR_OF_CONSTANT) / count
    for size in range(1, count + 1):
        subsets = list(combinations(range(count), size))
        for subset in subsets:
            forms = [*_partitions(subset), *_nested(subset)]
            for form in forms:
                found[form] = share / len(subsets) / len(forms)
    return tuple(found.items())


def _partitions(items: tuple[int, ...]) -> list[Groups]:
    if not items:
        return [()]
    first, answer = items[0], []
    for groups in _partitions(items[1:]):
        answer.append(((first,), *groups))
        for i, group in enumerate(groups):
            answer.append((*groups[:i], (first, *group), *groups[i + 1 :]))
    return answer


def _nested(subset: tuple[int, ...]) -> list[Groups]:
    return [((one,), subset) for one in subset] if len(subset) == 2 else []


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
        weights = noise.weight_of_repetitions(series.counts)
        size = np.maximum(np.abs(self.relative), SMALLEST)
        self.weights = np.where(series.counts > 0, weights / size**2, 0.0)
        self.rows, self.sizes = [], []
        for column, terms in enumerate(self.lattices):
            rows = terms.design(series.coordinates[:, column])
            with np.errstate(invalid="ignore"):
                most = np.abs(rows).max(axis=1, initial=0.0)
            usable = np.isfinite(most) & (most > TINY) & (most < 1 / TINY)
            most = np.where(usable, most, 1.0)
            self.rows.append(np.where(usable[:, None], rows / most[:, None], np.nan))
            self.sizes.append(most)
        self.lines = [self._lines(column) for column in range(len(parameters))]

    def _lines(self, column: int) -> list[IntArray]:
        """Points that differ in one parameter only."""
        others = np.delete(self.series.coordinates, column, axis=1)
        _, index = np.unique(others, axis=0, return_inverse=True)
        lines = [np.flatnonzero(index.ravel() == i) for i in range(int(index.max()) + 1)]
        return [line for line in lines if len(line) >= MIN_LINE]

    def best_terms(self, row: int, column: int, allowed: bool) -> list[int]:
        """The terms of one parameter that describe the lines of one series best."""
        terms = self.lattices[column]
        rows = self.rows[column]
        usable = np.isfinite(rows).all(axis=1)
        varies = len(np.unique(self.series.coordinates[:, column])) > 1
        if not allowed or not varies:
            return []
        score = np.where(usable, terms.singles, -np.inf)
        if self.lines[column]:
            rss = np.zeros(len(rows))
            points = 0
            for line in self.lines[column]:
                w, y = self.weights[row, line], self.relative[row, line]
                if (w > 0).sum() < MIN_LINE:
                    continue
                rss += _misfit(np.nan_to_num(rows[:, line]), w, y)
                points += int((w > 0).sum())
            score = score - points / 2 * np.log(rss + max(points, 1) * TYPICAL_NOISE**2)
        order = np.argsort(-score, kind="stable")[: BEST[len(self.parameters)]]
        return [int(i) for i in order if np.isfinite(score[i])]

    def weigh(self, row: int, levels: FloatArray, allowed: Sequence[BoolArray]) -> Weighed:
        """The most probable combinations of one series and their evidence.

        Args:
            allowed: products that may occur, each as (n_parameters,) of the parameters in it.
        """
        count = len(self.parameters)
        may = [any(bool(group[i]) for group in allowed) for i in range(count)]
        terms = [self.best_terms(row, i, may[i]) for i in range(count)]
        columns = _Columns(self, row)
        hypotheses: dict[int, list[tuple[tuple[int, ...], float]]] = {}
        for groups, probability in structures(count):
            if not all(_within(group, allowed) for group in groups):
                continue
            used = sorted({i for group in groups for i in group})
            for choice in product(*(terms[i] for i in used)):
                chosen = dict(zip(used, choice, strict=True))
                prior = np.log(probability) + sum(
                    float(self.lattices[i].singles[term]) for i, term in chosen.items()
                )
                indices = tuple(
                    columns.of(tuple((i, chosen[i]) for i in group)) for group in groups
                )
                hypotheses.setdefault(len(indices) + 1, []).append(((0, *indices), prior))
                if indices:
                    hypotheses.setdefault(len(indices), []).append((indices, prior))
        return columns.weigh(hypotheses, levels)


def _misfit(rows: FloatArray, w: FloatArray, y: FloatArray) -> FloatArray:
    """Weighted residual sum of squares of constant + term for each term, coefficients free."""
    total = w.sum()
    mean, level = rows @ w / total, float(w @ y / total)
    centred = rows - mean[:, None]
    spread = np.maximum((centred**2) @ w, 1e-12)
    along = centred @ (w * (y - level))
    return np.asarray(np.maximum(float(w @ (y - level) ** 2) - along**2 / spread, 0.0))


def _within(group: tuple[int, ...], allowed: Sequence[BoolArray]) -> bool:
    return any(all(bool(product[i]) for i in group) for product in allowed)


class _Columns:
    """Products of terms of one series, and least squares of many subsets of them."""

    def __init__(self, table: Table, row: int) -> None:
        self.table = table
        self.w, self.y = table.weights[row], table.relative[row]
        self.known: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        self.values = [np.ones(len(self.y))]

    def of(self, factors: tuple[tuple[int, int], ...]) -> int:
        """The index of a product of terms (parameter, index in its lattice)."""
        index = self.known.get(factors)
        if index is None:
            index = self.known[factors] = len(self.values)
            value = np.ones(len(self.y))
            for parameter, term in factors:
                value = value * self.table.rows[parameter][term]
            self.values.append(value)
        return index

    def weigh(
        self, hypotheses: dict[int, list[tuple[tuple[int, ...], float]]], levels: FloatArray
    ) -> Weighed:
        design = np.array(self.values)
        gram = (design * self.w) @ design.T
        right = design @ (self.w * self.y)
        squares = float(self.w @ self.y**2)
        measured = int((self.w > 0).sum())
        root = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        found = []
        for size, members in hypotheses.items():
            if size > measured:
                continue
            chosen = np.array([indices for indices, _ in members], dtype=np.intp)
            prior = np.array([prior for _, prior in members])
            normal = gram[chosen[:, :, None], chosen[:, None, :]]
            scale = root[chosen]
            normal = normal / (scale[:, :, None] * scale[:, None, :])
            regular = np.linalg.det(normal) > DEPENDENT
            normal[~regular] = np.eye(size)
            coefficients = np.linalg.solve(normal, (right[chosen] / scale)[..., None])[..., 0]
            rss = np.maximum(squares - (coefficients * right[chosen] / scale).sum(axis=1), 0.0)
            only_constant = (chosen == 0).all(axis=1)
            feasible = regular & ((coefficients >= 0).all(axis=1) | only_constant)
            score = prior - measured / 2 * np.log(rss + measured * TYPICAL_NOISE**2)
            score -= 2.0 * size
            found += [
                (float(score[i]), chosen[i], float(prior[i]), float(rss[i]))
                for i in np.flatnonzero(feasible)
            ]
        found.sort(key=lambda one: -one[0])
        return self._evidence(found[:WEIGHED], gram, right, measured, levels)

    def _evidence(
        self,
        found: list[tuple[float, IntArray, float, float]],
        gram: FloatArray,
        right: FloatArray,
        measured: int,
        levels: FloatArray,
    ) -> Weighed:
        names = list(self.known)
        relative = np.sqrt(self.w) * np.array(self.values)
        largest = np.maximum(relative.max(axis=1), 1e-300)
        seen = np.log(negligible(levels))
        evidence, terms, constants = [], [], []
        estimates: list[FloatArray] = []
        inverses: list[FloatArray] = []
        for _, chosen, prior, rss in found:
            normal = gram[np.ix_(chosen, chosen)]
            inverse: FloatArray = np.asarray(np.linalg.inv(normal), dtype=np.float64)
            estimate = inverse @ right[chosen]
            has_constant = bool(chosen[0] == 0)
            value = log_evidence(
                levels,
                degrees=np.array(float(measured - len(chosen))),
                rss=np.array(rss),
                log_determinant=np.array(np.linalg.slogdet(normal)[1]),
                estimates=tuple(np.asarray(one) for one in estimate),
                deviations=tuple(np.sqrt(np.maximum(np.diag(inverse), 1e-300))),
                largest=tuple(largest[chosen]),
            )
            evidence.append(value + prior + (0.0 if has_constant else seen))
            estimates.append(estimate)
            inverses.append(inverse)
            constants.append(has_constant)
            terms.append(tuple(names[i] for i in chosen if i != 0))
        return Weighed(terms, constants, estimates, inverses, np.array(evidence))
