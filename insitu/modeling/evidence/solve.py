"""All series of one parameter on the same points: from their values to one answer each.

`solve` does the following for each pool of series that share a distribution of noise:

1. learn the distribution of noise levels and the frequency of changes from a sample (`learn.py`);
2. weigh all functions for each whole series, a second time where it is noisy (`whole.py`);
3. weigh all segmentations of the series that may change (`cut.py`);
4. look for functions through all points of series that are counts (`exact.py`);
5. weigh the functions against local laws by what models of the smaller scales missed
   (`back_test.py`).

Steps 1 to 3 work on chunks of series. An executor may compute the chunks anywhere; chunks are the
same with and without one, and so are the answers, to the last bit.
"""

import numpy as np

from insitu.modeling.evidence import newest
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.back_test import apply_back_test
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.cut import cut_series
from insitu.modeling.evidence.exact import exact_answer, find_exact_functions
from insitu.modeling.evidence.learn import CHUNK_SIZE, Map, chunks, find_pools
from insitu.modeling.evidence.pool import Pool, Suspects, no_answer
from insitu.modeling.evidence.whole import Chunk, join_chunks, solve_chunk
from insitu.modeling.measurement import FloatArray

CHUNKS_PER_TASK = 8  # so that sending a task to another machine is worth it
ARENA_SIZE = 3_000_000  # numbers, more than the arrays of a chunk take
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
        whole, suspects, held_out = _solve_whole(batch, pool, map_)
        answers |= whole
        for row, answer in _solve_segments(batch, pool, suspects, map_).items():
            if newest.prefers_cut(answer, answers[row], len(batch.x)):
                answers[row] = answer
        if pool.are_counts:
            answers |= _solve_exactly(batch, pool, answers)
        if held_out is not None:
            answers |= apply_back_test(batch, pool, held_out, answers)
    return answers


def _solve_whole(batch: Batch, pool: Pool, map_: Map) -> Chunk:
    """Answers of one function for all series of a pool."""
    spans = list(chunks(len(pool.members), CHUNK_SIZE * CHUNKS_PER_TASK))
    tasks = ((batch.select(pool.members[span]), pool.select(span)) for span in spans)
    results = []
    for span, chunk in zip(spans, map_(_solve_task, tasks), strict=True):
        members = pool.members[span]
        answers = {int(members[row]): answer for row, answer in chunk.answers.items()}
        suspects = Suspects(members[chunk.suspects.rows], chunk.suspects.noise)
        results.append(Chunk(answers, suspects, chunk.held_out))
    return join_chunks(results, pool.members)


def _solve_segments(batch: Batch, pool: Pool, suspects: Suspects, map_: Map) -> dict[int, Answer]:
    """Answers of those suspects whose behaviour changes."""
    spans = list(chunks(len(suspects.rows), CHUNK_SIZE))
    without_members = pool.select(slice(0))
    tasks = (
        (batch.select(suspects.rows[span]), suspects.noise[span], without_members) for span in spans
    )

    answers: dict[int, Answer] = {}
    for span, in_span in zip(spans, map_(_cut_task, tasks), strict=True):
        rows = suspects.rows[span]
        for row, answer in in_span.items():
            answers[int(rows[row])] = answer
    return answers


def _solve_exactly(batch: Batch, pool: Pool, answers: dict[int, Answer]) -> dict[int, Answer]:
    """Answers of counts whose points lie on a function that was not found yet."""
    is_complete = (batch.series.counts[pool.members] > 0).all(axis=1)
    rows = []
    for row in pool.members[is_complete].tolist():
        spread = answers[row].spreads[0]
        if answers[row].cuts or spread is None or spread.sigma > MIN_NOISE_OF_INEXACT:
            rows.append(row)

    exact = find_exact_functions(batch.space, batch.x, batch.series.values[rows])
    return {rows[i]: answer for i, answer in exact.items()}


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
