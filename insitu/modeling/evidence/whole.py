"""One function for each whole series, and what a point that leaves it may be instead."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from insitu.modeling.evidence import change_points, earlier, newest
from insitu.modeling.evidence.alternatives import Alternative
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.division import find_falling, weigh_division
from insitu.modeling.evidence.duplicates import Distinct
from insitu.modeling.evidence.held_out import HeldOut, hold_out
from insitu.modeling.evidence.learn import weigh_newest
from insitu.modeling.evidence.onset import find_beginning, weigh_onset
from insitu.modeling.evidence.point_fits import PointFits
from insitu.modeling.evidence.pool import Pool, Suspects, join_suspects
from insitu.modeling.evidence.posterior import (
    Posterior,
    compute_posterior,
    fit_hypotheses,
    fitted_mean,
)
from insitu.modeling.evidence.relative_data import scale_errors
from insitu.modeling.evidence.saturation import find_slowing, weigh_ending
from insitu.modeling.measurement import FloatArray, IntArray

NOISY = 0.05  # noise from which it matters what errors are relative to
SMALLEST_FUNCTION = 1e-12  # of a value, that its error is relative to: squares stay finite

Alternatives = dict[int, list[Alternative]]


class Chunk(NamedTuple):
    """Answers of one function for s series, which of them may change, and the back-test.

    means: (s, n), posterior mean of the functions, in the units of the data. sigmas: (s,), noise.
    alternatives: hypotheses that are no functions, by row.
    """

    answers: dict[int, Answer]
    suspects: Suspects
    held_out: HeldOut | None
    means: FloatArray
    sigmas: FloatArray
    alternatives: Alternatives


def join_chunks(results: Sequence[Chunk], rows: IntArray) -> Chunk:
    """Return the chunks as one; rows (s,) are the indices of all their series, in order."""
    answers: dict[int, Answer] = {}
    alternatives: Alternatives = {}
    for chunk in results:
        answers |= chunk.answers
        alternatives |= chunk.alternatives

    held_out = [chunk.held_out for chunk in results if chunk.held_out is not None]
    return Chunk(
        answers=answers,
        suspects=join_suspects([chunk.suspects for chunk in results]),
        held_out=HeldOut.join(held_out, rows) if held_out else None,
        means=np.concatenate([chunk.means for chunk in results]),
        sigmas=np.concatenate([chunk.sigmas for chunk in results]),
        alternatives=alternatives,
    )


def repeat_chunk(chunk: Chunk, distinct: Distinct, members: IntArray) -> Chunk:
    """Return the results of the first of each group of equal series as those of all series.

    Args:
        chunk: its rows are those of the first of each group.
        distinct: which series are equal.
        members: (s,), the rows of all series.
    """
    if len(distinct.first) == len(members):
        return chunk
    firsts = members[distinct.first]
    first_of = list(zip(members.tolist(), firsts[distinct.group].tolist(), strict=True))
    suspect = np.full(len(firsts), -1)
    suspect[np.searchsorted(firsts, chunk.suspects.rows)] = np.arange(len(chunk.suspects.rows))
    suspect = suspect[distinct.group]
    suspects = Suspects(members[suspect >= 0], chunk.suspects.noise[suspect[suspect >= 0]])
    held_out = chunk.held_out
    return Chunk(
        answers={row: chunk.answers[first_row] for row, first_row in first_of},
        suspects=suspects,
        held_out=None if held_out is None else held_out.repeat(distinct.group, members),
        means=chunk.means[distinct.group],
        sigmas=chunk.sigmas[distinct.group],
        alternatives={
            row: chunk.alternatives[first_row]
            for row, first_row in first_of
            if first_row in chunk.alternatives
        },
    )


def solve_chunk(batch: Batch, rows: IntArray, pool: Pool) -> Chunk:
    """Return answers of one function for some series.

    Args:
        rows: (s,), members of the pool by position, which is their index in this batch.
    """
    noise_prior = np.exp(batch.log_likelihood_of_noise(rows, pool.levels))
    noise_prior *= pool.noise[rows]
    fits = pool.fits
    if fits is not None and len(rows) < len(pool.members):
        fits = fits.select(rows)
    fits = fits or PointFits(batch.data.select(rows), batch.space, pool.levels)
    candidates = fits.without()
    posterior = compute_posterior(candidates.log_evidence, noise_prior, pool.levels)

    found = batch.choose(rows, candidates, posterior)
    answers = dict(zip(rows.tolist(), found, strict=True))

    means = fitted_mean(candidates, posterior.hypotheses, batch.data.terms)
    noisy = np.flatnonzero(posterior.sigma > NOISY)
    if len(noisy):
        again = _solve_noisy(batch, rows[noisy], means[noisy], noise_prior[noisy], pool.levels)
        answers |= dict(zip(rows[noisy].tolist(), again, strict=True))

    suspects = _find_suspects(batch, rows, posterior, noise_prior, pool)
    alternatives: Alternatives = {}
    if batch.is_tested and not pool.are_counts and not batch.is_exponential:
        alternatives = _weigh_alternatives(
            batch, rows, answers, posterior, noise_prior, levels=pool.levels
        )
    wholes = dict(answers)
    if batch.examines_newest and not pool.are_counts:
        answers |= _examine_newest(batch, rows, wholes, fits, noise_prior, pool=pool)
    if batch.examines_newest:
        for point, members in _points_to_examine(batch, rows, answers).items():
            answers |= _examine_earlier(
                batch,
                rows[members],
                {row: (wholes[row], answers[row]) for row in rows[members].tolist()},
                fits.select(members),
                noise_prior[members],
                pool=pool,
                point=point,
            )

    held_out = hold_out(batch, rows, noise_prior, fits) if batch.is_tested else None
    return Chunk(answers, suspects, held_out, means, posterior.sigma, alternatives)


def _weigh_alternatives(
    batch: Batch,
    rows: IntArray,
    answers: dict[int, Answer],
    posterior: Posterior,
    noise_prior: FloatArray,
    *,
    levels: FloatArray,
) -> Alternatives:
    """The hypotheses that are no functions, of the series whose values look like them.

    Args:
        rows: (s,). answers: of one function each, by row. posterior, noise_prior: of the rows.
    """
    values, counts = batch.relative[rows], batch.data.counts[rows]
    result: dict[int, list[Alternative]] = defaultdict(list)
    for find, weigh in (
        (find_slowing, weigh_ending),
        (find_beginning, weigh_onset),
        (find_falling, weigh_division),
    ):
        chosen = find(batch.x, values, counts)
        if len(chosen) == 0:
            continue
        alternatives = weigh(
            batch,
            rows[chosen],
            noise_prior[chosen],
            levels,
            answers=[answers[row] for row in rows[chosen].tolist()],
            log_evidence=posterior.log_evidence[chosen],
        )
        for i, alternative in alternatives.items():
            result[int(rows[chosen[i]])].append(alternative)
    return dict(result)


def _examine_newest(
    batch: Batch,
    rows: IntArray,
    answers: dict[int, Answer],
    fits: PointFits,
    noise_prior: FloatArray,
    *,
    pool: Pool,
) -> dict[int, Answer]:
    """Answers of the series whose newest point may be off.

    Args:
        rows: (s,). answers: of one function each, by row. fits, noise_prior: of the rows.
    """
    noise_prior = change_points.apply_noise_floor(noise_prior, pool.levels)
    possible = fits.find_possibly_off(
        len(batch.x) - 1,
        noise_prior,
        prior=pool.newest_prior,
        max_density=newest.largest_density(batch.x),
        min_log_odds=newest.NEGLIGIBLE_LOG_ODDS,
    )
    if len(possible) == 0:
        return {}
    rows, fits, noise_prior = rows[possible], fits.select(possible), noise_prior[possible]

    point = weigh_newest(fits, batch.x)
    of_law = fits.without((len(batch.x) - 1,))
    log_whole = np.logaddexp.reduce(fits.without().log_evidence, axis=1)
    log_odds = point.log_odds(log_whole, noise_prior, pool.newest_prior)
    chosen = np.flatnonzero(log_odds > newest.NEGLIGIBLE_LOG_ODDS)
    if len(chosen) == 0:
        return {}

    posterior = compute_posterior(point.log_joint[chosen], noise_prior[chosen], pool.levels)
    laws = batch.choose(rows[chosen], of_law.select(chosen), posterior)
    combined = newest.combine(
        [answers[row] for row in rows[chosen].tolist()],
        laws,
        point.shifts(chosen, posterior, noise_prior[chosen], count=batch.n_hypotheses),
        log_odds=log_odds[chosen],
        log_evidence=point.log_probability(noise_prior, pool.newest_prior)[chosen],
        x=batch.x,
        values=batch.relative[rows[chosen], -1] * batch.scale[rows[chosen]],
    )
    return dict(zip(rows[chosen].tolist(), combined, strict=True))


def _points_to_examine(
    batch: Batch, rows: IntArray, answers: dict[int, Answer]
) -> dict[int, IntArray]:
    """The earlier points that may be off, each with the positions of its series in `rows`.

    The first of six points is always examined, and in series with an odd point that one instead.
    """
    data = batch.data
    is_usable = np.all((data.weights[rows] > 0) & (data.moments[rows] > 0), axis=1)
    odd = earlier.find_odd_points(batch.x, batch.relative[rows], is_usable)
    is_newest_off = np.array([answers[row].has_point_off() for row in rows.tolist()], dtype=bool)
    if len(batch.x) >= earlier.MIN_POINTS:
        odd = np.where((odd < 0) & is_usable & ~is_newest_off, 0, odd)
    return {point: np.flatnonzero(odd == point) for point in np.unique(odd[odd >= 0]).tolist()}


def _examine_earlier(
    batch: Batch,
    rows: IntArray,
    answers: dict[int, tuple[Answer, Answer]],
    fits: PointFits,
    noise_prior: FloatArray,
    *,
    pool: Pool,
    point: int,
) -> dict[int, Answer]:
    """Answers of the series in which an earlier point may be off.

    Args:
        rows: (s,). answers: of one function, and that with the newest point examined, by row.
        fits, noise_prior: of the rows. point: its index.
    """
    noise_prior = change_points.apply_noise_floor(noise_prior, pool.levels)
    possible = fits.find_possibly_off(
        point,
        noise_prior,
        prior=earlier.OFF_PRIOR,
        max_density=earlier.LARGEST_DENSITY,
        min_log_odds=newest.NEGLIGIBLE_LOG_ODDS,
    )
    if len(possible) == 0:
        return {}
    rows, fits, noise_prior = rows[possible], fits.select(possible), noise_prior[possible]

    of_law = fits.without((point,))
    weighed = earlier.weigh_point(fits.data, of_law, pool.levels, point=point)

    log_whole = np.logaddexp.reduce(fits.without().log_evidence, axis=1)
    log_odds = weighed.log_odds(log_whole, noise_prior, earlier.OFF_PRIOR)
    log_evidence = weighed.log_probability(noise_prior, earlier.OFF_PRIOR)
    of_newest = np.array([answers[row][1].log_evidence for row in rows.tolist()])
    chosen = np.flatnonzero(
        (log_odds > newest.NEGLIGIBLE_LOG_ODDS) & (log_evidence > of_newest) & weighed.is_usable
    )
    if len(chosen) == 0:
        return {}

    posterior = compute_posterior(weighed.log_joint[chosen], noise_prior[chosen], pool.levels)
    laws = batch.choose(rows[chosen], of_law.select(chosen), posterior)
    result = {}
    for i, law in zip(chosen.tolist(), laws, strict=True):
        row = int(rows[i])
        result[row] = earlier.combine_earlier(
            answers[row][0],
            law,
            log_odds=float(log_odds[i]),
            log_evidence=float(log_evidence[i]),
            x=batch.x,
            point=point,
            value=float(batch.relative[row, point] * batch.scale[row]),
        )
    return result


def _solve_noisy(
    batch: Batch, rows: IntArray, mean: FloatArray, noise_prior: FloatArray, levels: FloatArray
) -> list[Answer]:
    """Answers with errors relative to the function (s, n), not to values far from it."""
    values = batch.relative[rows]
    size = np.maximum(np.abs(mean), batch.min_size[rows])
    size = np.maximum(size, SMALLEST_FUNCTION * np.abs(values))
    data = scale_errors(batch.data.terms, batch.data.repetitions[rows], values, size=size)
    candidates = fit_hypotheses(data, batch.space, levels)
    posterior = compute_posterior(candidates.log_evidence, noise_prior, levels)
    return batch.choose(rows, candidates, posterior)


def _find_suspects(
    batch: Batch, rows: IntArray, posterior: Posterior, noise_prior: FloatArray, pool: Pool
) -> Suspects:
    """Those of the series whose behaviour may change."""
    if len(batch.x) < change_points.MIN_SERIES_POINTS:
        return Suspects(rows[:0], noise_prior[:0])

    floored = change_points.apply_noise_floor(noise_prior, pool.levels)
    suspects = change_points.find_suspects(
        batch.data.select(rows),
        batch.space,
        log_evidence=posterior.log_evidence,
        noise=floored,
        levels=pool.levels,
        log_odds=pool.change_prior.log_odds(),
    )
    return Suspects(rows[suspects], noise_prior[suspects])
