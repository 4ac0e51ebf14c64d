"""Models over several parameters from the evidence of combinations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import (
    AHEAD,
    CLOSE,
    FARTHEST,
    HUGE,
    KEPT,
    Answer,
    Posterior,
    expected_distance,
    weigh,
)
from insitu.modeling.evidence.batch import NOISY, Work
from insitu.modeling.evidence.combination_fits import Table, Weighed
from insitu.modeling.evidence.combinations import structures
from insitu.modeling.measurement import FloatArray, IntArray, Points
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

Dependencies = Mapping[CallPath, Sequence[Sequence[str]]]  # parameters that may be multiplied
ROUNDING = 1e-10  # part of the largest term below which a term is none
TOLD = 0.8  # prior of the very products that a call path is said to depend on
SPREAD = 40  # combinations that make up the spread of an answer


def several(
    points: Points, series: Series, dependencies: Dependencies, work: Work = map
) -> list[Answer]:
    """One answer per series over two to four parameters.

    Args:
        points: with the names of their parameters and of the series.
        series: the same, reduced.
        dependencies: for a call path, the sets of parameters that may occur in one term, as in
            {path: [["p"], ["n"]]} for no interaction; call paths not named may have any. The sum
            of just these products is what is expected.
        work: applies a function to many parts, here or elsewhere; answers are the same.
    """
    names = points.parameters
    nothing = Answer(Function(names, np.nan), None, np.nan, 1)
    measured = np.asarray((series.counts > 0).any(axis=1))
    if not measured.any():
        return [nothing] * len(series.values)
    table = Table(series, names)
    priors = _structures(points, len(series.values), dependencies)
    metrics = np.array([key.metric for key in points.keys] or [""] * len(measured))
    counted = noise.counted(series.values)
    found: dict[int, Answer] = {}
    for metric in np.unique(metrics):
        for whole in (False, True):
            members = np.flatnonzero(measured & (counted == whole) & (metrics == metric))
            if len(members):
                levels = noise.COUNTED if whole else noise.LEVELS
                found |= _pool(table, members, priors, levels, work)
    return [found.get(row, nothing) for row in range(len(measured))]


def _structures(points: Points, count: int, dependencies: Dependencies) -> FloatArray:
    """Logarithm of the prior of each structure for each series, by what it may depend on."""
    names = points.parameters
    forms = structures(len(names))
    shares = np.array([share for _, share in forms])
    answer = np.tile(np.log(shares), (count, 1))
    for row, key in enumerate(points.keys):
        told = dependencies.get(key.callpath)
        if told is None:
            continue
        products = [{names.index(name) for name in group if name in names} for group in told]
        possible = [
            all(any(set(group) <= product for product in products) for group in groups)
            for groups, _ in forms
        ]
        weights = np.where(possible, shares, 0.0)
        weights /= weights.sum()
        exact = [
            sorted(map(set, groups), key=sorted) == sorted(products, key=sorted)
            for groups, _ in forms
        ]
        if any(exact):
            weights = (1 - TOLD) * weights + TOLD * np.array(exact, dtype=float)
        answer[row] = np.log(np.maximum(weights, 1e-300))
        answer[row, ~np.array(possible)] = -np.inf
    return answer


def _pool(
    table: Table, members: IntArray, priors: FloatArray, levels: FloatArray, work: Work
) -> dict[int, Answer]:
    """The answers of series that share a law of noise, which a sample of them tells."""
    stride = max(1, -(-len(members) // noise.SAMPLE))
    sample = members[::stride]
    rest = np.setdiff1d(members, sample)
    first = list(_parts(table, sample))
    told = (_Task(table.part(rows), priors[rows], levels) for rows in first)
    weighed = list(work(_weigh, told))
    likelihood = np.concatenate([np.logaddexp.reduce(one.log_evidence, axis=1) for one in weighed])
    likelihood = likelihood + _repetitions(table, sample, levels)
    law = noise.law(likelihood, noise.prior(levels), weight=noise.PRIOR_WEIGHT)
    later = list(_parts(table, rest))
    tasks = (
        _Task(table.part(rows), priors[rows], levels, law, known)
        for rows, known in zip((*first, *later), (*weighed, *(None for _ in later)), strict=True)
    )
    found: dict[int, Answer] = {}
    for rows, made in zip((*first, *later), work(_answers, tasks), strict=True):
        found |= dict(zip(rows.tolist(), made, strict=True))
    return found


@dataclass(frozen=True, slots=True)
class _Task:
    """Some series of a pool: their table and priors, the law of noise once it is known, what was
    weighed already."""

    table: Table
    priors: FloatArray
    levels: FloatArray
    law: FloatArray | None = None
    weighed: Weighed | None = None


def _weigh(task: _Task) -> Weighed:
    rows = np.arange(len(task.priors))
    return task.table.weigh(rows, task.levels, task.priors)


def _answers(task: _Task) -> list[Answer]:
    """Weigh the series if that was not done yet, and again those that are noisy, with errors
    relative to their function."""
    table, levels = task.table, task.levels
    rows = np.arange(len(task.priors))
    laws = np.exp(_repetitions(table, rows, levels)) * task.law
    answers = _Answers(table, rows, task.weighed or _weigh(task), laws, levels)
    made = answers.make()
    noisy = np.flatnonzero(answers.posterior.sigma > NOISY)
    if len(noisy):
        size = np.abs(answers.mean()[noisy])
        again = table.weigh(noisy, levels, task.priors[noisy], size=size)
        answers = _Answers(table, noisy, again, laws[noisy], levels)
        for row, answer in zip(noisy.tolist(), answers.make(), strict=True):
            made[row] = answer
    return made


def _parts(table: Table, members: IntArray) -> Iterator[IntArray]:
    step = table.at_once()
    return (members[start : start + step] for start in range(0, len(members), step))


def _repetitions(table: Table, rows: IntArray, levels: FloatArray) -> FloatArray:
    series = table.series
    return noise.likelihood_of_repetitions(series.deviations[rows], series.counts[rows], levels)


class _Answers:
    """From the combinations of some series to one function each, and its spread."""

    def __init__(
        self,
        table: Table,
        rows: IntArray,
        weighed: Weighed,
        law: FloatArray,
        levels: FloatArray,
    ) -> None:
        posterior: Posterior = weigh(weighed.log_evidence, law, levels)
        order = np.argsort(-posterior.hypotheses, axis=1, kind="stable")
        self.table, self.rows, self.posterior, self.terms = table, rows, posterior, weighed.terms
        self.weights = np.take_along_axis(posterior.hypotheses, order, 1)
        self.chosen = np.take_along_axis(weighed.chosen, order, 1)
        self.columns = table.plan.members[self.chosen]
        self.estimates = np.take_along_axis(weighed.estimates, order[:, :, None], 1)
        self.inverses = np.take_along_axis(weighed.inverses, order[:, :, None, None], 1)

    def mean(self) -> FloatArray:
        """The posterior mean of the function at each point, relative: (s, n)."""
        rows = [r[self.terms[:, i]] for i, r in enumerate(self.table.rows)]
        values = self._values(self.table.plan.columns(rows))
        mean = np.einsum("sq,sqk,sqkn->sn", self.weights, self.estimates, values)
        return np.asarray(mean)

    def _values(self, design: FloatArray) -> FloatArray:
        """The columns of each combination: (s, q, k, n), zero where it has none."""
        padded = np.concatenate([design, np.zeros_like(design[:, :1])], axis=1)
        return np.asarray(padded[np.arange(len(design))[:, None, None], self.columns])

    def make(self) -> list[Answer]:
        chosen, agreement = self._choose()
        spreads = self._spreads()
        answers = []
        for i, k in enumerate(chosen.tolist()):
            columns = int((self.columns[i, k] >= 0).sum())
            answers.append(Answer(self._function(i, k), spreads[i], float(agreement[i]), columns))
        return answers

    def _choose(self) -> tuple[IntArray, FloatArray]:
        """The combination in whose terms and prediction most probability agrees."""

        table = self.table
        target = AHEAD * table.series.coordinates.max(axis=0)
        rows = []
        for i, terms in enumerate(table.lattices):
            at = terms.design(target[i : i + 1])[:, 0] / table.sizes[i]
            rows.append(np.where(np.abs(at) < HUGE, at, 0.0)[self.terms[:, i], None])
        at = self._values(table.plan.columns(rows))[..., 0]
        predicted = (at * self.estimates).sum(axis=2)
        variance = np.einsum("sqk,sqkl,sql->sq", at, self.inverses, at)
        deviation = np.sqrt(np.maximum(variance, 0.0)) * self.posterior.sigma[:, None]
        deviation = np.maximum(deviation, 1e-9 * np.abs(predicted) + 1e-300)
        keys = table.plan.keys[self.chosen]
        tried = slice(0, KEPT)
        agree = ((keys[:, tried, None] == keys[:, None, :]) * self.weights[:, None, :]).sum(axis=2)
        centre = predicted[:, tried, None]
        distance = (centre - predicted[:, None, :]) / deviation[:, None, :]
        width = CLOSE * np.abs(centre) / deviation[:, None, :]
        from scipy.special import ndtr  # 0.2 s, which one parameter does not need

        near = ndtr(distance + width) - ndtr(distance - width)
        near = (self.weights[:, None, :] * near).sum(axis=2)
        gain = agree + near - expected_distance(predicted, self.weights, KEPT)
        chosen = np.argmax(np.where(self.weights[:, tried] > 0, gain, -FARTHEST), axis=1)
        return chosen, np.take_along_axis(agree, chosen[:, None], 1)[:, 0]

    def _function(self, i: int, k: int) -> Function:
        table = self.table
        shares = np.abs(self.estimates[i, k])
        estimates = np.where(shares > ROUNDING * shares.max(), self.estimates[i, k], 0.0)
        values = (estimates * self._scales(i, k)).tolist()
        constant, terms = 0.0, []
        for column, value in zip(self.columns[i, k].tolist(), values, strict=True):
            if column == 0:
                constant = value
            elif column > 0 and value != 0:
                shape = tuple(
                    table.lattices[p].shapes[self.terms[i, p, slot]][0]
                    for p, slot in table.plan.factors[column]
                )
                terms.append(Term(value, shape))
        return Function(table.parameters, constant, tuple(terms))

    def _scales(self, i: int, k: int) -> FloatArray:
        """What turns coefficients of scaled columns into those of the data."""
        table = self.table
        sizes = [
            np.prod([1 / table.sizes[p][self.terms[i, p, slot]] for p, slot in factors])
            for factors in (table.plan.factors[column] for column in self.columns[i, k])
        ]
        return np.asarray(np.array(sizes) * table.scale[self.rows[i]])

    def _spreads(self) -> list[Spread]:
        """The most probable combinations of each series, in the units of the data."""
        table, plan, count = self.table, self.table.plan, SPREAD
        columns = self.columns[:, :count]
        s, q, k = columns.shape
        m = len(table.parameters)
        first = (columns[:, :, 0] == 0).astype(np.intp)
        exponents = np.zeros((s, q, k, m, 3))
        scales = np.ones((s, q, k))
        slots = plan.column_slots[columns]
        for p in range(m):
            terms = self.terms[np.arange(s)[:, None, None], p, slots[..., p]]
            used = slots[..., p] >= 0
            exponents[..., p, :] = np.where(used[..., None], table.lattices[p].exponents[terms], 0)
            scales /= np.where(used, table.sizes[p][terms], 1.0)
        scales *= table.scale[self.rows][:, None, None]
        coefficients = self.estimates[:, :count] * scales
        covariances = self.inverses[:, :count] * scales[..., :, None] * scales[..., None, :]
        covariances *= self.posterior.sigma[:, None, None, None] ** 2
        without = first == 0
        shifted = _shifted(coefficients, covariances, exponents, without)
        weights = self.weights[:, :count] / self.weights[:, :count].sum(axis=1, keepdims=True)
        return [
            Spread(
                shifted[2][i],
                shifted[0][i],
                shifted[1][i],
                weights[i],
                float(self.posterior.sigma[i]),
                float(self.posterior.degrees[i]),
            )
            for i in range(s)
        ]


def _shifted(
    coefficients: FloatArray,
    covariances: FloatArray,
    exponents: FloatArray,
    without: np.ndarray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same with a place for the constant first in all combinations, then their terms."""
    s, q, k = coefficients.shape
    values, spread = np.zeros((s, q, k + 1)), np.zeros((s, q, k + 1, k + 1))
    shape = np.zeros((s, q, k, *exponents.shape[3:]))
    values[:, :, :k], spread[:, :, :k, :k] = coefficients, covariances
    shape[:, :, : k - 1] = exponents[:, :, 1:]
    values[without] = 0.0
    spread[without] = 0.0
    values[without, 1:] = coefficients[without]
    spread[without, 1:, 1:] = covariances[without]
    shape[without] = exponents[without]
    return values, spread, shape
