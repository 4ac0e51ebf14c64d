"""All series of one parameter on the same points: from their values to one answer each.

`Batch.solve` does the following for each pool of series that share a distribution of noise:

1. learn the distribution of noise levels and the frequency of changes from a sample (`find_pools`);
2. weigh all functions for each whole series (`_solve_whole`), a second time where it is noisy;
3. weigh all segmentations of the series that may change (`_solve_segments`);
4. look for functions through all points of series that are counts (`_solve_exactly`).

Steps 1 to 3 work on chunks of series. An executor may compute the chunks anywhere; chunks are the
same with and without one, and so are the answers, to the last bit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any  # chunks of work are of every kind

import numpy as np

from insitu.modeling.evidence import change_points, newest, noise
from insitu.modeling.evidence.answer import (
    N_HYPOTHESES,
    TARGET_FACTOR,
    Answer,
    Scales,
    choose_answers,
    join_segments,
)
from insitu.modeling.evidence.change_points import ChangePrior, Segmentations
from insitu.modeling.evidence.exact import exact_answer, find_exact_functions
from insitu.modeling.evidence.hypothesis_space import (
    MIN_STEEP_POINTS,
    HypothesisSpace,
    exclude_steep_terms,
)
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.pool import Pool, Suspects, join_suspects, no_answer
from insitu.modeling.evidence.posterior import (
    Posterior,
    compute_posterior,
    fit_hypotheses,
    fitted_mean,
)
from insitu.modeling.evidence.relative_data import scale_errors
from insitu.modeling.evidence.segment import Span
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

CHUNK_SIZE = 256  # series computed at once, so that their arrays stay in the cache
CHUNKS_PER_TASK = 8  # so that sending a task to another machine is worth it
ARENA_SIZE = 3_000_000  # numbers, more than the arrays of a chunk take

SMALLEST_TERM = 1e-60  # terms smaller than this everywhere, or larger than its inverse, are unused
MIN_NOISE_OF_INEXACT = 1e-5  # noise below which the function already goes through all points
NOISY = 0.05  # noise from which it matters what errors are relative to

# Errors are relative to the value, but to no less than a share of the largest value of the series.
ZERO = 1e-9  # share below which a value counts as zero …
SIZE_OF_ZERO = 1e-3  # … and the share that its error is relative to

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]  # has the signature of `map`


class Batch:
    """Series of one parameter with relative errors, scaled terms, and repetitions as weights."""

    def __init__(
        self,
        series: Series,
        metrics: list[str],
        space: HypothesisSpace,
        *,
        n_hypotheses: int = N_HYPOTHESES,
    ) -> None:
        """Scale the series.

        Args:
            series: on n points of one parameter.
            metrics: of each series.
            space: the functions to consider.
            n_hypotheses: how many make up the spread of an answer.
        """
        self.series = replace(series, keys=())  # the metrics are all that is needed of the keys
        self.metrics, self.space = metrics, space
        self.n_hypotheses = n_hypotheses
        self.x = series.coordinates[:, 0]
        is_exponential = bool((space.exponents[:, 2] != 0).any())
        self.examines_newest = len(self.x) >= newest.MIN_POINTS and not is_exponential

        # Values relative to the largest of their series, most of them positive.
        values = np.nan_to_num(series.values)
        largest = np.abs(values).max(axis=1, initial=0.0)
        sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
        self.has_values = largest > 0  # a series of zeros says nothing about noise
        self.scale = sign * np.where(self.has_values, largest, 1.0)
        self.relative = values / self.scale[:, None]
        self.min_size = np.where(np.abs(self.relative) > ZERO, ZERO, SIZE_OF_ZERO)

        # Terms relative to their largest value; NaN where a term cannot be used.
        terms = space.evaluate_terms(self.x)
        with np.errstate(invalid="ignore"):
            size = np.abs(terms).max(axis=1, initial=0.0)
        is_usable = np.isfinite(size) & (size > SMALLEST_TERM) & (size < 1 / SMALLEST_TERM)
        self.term_scale = np.where(is_usable, size, 1.0)
        terms[~is_usable] = np.nan

        is_measured = ~np.isnan(series.values)
        repetitions = noise.effective_repetitions(series.counts)
        self.data = scale_errors(
            terms / self.term_scale[:, None],
            np.where(is_measured, repetitions, 0.0),
            self.relative,
            size=np.maximum(np.abs(self.relative), self.min_size),
        )

    def select(self, rows: IntArray) -> "Batch":
        """Return a batch of some of the series (k,); results do not depend on the others."""
        selected = copy(self)
        selected.series = self.series.select(rows)
        selected.metrics = [self.metrics[row] for row in rows]
        selected.has_values, selected.scale = self.has_values[rows], self.scale[rows]
        selected.relative, selected.min_size = self.relative[rows], self.min_size[rows]
        selected.data = self.data.select(rows)
        return selected

    def solve(self, map_: Map = map) -> dict[int, Answer]:
        """Return the answer of each series, cut into segments where behaviour changes.

        Args:
            map_: applies a function to many chunks of work, here or in other processes.
        """
        # Freed at once: the C library then keeps memory that it would otherwise give back.
        np.empty(ARENA_SIZE)

        answers = dict.fromkeys(range(len(self.scale)), no_answer((self.space.parameter,)))
        for row in np.flatnonzero((self.data.counts > 0) & ~self.has_values).tolist():
            answers[row] = exact_answer(self.space, 0.0, [], [])  # a series of zeros

        for pool in self.find_pools(map_):
            whole, suspects = self._solve_whole(pool, map_)
            answers |= whole
            for row, answer in self._solve_segments(pool, suspects, map_).items():
                if newest.prefers_cut(answer, answers[row], len(self.x)):
                    answers[row] = answer
            if pool.are_counts:
                answers |= self._solve_exactly(pool, answers)
        return answers

    # Step 1: pools.

    def find_pools(self, map_: Map = map) -> list[Pool]:
        """Return the series by metric and by whether they are counts.

        Series that were never measured and series of zeros are left out.
        """
        are_counts = noise.are_counts(self.series.values)
        groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for row in np.flatnonzero((self.data.counts > 0) & self.has_values).tolist():
            groups[self.metrics[row], bool(are_counts[row])].append(row)

        return [
            self._learn_pool(np.array(rows, dtype=np.intp), is_count, map_)
            for (_, is_count), rows in groups.items()
        ]

    def _learn_pool(self, members: IntArray, are_counts: bool, map_: Map) -> Pool:
        """Learn the distribution of noise and the frequency of changes from a sample."""
        levels = noise.COUNT_LEVELS if are_counts else noise.LEVELS
        is_long = len(self.x) >= change_points.MIN_SERIES_POINTS
        sample_size = noise.SAMPLE_SIZE_LONG if is_long else noise.SAMPLE_SIZE
        stride = max(1, -(-len(members) // sample_size))  # rounded up
        sample = members[::stride]

        by_kind = self._log_evidence_by_kind(sample, levels, map_)
        of_all, changes = noise.fit_noise_and_changes(
            by_kind, noise.noise_prior(levels), ChangePrior().probabilities()
        )

        # Each magnitude has a distribution of its own, which starts from that of all.
        likelihood = np.logaddexp.reduce(by_kind + np.log(changes)[:, None, None], axis=0)
        magnitudes = noise.magnitudes(self.series.values)
        distribution = np.empty((len(members), len(levels)))
        for magnitude in np.unique(magnitudes[members]):
            distribution[magnitudes[members] == magnitude] = noise.fit_noise_distribution(
                likelihood[magnitudes[sample] == magnitude],
                of_all,
                prior_weight=noise.POOL_WEIGHT,
            )

        newest_prior = newest.OFF_PRIOR
        if self.examines_newest and not are_counts:
            off = self._weigh_newest(sample, levels)[1].log_evidence
            off += self.log_likelihood_of_scatter(sample, levels)
            newest_prior = newest.learn_prior(off, likelihood, of_all)

        relevant = noise.select_levels(distribution.max(axis=0))
        return Pool(
            members=members,
            levels=levels[relevant],
            noise=distribution[:, relevant],
            change_prior=ChangePrior(*changes.tolist()),
            are_counts=are_counts,
            newest_prior=newest_prior,
        )

    def _log_evidence_by_kind(self, rows: IntArray, levels: FloatArray, map_: Map) -> FloatArray:
        """The evidence of some series by kind of change: (3, s, L), logarithm."""
        tasks = ((self.select(rows[span]), levels) for span in _chunks(len(rows), CHUNK_SIZE))
        by_chunk = list(map_(_weigh_kinds, tasks))
        return np.concatenate(by_chunk, axis=1) + self.log_likelihood_of_scatter(rows, levels)

    def log_likelihood_of_scatter(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        """Return what repetitions say about the noise of these series: (s, L), logarithm."""
        return noise.log_likelihood_of_scatter(
            self.series.deviations[rows], self.series.counts[rows], levels
        )

    # Step 2: one function for each whole series.

    def _solve_whole(self, pool: Pool, map_: Map) -> tuple[dict[int, Answer], Suspects]:
        """Answers of one function for all series of a pool, and which of them may change."""
        spans = list(_chunks(len(pool.members), CHUNK_SIZE * CHUNKS_PER_TASK))
        tasks = ((self.select(pool.members[span]), pool.select(span)) for span in spans)

        answers: dict[int, Answer] = {}
        suspects: list[Suspects] = []
        for span, (in_span, of_span) in zip(spans, map_(_solve_task, tasks), strict=True):
            members = pool.members[span]
            for row, answer in in_span.items():
                answers[int(members[row])] = answer
            suspects.append(Suspects(members[of_span.rows], of_span.noise))
        return answers, join_suspects(suspects)

    def solve_chunk(self, rows: IntArray, pool: Pool) -> tuple[dict[int, Answer], Suspects]:
        """Return answers of one function for some series, and which of these may change.

        Args:
            rows: (s,), members of the pool by position, which is their index in this batch.
        """
        noise_prior = np.exp(self.log_likelihood_of_scatter(rows, pool.levels))
        noise_prior *= pool.noise[rows]
        candidates = fit_hypotheses(self.data.select(rows), self.space, pool.levels)
        posterior = compute_posterior(candidates.log_evidence, noise_prior, pool.levels)

        target = TARGET_FACTOR * self.x[-1]
        found = self._choose(rows, candidates, posterior, target=target)
        answers = dict(zip(rows.tolist(), found, strict=True))

        noisy = np.flatnonzero(posterior.sigma > NOISY)
        if len(noisy):
            mean = fitted_mean(candidates, posterior.hypotheses, self.data.terms)[noisy]
            again = self._solve_noisy(rows[noisy], mean, noise_prior[noisy], pool.levels)
            answers |= dict(zip(rows[noisy].tolist(), again, strict=True))

        suspects = self._find_suspects(rows, posterior, noise_prior, pool)
        if not self.examines_newest or pool.are_counts:
            return answers, suspects

        answers |= self._examine_newest(rows, answers, candidates, noise_prior, pool=pool)
        return answers, suspects

    def _weigh_newest(
        self, rows: IntArray, levels: FloatArray
    ) -> tuple[Candidates, newest.NewestPoint]:
        """Fits of all points but the newest, and the evidence that the newest leaves their law."""
        data = self.data.select(rows)
        before = data.select(slice(None), slice(0, len(self.x) - 1))
        candidates = fit_hypotheses(before, self.space, levels)
        return candidates, newest.weigh_newest_point(data, candidates, levels, self.x)

    def _examine_newest(
        self,
        rows: IntArray,
        answers: dict[int, Answer],
        candidates: Candidates,
        noise_prior: FloatArray,
        *,
        pool: Pool,
    ) -> dict[int, Answer]:
        """Answers of the series whose newest point may be off.

        Args:
            rows: (s,). answers: of one function each, by row. candidates, noise_prior: of the rows.
        """
        noise_prior = change_points.apply_noise_floor(noise_prior, pool.levels)
        of_law, point = self._weigh_newest(rows, pool.levels)
        log_whole = np.logaddexp.reduce(candidates.log_evidence, axis=1)
        log_odds = point.log_odds(log_whole, noise_prior, pool.newest_prior)
        chosen = np.flatnonzero(log_odds > newest.NEGLIGIBLE_LOG_ODDS)
        if len(chosen) == 0:
            return {}

        posterior = compute_posterior(point.log_joint[chosen], noise_prior[chosen], pool.levels)
        target = TARGET_FACTOR * self.x[-1]
        laws = self._choose(rows[chosen], of_law.select(chosen), posterior, target=target)
        combined = newest.combine(
            [answers[row] for row in rows[chosen].tolist()],
            laws,
            point.shifts(chosen, posterior, noise_prior[chosen], count=self.n_hypotheses),
            log_odds=log_odds[chosen],
            log_evidence=point.log_probability(noise_prior, pool.newest_prior)[chosen],
            x=self.x,
            values=self.relative[rows[chosen], -1] * self.scale[rows[chosen]],
        )
        return dict(zip(rows[chosen].tolist(), combined, strict=True))

    def _solve_noisy(
        self, rows: IntArray, mean: FloatArray, noise_prior: FloatArray, levels: FloatArray
    ) -> list[Answer]:
        """Answers with errors relative to the function (s, n), not to values far from it."""
        data = scale_errors(
            self.data.terms,
            self.data.repetitions[rows],
            self.relative[rows],
            size=np.maximum(np.abs(mean), self.min_size[rows]),
        )
        candidates = fit_hypotheses(data, self.space, levels)
        posterior = compute_posterior(candidates.log_evidence, noise_prior, levels)
        return self._choose(rows, candidates, posterior, target=TARGET_FACTOR * self.x[-1])

    def _choose(
        self, rows: IntArray, candidates: Candidates, posterior: Posterior, *, target: float
    ) -> list[Answer]:
        return choose_answers(
            candidates,
            posterior,
            self.space,
            scales=Scales(self.scale[rows], self.term_scale),
            target=float(target),
            n_hypotheses=self.n_hypotheses,
        )

    def _find_suspects(
        self, rows: IntArray, posterior: Posterior, noise_prior: FloatArray, pool: Pool
    ) -> Suspects:
        """Those of the series whose behaviour may change."""
        if len(self.x) < change_points.MIN_SERIES_POINTS:
            return Suspects(rows[:0], noise_prior[:0])

        floored = change_points.apply_noise_floor(noise_prior, pool.levels)
        suspects = change_points.find_suspects(
            self.data.select(rows),
            self.space,
            log_evidence=posterior.log_evidence,
            noise=floored,
            levels=pool.levels,
            log_odds=pool.change_prior.log_odds(),
        )
        return Suspects(rows[suspects], floored[suspects])

    # Step 3: segments.

    def _solve_segments(self, pool: Pool, suspects: Suspects, map_: Map) -> dict[int, Answer]:
        """Answers of those suspects whose behaviour changes."""
        spans = list(_chunks(len(suspects.rows), CHUNK_SIZE))
        without_members = pool.select(slice(0))
        tasks = (
            (self.select(suspects.rows[span]), suspects.noise[span], without_members)
            for span in spans
        )

        answers: dict[int, Answer] = {}
        for span, in_span in zip(spans, map_(_cut_task, tasks), strict=True):
            rows = suspects.rows[span]
            for row, answer in in_span.items():
                answers[int(rows[row])] = answer
        return answers

    def cut(self, noise_prior: FloatArray, pool: Pool) -> dict[int, Answer]:
        """Return answers for those of all series here whose behaviour changes.

        Args:
            noise_prior: (s, L), at the levels of the pool.
        """
        rows = np.arange(len(self.scale))
        is_likely = noise_prior.max(axis=0) > noise.NEGLIGIBLE_PROBABILITY
        noise_prior, levels = noise_prior[:, is_likely], pool.levels[is_likely]
        segmentations = self._weigh(rows, levels, pool.change_prior, several=False)

        # More than one cut costs much more: only where one is not improbable.
        min_points = change_points.min_segment_points(len(self.x))
        if len(self.x) >= 3 * min_points:
            unchanged = segmentations.count_posterior(noise_prior)[0]
            suspected = np.flatnonzero(1 - unchanged > change_points.SEVERAL_SUSPECTED)
            if len(suspected) == 0:
                return {}
            rows, noise_prior = rows[suspected], noise_prior[suspected]
            segmentations = self._weigh(rows, levels, pool.change_prior, several=True)

        return self._cut_detected(rows, segmentations, noise_prior, levels)

    def _weigh(
        self, rows: IntArray, levels: FloatArray, prior: ChangePrior, *, several: bool
    ) -> Segmentations:
        return change_points.weigh_segmentations(
            self.data.select(rows), self.space, levels, x=self.x, prior=prior, several=several
        )

    def _cut_detected(
        self,
        rows: IntArray,
        segmentations: Segmentations,
        noise_prior: FloatArray,
        levels: FloatArray,
    ) -> dict[int, Answer]:
        """Answers of those series in which a change is probable enough."""
        n_points = len(self.x)
        by_count = segmentations.count_posterior(noise_prior)
        log_change = segmentations.log_evidence_of_change(noise_prior)
        detected = np.flatnonzero(1 - by_count[0] > change_points.DETECTED).tolist()

        # Solve equal segments of all series at once.
        cuts_of: dict[int, tuple[list[int], float]] = {}
        members_of: dict[Span, list[int]] = defaultdict(list)
        for i in detected:
            count = 1 + int(np.argmax(by_count[1:, i]))
            cuts_of[i] = segmentations.best_cuts(i, count, noise_prior[i])
            for span in change_points.segment_spans(cuts_of[i][0], n_points):
                members_of[span].append(i)
        segments: dict[tuple[int, Span], Answer] = {}
        for span, members in members_of.items():
            posterior_noise = segmentations.noise_posterior(np.array(members), noise_prior)
            found = self._solve_segment(rows[members], span, posterior_noise, levels)
            for i, answer in zip(members, found, strict=True):
                segments[i, span] = answer

        answers: dict[int, Answer] = {}
        for i, (cuts, probability_of_cuts) in cuts_of.items():
            spans = change_points.segment_spans(cuts, n_points)
            change_probability = float(1 - by_count[0, i]) * probability_of_cuts
            answers[int(rows[i])] = join_segments(
                [segments[i, span] for span in spans], cuts, change_probability
            )._replace(log_evidence=float(log_change[i]))
        return answers

    def _solve_segment(
        self, rows: IntArray, span: Span, noise_prior: FloatArray, levels: FloatArray
    ) -> list[Answer]:
        """Answers on some of the points, with the noise of the whole series (s, L)."""
        start, end = span
        space = self.space
        if end - start < MIN_STEEP_POINTS:
            space = exclude_steep_terms(space)
        candidates = fit_hypotheses(self.data.select(rows, slice(start, end)), space, levels)

        # Normalise at each level: the noise is known from the whole series, not from this segment.
        log_evidence = candidates.log_evidence
        top = log_evidence.max(axis=1, keepdims=True)
        total = np.log(np.exp(log_evidence - top).sum(axis=1)) + top[:, 0]
        posterior = compute_posterior(log_evidence - total[:, None, :], noise_prior, levels)

        is_last = end == len(self.x)
        target = self.x[end - 1] * (TARGET_FACTOR if is_last else 1)
        return self._choose(rows, candidates, posterior, target=target)

    # Step 4: counts.

    def _solve_exactly(self, pool: Pool, answers: dict[int, Answer]) -> dict[int, Answer]:
        """Answers of counts whose points lie on a function that was not found yet."""
        is_complete = (self.series.counts[pool.members] > 0).all(axis=1)
        rows = []
        for row in pool.members[is_complete].tolist():
            spread = answers[row].spreads[0]
            if answers[row].cuts or spread is None or spread.sigma > MIN_NOISE_OF_INEXACT:
                rows.append(row)

        exact = find_exact_functions(self.space, self.x, self.series.values[rows])
        return {rows[i]: answer for i, answer in exact.items()}


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


# Tasks are functions of one argument on module level, so that they can be sent to processes.


def _weigh_kinds(task: tuple[Batch, FloatArray]) -> FloatArray:
    batch, levels = task
    return change_points.log_evidence_by_kind(batch.data, batch.space, levels, x=batch.x)


def _solve_task(task: tuple[Batch, Pool]) -> tuple[dict[int, Answer], Suspects]:
    """Answers of one function for all members of a pool, which are the series of the batch."""
    batch, pool = task
    answers: dict[int, Answer] = {}
    suspects: list[Suspects] = []
    for span in _chunks(len(pool.members), CHUNK_SIZE):
        found, of_chunk = batch.solve_chunk(np.arange(span.start, span.stop), pool)
        answers |= found
        suspects.append(of_chunk)

    return answers, join_suspects(suspects)


def _cut_task(task: tuple[Batch, FloatArray, Pool]) -> dict[int, Answer]:
    batch, noise_prior, pool = task
    return batch.cut(noise_prior, pool)
