"""Series on the same points, scaled, with the law of noise of their pools."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple  # Any: tasks are of every kind

import numpy as np

from insitu.modeling.evidence import change_points as change
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import AHEAD, KEPT, Answer, Posterior, Scales, answers, weigh
from insitu.modeling.evidence.exact import exact, through
from insitu.modeling.evidence.hypothesis_space import MIN_STEEP, Lattice, gentle
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import candidates, fitted_mean
from insitu.modeling.evidence.relative_data import relative_data
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function
from insitu.modeling.series import Series

AT_ONCE = 256  # series, so that the arrays of a batch stay in the cache
IN_A_TASK = 8  # times as many, for whoever may work on another machine
ARENA = 3_000_000  # numbers, more than the arrays of a batch take
EXACT = 1e-5  # noise below which a function goes through all points
NOISY = 0.05  # noise from which it matters what errors are relative to
TINY = 1e-60  # terms smaller than this everywhere, or as large, are left out
SMALLEST = 1e-3  # a zero counts as this part of the largest of its series
TRACE = 1e-9  # part of the largest below which a value counts as a zero
Worth = tuple[IntArray, FloatArray]  # series that it is worth to cut, their law of noise


@dataclass(frozen=True, slots=True)
class Pool:
    """Series m that share what is learnt about noise and changes.

    members: (m,), their indices. levels: (L,), those worth computing. law: (m, L), by the size of
    their values.
    """

    members: IntArray
    levels: FloatArray
    law: FloatArray
    habits: change.Habits
    counts: bool

    def part(self, span: slice) -> "Pool":
        """Some of its members, numbered from 0."""
        law = self.law[span]
        return replace(self, members=np.arange(len(law)), law=law)


class Found(NamedTuple):
    """The answers of the segments of one series; one of them where behaviour does not change."""

    answers: tuple[Answer, ...]
    cuts: tuple[int, ...] = ()  # indices of the first points after a change
    probability: float = 0.0  # of a change of behaviour
    place: float = 0.0  # posterior of the cuts, given their number


Named = list[tuple[int, Found]]
Work = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]  # as `map`


class Batch:
    """Series of one parameter, made ready: relative errors, scaled terms, repetitions as
    weights.
    """

    def __init__(
        self,
        series: Series,
        metrics: list[str],
        parameter: str,
        lattice: Lattice,
        *,
        kept_hypotheses: int = KEPT,
    ) -> None:
        self.series, self.metrics = series, metrics
        self.parameter, self.lattice = parameter, lattice
        self.kept_hypotheses = kept_hypotheses
        self.x = series.coordinates[:, 0]
        values = np.nan_to_num(series.values)
        measured = ~np.isnan(series.values)
        largest = np.abs(values).max(axis=1, initial=0.0)
        sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
        self.varied = largest > 0  # zeros tell nothing about noise
        self.scale = sign * np.where(self.varied, largest, 1.0)
        relative = values / self.scale[:, None]
        trust = np.where(measured, noise.weight_of_repetitions(series.counts), 0.0)
        rows = lattice.design(self.x)
        with np.errstate(invalid="ignore"):
            size = np.abs(rows).max(axis=1, initial=0.0)
        usable = np.isfinite(size) & (size > TINY) & (size < 1 / TINY)
        self.terms = np.where(usable, size, 1.0)
        rows[~usable] = np.nan
        self.relative = relative
        rows = rows / self.terms[:, None]
        self.least = np.where(np.abs(relative) > TRACE, TRACE, SMALLEST)
        size = np.maximum(np.abs(relative), self.least)
        self.data = relative_data(rows, trust, relative, size)

    def part(self, rows: IntArray) -> "Batch":
        """The series of these numbers (k,), for whom it is nothing to know the others."""
        part = copy(self)
        part.series = self.series.part(rows)
        part.metrics = [self.metrics[row] for row in rows]
        part.varied, part.scale = self.varied[rows], self.scale[rows]
        part.relative, part.least = self.relative[rows], self.least[rows]
        part.data = self.data.part(rows)
        return part

    def find(self, work: Work = map) -> dict[int, Found]:
        """The answer for each series, cut into segments where behaviour changes.

        Args:
            work: applies a function to many parts of the series, here or elsewhere. Parts are the
                same whoever does it, and so are the answers, to the last bit.
        """
        np.empty(ARENA)  # returned at once: the C library then keeps what it would give back
        nothing = Answer(Function((self.parameter,), np.nan), None, np.nan, 1)
        result = dict.fromkeys(range(len(self.scale)), Found((nothing,)))
        for row in np.flatnonzero((self.data.counts > 0) & ~self.varied).tolist():
            result[row] = Found((through(self.lattice, self.parameter, 0.0, [], []),))
        for pool in self.pools(work):
            worth: list[tuple[IntArray, FloatArray]] = []
            starts = range(0, len(pool.members), AT_ONCE * IN_A_TASK)
            spans = [slice(start, start + AT_ONCE * IN_A_TASK) for start in starts]
            tasks = ((self.part(pool.members[span]), pool.part(span)) for span in spans)
            for span, (found, cut) in zip(spans, work(_uncut, tasks), strict=True):
                rows = pool.members[span]
                result |= {int(rows[i]): one for i, one in found}
                worth += [(rows[some], law) for some, law in cut]
            every, laws = (np.concatenate(part) for part in zip(*worth, strict=True))
            spans = [slice(i, i + AT_ONCE) for i in range(0, len(every), AT_ONCE)]
            bare = pool.part(slice(0))
            cuts = ((self.part(every[span]), laws[span], bare) for span in spans)
            for span, changed in zip(spans, work(_cut_where_it_changes, cuts), strict=True):
                rows = every[span]
                result |= {int(rows[i]): one for i, one in changed}
            if pool.counts:
                result |= self._exact(pool, result)
        return result

    def whole(self, rows: IntArray, law: FloatArray, pool: Pool) -> tuple[Named, Worth]:
        """Answers of one function for series (s,), and which of these it is worth to cut.

        Args:
            law: (L,) of their noise, at the levels of the pool.
        """
        found = candidates(self.data.part(rows), self.lattice, pool.levels)
        posterior = weigh(found.log_evidence, law, pool.levels)
        noisy = np.flatnonzero(posterior.sigma > NOISY)
        made = self._answers(rows, found, posterior, AHEAD * self.x[-1])
        answers_of = list(zip(rows.tolist(), made, strict=True))
        answers_of += self._reweighted(
            rows, noisy, found=found, posterior=posterior, law=law, pool=pool
        )
        worth = self._worth_cutting(rows, posterior, law, pool)
        return [(row, Found((answer,))) for row, answer in answers_of], worth

    def _exact(self, pool: Pool, found: dict[int, Found]) -> dict[int, Found]:
        """Series that count and whose points lie on a function, though not on the one found."""
        full = (self.series.counts[pool.members] > 0).all(axis=1)
        rows = [
            row
            for row in pool.members[full].tolist()
            if found[row].cuts
            or (spread := found[row].answers[0].spread) is None
            or spread.sigma > EXACT
        ]
        lying = exact(self.lattice, self.parameter, self.x, self.series.values[rows])
        return {rows[i]: Found((answer,)) for i, answer in lying.items()}

    def _reweighted(
        self,
        rows: IntArray,
        noisy: IntArray,
        *,
        found: Candidates,
        posterior: Posterior,
        law: FloatArray,
        pool: Pool,
    ) -> list[tuple[int, Answer]]:
        """Answers with errors relative to the function, not to values that are far from it."""
        if len(noisy) == 0:
            return []
        mean = fitted_mean(found, posterior.hypotheses, self.data.rows)[noisy]
        rows, law = rows[noisy], law[noisy]
        size = np.maximum(np.abs(mean), self.least[rows])
        data = relative_data(self.data.rows, self.data.trust[rows], self.relative[rows], size)
        again = candidates(data, self.lattice, pool.levels)
        weighed = weigh(again.log_evidence, law, pool.levels)
        made = self._answers(rows, again, weighed, AHEAD * float(self.x[-1]))
        return list(zip(rows.tolist(), made, strict=True))

    def pools(self, work: Work = map) -> list[Pool]:
        """The series by metric and by whether they count; those never measured and those of
        zeros are left out.
        """
        counted = noise.counted(self.series.values)
        sizes = noise.sizes(self.series.values)
        groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for i in np.flatnonzero((self.data.counts > 0) & self.varied).tolist():
            groups[self.metrics[i], bool(counted[i])].append(i)
        result = []
        for (_, whole), indices in groups.items():
            members = np.array(indices, dtype=np.intp)
            levels = noise.COUNTED if whole else noise.LEVELS
            sample = members[:: max(1, -(-len(members) // self._sample_size()))]
            kinds = self._kinds(sample, levels, work)
            common, shares = noise.learn(kinds, noise.prior(levels), change.Habits().shares())
            likelihood = np.logaddexp.reduce(kinds + np.log(shares)[:, None, None], axis=0)
            law = np.empty((len(members), len(levels)))
            for size in np.unique(sizes[members]):
                of_size = likelihood[sizes[sample] == size]
                law[sizes[members] == size] = noise.law(of_size, common, weight=noise.POOL_WEIGHT)
            keep = noise.worth_computing(law.max(axis=0))
            habits = change.Habits(*shares.tolist())
            result.append(Pool(members, levels[keep], law[:, keep], habits, whole))
        return result

    def _sample_size(self) -> int:
        return noise.SAMPLE if len(self.x) < change.MIN_POINTS else noise.SAMPLE_CUT

    def repetitions(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        """Logarithm of what repetitions say about the noise of these series: (s, L)."""
        return noise.likelihood_of_repetitions(
            self.series.deviations[rows], self.series.counts[rows], levels
        )

    def _kinds(self, rows: IntArray, levels: FloatArray, work: Work) -> FloatArray:
        """Logarithm of the probability of the data of some series, by kind of change: (3, s, L)."""
        tasks = (
            (self.part(rows[start : start + AT_ONCE]), levels)
            for start in range(0, len(rows), AT_ONCE)
        )
        parts = list(work(_kinds_of, tasks))
        return np.concatenate(parts, axis=1) + self.repetitions(rows, levels)

    def _answers(
        self, rows: IntArray, found: Candidates, posterior: Posterior, target: float
    ) -> list[Answer]:
        return answers(
            found,
            posterior,
            self.lattice,
            parameter=self.parameter,
            scales=Scales(self.scale[rows], self.terms),
            target=float(target),
            kept_hypotheses=self.kept_hypotheses,
        )

    def _worth_cutting(
        self, rows: IntArray, whole: Posterior, law: FloatArray, pool: Pool
    ) -> tuple[IntArray, FloatArray]:
        """Those of the series whose behaviour may change, with their law of noise."""
        if len(self.x) < change.MIN_POINTS:
            return rows[:0], law[:0]
        law = change.floored(law, pool.levels)
        worth = change.worth_cutting(
            self.data.part(rows),
            self.lattice,
            whole=whole.evidence,
            law=law,
            levels=pool.levels,
            odds=pool.habits.odds(),
        )
        return rows[worth], law[worth]

    def cut(self, law: FloatArray, pool: Pool) -> Named:
        """Those of all series here whose behaviour changes, by the law of noise (s, L) of each."""
        rows = np.arange(len(self.scale))
        likely = law.max(axis=0) > noise.FAINT
        law, levels = law[:, likely], pool.levels[likely]
        cut = self._partitions(rows, levels, pool.habits, several=False)
        if len(self.x) >= 3 * change.shortest(len(self.x)):
            suspected = np.flatnonzero(1 - cut.changed(law)[0] > change.SUSPECTED)
            if len(suspected) == 0:
                return []
            rows, law = rows[suspected], law[suspected]
            cut = self._partitions(rows, levels, pool.habits, several=True)
        return self._cut(rows, cut, law, levels)

    def _partitions(
        self, rows: IntArray, levels: FloatArray, habits: change.Habits, *, several: bool
    ) -> change.Partitions:
        return change.partitions(
            self.data.part(rows),
            self.lattice,
            levels,
            parameter=self.parameter,
            x=self.x,
            habits=habits,
            several=several,
        )

    def _cut(
        self, rows: IntArray, cut: change.Partitions, law: FloatArray, levels: FloatArray
    ) -> Named:
        """The answers of the segments of those series in which a change is probable enough."""
        n, changed = len(self.x), cut.changed(law)
        chosen: dict[int, tuple[list[int], float]] = {}
        parts: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i in np.flatnonzero(1 - changed[0] > change.DETECTED).tolist():
            chosen[i] = cut.cuts(i, 1 + int(np.argmax(changed[1:, i])), law[i])
            for span in change.bounds(chosen[i][0], n):
                parts[span].append(i)
        made: dict[tuple[int, tuple[int, int]], Answer] = {}
        for span, members in parts.items():
            found = self._segment(rows[members], span, cut.noise(np.array(members), law), levels)
            made |= {(i, span): answer for i, answer in zip(members, found, strict=True)}
        result = []
        for i, (cuts, place) in chosen.items():
            segments = tuple(made[i, span] for span in change.bounds(cuts, n))
            result.append(
                (int(rows[i]), Found(segments, tuple(cuts), float(1 - changed[0, i]), place))
            )
        return result

    def _segment(
        self, rows: IntArray, span: Sequence[int], law: FloatArray, levels: FloatArray
    ) -> list[Answer]:
        """Answers on some of the points; the law of noise is that of the whole series."""
        part = self.data.part(rows, slice(*span))
        few = span[1] - span[0] < MIN_STEEP
        found = candidates(part, gentle(self.lattice) if few else self.lattice, levels)
        top = found.log_evidence.max(axis=1, keepdims=True)
        total = np.log(np.exp(found.log_evidence - top).sum(axis=1)) + top[:, 0]
        posterior = weigh(found.log_evidence - total[:, None, :], law, levels)
        last = span[1] == len(self.x)
        return self._answers(rows, found, posterior, self.x[span[1] - 1] * (AHEAD if last else 1))


def _uncut(task: tuple[Batch, Pool]) -> tuple[Named, list[Worth]]:
    """Answers of one function for a part of a pool."""
    batch, pool = task
    found: Named = []
    cut: list[Worth] = []
    for start in range(0, len(pool.members), AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, len(pool.members)))
        law = np.exp(batch.repetitions(rows, pool.levels))
        law *= pool.law[rows]
        made, worth = batch.whole(rows, law, pool)
        found += made
        cut.append(worth)
    return found, cut


def _cut_where_it_changes(task: tuple[Batch, FloatArray, Pool]) -> Named:
    batch, law, pool = task
    return batch.cut(law, pool)


def _kinds_of(task: tuple[Batch, FloatArray]) -> FloatArray:
    batch, levels = task
    return change.kinds(batch.data, batch.lattice, levels, parameter=batch.parameter, x=batch.x)
