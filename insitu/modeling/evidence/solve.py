"""All series of one parameter on the same points: from their values to one answer each.

`solve` does the following for each pool of series that share a distribution of noise:

1. learn the distribution of noise levels and the frequency of changes from a sample (`learn.py`);
2. weigh all functions for each whole series, a second time where it is noisy (`whole.py`), and
   again with more noise where the series deviate together (`shared_deviation.py`);
3. weigh all segmentations of the series that may change (`cut.py`);
4. look for functions through all points of series that are counts (`exact.py`);
5. weigh the functions against growth that ends or begins and work that cannot be divided evenly
   (`alternatives.py`), and against local laws by what
   models of the smaller scales missed (`back_test.py`);
6. leave out values that may support a leading term alone (`reliance.py`).

Whole numbers are counts at first. Those that scatter around the functions as measured values do,
such as times in whole milliseconds, go through all steps once more as these.

Steps 1 to 3 work on chunks of series. An executor may compute the chunks anywhere; chunks are the
same with and without one, and so are the answers, to the last bit.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from insitu.modeling.evidence import newest
from insitu.modeling.evidence.alternatives import (
    MIN_SHARE,
    Alternative,
    average_with,
    shares,
    start_answer,
)
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.back_test import apply_back_test
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.cut import cut_series
from insitu.modeling.evidence.division import divided_count
from insitu.modeling.evidence.exact import (
    LEAST_LEVELS,
    MIN_EXACT_POINTS,
    doubt_exact,
    exact_answer,
    find_exact_functions,
)
from insitu.modeling.evidence.learn import CHUNK_SIZE, Map, chunks, find_pools, learn_pool
from insitu.modeling.evidence.noise import LEVELS
from insitu.modeling.evidence.pool import Pool, Suspects, no_answer
from insitu.modeling.evidence.reliance import find_sole_points
from insitu.modeling.evidence.shared_deviation import (
    SMALLEST_VARIANCE,
    find_shared_deviation,
    limit_degrees,
)
from insitu.modeling.evidence.whole import Chunk, join_chunks, repeat_chunk, solve_chunk
from insitu.modeling.measurement import FloatArray, IntArray

CHUNKS_PER_TASK = 8  # so that sending a task to another machine is worth it
ARENA_SIZE = 3_000_000  # numbers, more than the arrays of a chunk take
SHARED_ROUNDS = 4  # of estimating what series share: functions take some of it for growth
SHARED_GROWTH = 1.1  # of its variance in a round, below which it is known
MIN_SAME_CUTS = 0.8  # of the series that change, at the same points, for a change of them all
MIN_SHARED_FREEDOM = 2.0  # degrees, that functions leave in the points
MIN_NOISE_OF_INEXACT = 1e-5  # noise below which the function already goes through all points


def solve_batch(batch: Batch, map_: Map = map) -> dict[int, Answer]:
    """Return the answer of each series, cut into segments where behaviour changes.

    Args:
        map_: applies a function to many chunks of work, here or in other processes.
    """
    # Freed at once: the C library then keeps memory that it would otherwise give back.
    np.empty(ARENA_SIZE)

    answers = dict.fromkeys(range(len(batch.scale)), no_answer((batch.space.parameter,)))
    for row in np.flatnonzero((batch.data.counts > 0) & ~batch.has_values).tolist():
        answers[row] = exact_answer(batch.space, 0.0, [], [])  # a series of zeros

    for pool in find_pools(batch, map_):
        answers |= _solve_pool(batch, pool, answers, map_)
        scattered = _find_scattered(pool, answers)
        if len(scattered):
            measured = batch.with_measured(scattered)
            pool_of_measured = learn_pool(measured, scattered, False, map_)
            answers |= _solve_pool(measured, pool_of_measured, answers, map_)
    return answers


def _solve_pool(
    batch: Batch, first_pool: Pool, before: Mapping[int, Answer], map_: Map
) -> dict[int, Answer]:
    """The answers of all series of a pool; `before` has those of series that it leaves out."""
    shared = _solve_shared(batch, first_pool, map_)
    revised, pool, whole = shared.batch, shared.pool, shared.whole
    answers = {row: before[row] for row in pool.members.tolist()} | whole.answers
    for row, answer in _solve_segments(revised, pool, whole.suspects, map_).items():
        if newest.prefers_cut(answer, answers[row], len(batch.x)):
            answers[row] = answer
    if pool.are_counts:
        answers |= _solve_exactly(batch, pool, answers)
    alternatives = _choose_alternatives(whole, answers)
    for row, chosen in alternatives.items():
        answers[row] = start_answer(answers[row], chosen)
    if whole.held_out is not None:
        answers |= apply_back_test(revised, pool, whole.held_out, answers)
    for row, chosen in alternatives.items():
        for alternative, share in chosen:
            answers[row] = average_with(answers[row], alternative, share)
    answers |= find_sole_points(revised, pool, answers)
    for row in shared.rows.tolist():
        answers[row] = limit_degrees(answers[row], shared.share, len(batch.x))
    return answers


def _find_scattered(pool: Pool, answers: Mapping[int, Answer]) -> IntArray:
    """The whole numbers of a pool that scatter as measured values do, such as times in whole ms.

    Where one value alone leaves what the others have in common, the others are counts.
    """
    rows = []
    for row in pool.members.tolist() if pool.are_counts else ():
        answer = answers[row]
        spread = answer.spreads[-1]
        is_of_one_value = answer.has_point_off() or answer.sole_point >= 0
        if spread is not None and spread.sigma >= LEVELS[0] and not is_of_one_value:
            rows.append(row)
    return np.array(rows, dtype=np.intp)


def _choose_alternatives(
    whole: Chunk, answers: dict[int, Answer]
) -> dict[int, list[tuple[Alternative, float]]]:
    """The alternatives that change predictions, each with its probability, by row."""
    result: dict[int, list[tuple[Alternative, float]]] = {}
    for row, alternatives in whole.alternatives.items():
        pairs = zip(alternatives, shares(alternatives, answers[row]), strict=True)
        chosen = [(alternative, share) for alternative, share in pairs if share > MIN_SHARE]
        if chosen:
            result[row] = chosen
    return result


class _Shared(NamedTuple):
    """A pool whose noise contains the deviation that its series share.

    batch, pool, whole: series, what they share, and their answers of one function. rows: (k,), the
    series that deviate together; none where nothing is shared. share: of the deviation in the
    variance of their noise.
    """

    batch: Batch
    pool: Pool
    whole: Chunk
    rows: IntArray
    share: float


def _solve_shared(batch: Batch, pool: Pool, map_: Map) -> _Shared:
    """Answers of one function for all series of a pool, which may deviate together at each point.

    What series share is part of their noise, but of no use for learning it: however many there
    are, it was drawn once per point, and repetitions do not show it. It stays in the data, since a
    law that all series have and no function describes would look the same. Functions that know
    nothing of it take some of it for growth, so its variance is estimated again from what functions
    leave that know of it.
    """
    members, n_points = pool.members, len(batch.x)
    whole = _solve_whole(batch, pool, map_)
    independent = _Shared(batch, pool, whole, rows=members[:0], share=0.0)
    if pool.are_counts or np.any(batch.x <= 0):
        return independent

    levels = whole.sigmas
    residuals = _residuals(batch, members, whole)
    if find_shared_deviation(residuals, levels, batch.x[:, None]) is None:
        return independent
    changed = _find_common_change(_solve_segments(batch, pool, whole.suspects, map_))
    residuals[np.isin(members, changed)] = np.nan

    result, before = independent, 0.0
    for _ in range(SHARED_ROUNDS):
        deviation = find_shared_deviation(residuals, levels, batch.x[:, None])
        if deviation is None:
            return result
        freedom = _degrees_of_freedom(result.whole, members[deviation.is_shared], n_points)
        variance = float((deviation.logarithms**2).sum()) / freedom
        if variance < SHARED_GROWTH * before:
            return result
        result = _solve_with_deviation(
            batch, pool, members[deviation.is_shared], variance=variance, map_=map_
        )
        residuals, before = _residuals(batch, members, result.whole), variance
    return result


def _find_common_change(cut: dict[int, Answer]) -> list[int]:
    """The series that change, if they change at the same points: that is no deviation of runs.

    Where each is cut elsewhere, or more often, segments may describe what all of them deviate by.

    Args:
        cut: answers of the series that may be cut, by row.
    """
    cuts = Counter(answer.cuts for answer in cut.values())
    if not cuts or cuts.most_common(1)[0][1] < MIN_SAME_CUTS * len(cut):
        return []
    return list(cut)


def _degrees_of_freedom(whole: Chunk, rows: IntArray, n_points: int) -> float:
    """Degrees of freedom that functions leave in the points, in the mean over series (k,).

    Each exponent is chosen by the data, as each coefficient is.
    """
    used = []
    for row in rows.tolist():
        answer = whole.answers[row]
        used.append(answer.columns + len(answer.functions[0].terms))
    return max(n_points - float(np.mean(used)), MIN_SHARED_FREEDOM)


def _solve_with_deviation(
    batch: Batch, pool: Pool, rows: IntArray, *, variance: float, map_: Map
) -> _Shared:
    """Answers where some series (k,) share a deviation of this variance of its logarithm."""
    members = pool.members
    worth, least = batch.worth.with_shared_deviation(rows, variance)
    revised = batch.with_worth(worth)
    least_of_all = np.zeros(len(batch.scale))
    least_of_all[rows] = least
    learnt = learn_pool(revised, members, pool.are_counts, map_)
    learnt = learnt.forget_noise(np.searchsorted(members, rows))
    floored = learnt.with_least_noise(least_of_all[members])
    share = min(1.0, variance / max(float(np.median(least)) ** 2, SMALLEST_VARIANCE))
    return _Shared(revised, floored, _solve_whole(revised, floored, map_), rows, share)


def _residuals(batch: Batch, members: IntArray, whole: Chunk) -> FloatArray:
    """The logarithm of value over function: (s, n); NaN where a point leaves the law.

    Also where an alternative is the law, since series that have it have the same residuals.
    """
    ratio = batch.relative[members] / np.where(whole.means > 0, whole.means, np.nan)
    is_usable = (batch.data.repetitions[members] > 0) & (ratio > 0)
    other = {row for row in whole.alternatives if _has_other_law(whole, row)}
    is_law = [
        row not in other and not whole.answers[row].has_point_off() for row in members.tolist()
    ]
    return np.log(np.where(is_usable & np.array(is_law)[:, None], ratio, np.nan))


def _has_other_law(whole: Chunk, row: int) -> bool:
    """Whether an alternative is more probable than all functions of a series."""
    return sum(shares(whole.alternatives[row], whole.answers[row])) > newest.DETECTED


def _solve_whole(batch: Batch, pool: Pool, map_: Map) -> Chunk:
    """Answers of one function for all series of a pool."""
    distinct = batch.find_distinct(pool.members, pool.noise)
    firsts = pool.members[distinct.first]
    spans = list(chunks(len(firsts), CHUNK_SIZE * CHUNKS_PER_TASK))
    uncut = replace(pool, segments=None)
    tasks = ((batch.select(firsts[span]), uncut.select(distinct.first[span])) for span in spans)
    results = []
    for span, chunk in zip(spans, map_(_solve_task, tasks), strict=True):
        members = firsts[span]
        answers = {int(members[row]): answer for row, answer in chunk.answers.items()}
        suspects = Suspects(members[chunk.suspects.rows], chunk.suspects.noise)
        alternatives = {int(members[row]): found for row, found in chunk.alternatives.items()}
        results.append(
            chunk._replace(answers=answers, suspects=suspects, alternatives=alternatives)
        )
    return repeat_chunk(join_chunks(results, firsts), distinct, pool.members)


def _solve_segments(batch: Batch, pool: Pool, suspects: Suspects, map_: Map) -> dict[int, Answer]:
    """Answers of those suspects whose behaviour changes."""
    distinct = batch.find_distinct(suspects.rows, suspects.noise)
    rows, noise = suspects.rows[distinct.first], suspects.noise[distinct.first]
    spans = list(chunks(len(rows), CHUNK_SIZE))
    tasks = (
        (batch.select(rows[span]), noise[span], _pool_of_cuts(pool, rows[span])) for span in spans
    )

    of_first: dict[int, Answer] = {}
    for span, in_span in zip(spans, map_(_cut_task, tasks), strict=True):
        for row, answer in in_span.items():
            of_first[int(rows[span][row])] = answer

    answers: dict[int, Answer] = {}
    firsts = rows[distinct.group].tolist()
    for row, first in zip(suspects.rows.tolist(), firsts, strict=True):
        if first in of_first:
            answers[row] = of_first[first]
    return answers


def _pool_of_cuts(pool: Pool, rows: IntArray) -> Pool:
    """What cutting some of the series needs to know of their pool."""
    if pool.segments is None:
        return pool.select(slice(0))
    return replace(pool, fits=None).select(np.searchsorted(pool.members, rows))


def _solve_exactly(batch: Batch, pool: Pool, answers: dict[int, Answer]) -> dict[int, Answer]:
    """Answers of counts whose points lie on a function that was not found yet."""
    is_complete = (batch.series.counts[pool.members] > 0).all(axis=1)
    rows = []
    for row in pool.members[is_complete].tolist():
        spread = answers[row].spreads[0]
        if answers[row].cuts or spread is None or spread.sigma > MIN_NOISE_OF_INEXACT:
            rows.append(row)

    members = np.array(rows, dtype=np.intp)
    distinct = batch.find_distinct(members)
    values = batch.series.values[members[distinct.first]]
    exact = find_exact_functions(batch.space, batch.x, values, least_points=LEAST_LEVELS)
    if len(batch.x) < MIN_EXACT_POINTS:
        exact = {i: doubt_exact(answer, batch.x, values[i]) for i, answer in exact.items()}
    for group, row in enumerate(members[distinct.first].tolist()):
        divided = None if group in exact else divided_count(batch, row)
        if divided is not None:
            exact[group] = divided
    groups = zip(rows, distinct.group.tolist(), strict=True)
    return {row: exact[group] for row, group in groups if group in exact}


# Tasks are functions of one argument on module level, so that they can be sent to processes.


def _solve_task(task: tuple[Batch, Pool]) -> Chunk:
    """Answers of one function for all members of a pool, which are the series of the batch."""
    batch, pool = task
    rows = np.arange(len(pool.members))
    results = [solve_chunk(batch, rows[span], pool) for span in chunks(len(rows), CHUNK_SIZE)]
    return join_chunks(results, rows)


def _cut_task(task: tuple[Batch, FloatArray, Pool]) -> dict[int, Answer]:
    batch, noise_prior, pool = task
    return cut_series(batch, noise_prior, pool)
