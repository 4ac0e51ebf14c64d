"""What the series of a pool share: the noise, and how often behaviour changes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any  # chunks of work are of every kind

import numpy as np

from insitu.modeling.evidence import change_points, earlier, newest, noise
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import ChangePrior, KnownSegments
from insitu.modeling.evidence.held_out import count_left_out
from insitu.modeling.evidence.point_fits import LeftOut, PointFits
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.measurement import FloatArray, IntArray

SMALL_POOL = 32  # series whose fits are all computed at once
CHUNK_SIZE = 256  # series computed at once, so that their arrays stay in the cache

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]  # has the signature of `map`


def find_pools(batch: Batch, map_: Map = map) -> list[Pool]:
    """Return the series by metric and by whether they are counts; see `Batch.pools`."""
    return [
        learn_pool(batch, rows, is_count, map_) for (_, is_count), rows in batch.pools().items()
    ]


def learn_pool(batch: Batch, members: IntArray, are_counts: bool, map_: Map) -> Pool:
    """Learn the distribution of noise and the frequency of changes from a sample."""
    levels = noise.COUNT_LEVELS if are_counts else noise.LEVELS
    is_long = len(batch.x) >= change_points.MIN_SERIES_POINTS
    sample_size = noise.SAMPLE_SIZE_LONG if is_long else noise.SAMPLE_SIZE
    stride = max(1, -(-len(members) // sample_size))  # rounded up
    sample = members[::stride]

    # What is computed for all members of a small pool is not computed again.
    fits, segments = None, None
    if len(members) <= SMALL_POOL:
        fits = fit_small_pool(batch, members, levels, are_counts=are_counts)
        by_kind, segments = _weigh_kinds((batch.select(members), levels))
        by_kind = by_kind + batch.log_likelihood_of_noise(members, levels)
    else:
        by_kind = _log_evidence_by_kind(batch, sample, levels, map_)
    of_all, changes = noise.fit_noise_and_changes(
        by_kind, noise.noise_prior(levels), ChangePrior().probabilities()
    )

    # Each magnitude has a distribution of its own, which starts from that of all.
    likelihood = np.logaddexp.reduce(by_kind + np.log(changes)[:, None, None], axis=0)
    magnitudes = noise.magnitudes(batch.series.values)
    distribution = np.empty((len(members), len(levels)))
    for magnitude in np.unique(magnitudes[members]):
        distribution[magnitudes[members] == magnitude] = noise.fit_noise_distribution(
            likelihood[magnitudes[sample] == magnitude],
            of_all,
            prior_weight=noise.POOL_WEIGHT,
        )

    newest_prior = newest.OFF_PRIOR
    if batch.examines_newest and not are_counts:
        of_sample = fits or PointFits(batch.data.select(sample), batch.space, levels)
        off = weigh_newest(of_sample, batch.x).log_evidence
        off += batch.log_likelihood_of_noise(sample, levels)
        newest_prior = newest.learn_prior(off, likelihood, of_all)

    relevant = noise.select_levels(distribution.max(axis=0))
    return Pool(
        members=members,
        levels=levels[relevant],
        noise=distribution[:, relevant],
        change_prior=ChangePrior(*changes.tolist()),
        are_counts=are_counts,
        newest_prior=newest_prior,
        fits=fits and fits.at_levels(relevant),
        segments=segments,
    )


def _log_evidence_by_kind(
    batch: Batch, rows: IntArray, levels: FloatArray, map_: Map
) -> FloatArray:
    """The evidence of some series by kind of change: (3, s, L), logarithm."""
    distinct = batch.find_distinct(rows)
    firsts = rows[distinct.first]
    tasks = ((batch.select(firsts[span]), levels) for span in chunks(len(firsts), CHUNK_SIZE))
    of_spans = [by_kind for by_kind, _ in map_(_weigh_kinds, tasks)]
    by_kind = np.concatenate(of_spans, axis=1)[:, distinct.group]
    return np.asarray(by_kind + batch.log_likelihood_of_noise(rows, levels))


def fit_small_pool(
    batch: Batch, members: IntArray, levels: FloatArray, *, are_counts: bool
) -> PointFits:
    """Fits of all points and without some of them, as far as they will be needed."""
    n_points = len(batch.x)
    left_out: list[LeftOut] = [()]
    if batch.is_tested or (batch.examines_newest and not are_counts):
        left_out.append((n_points - 1,))
    n_left_out = count_left_out(batch.x)
    if batch.is_tested and n_left_out:
        left_out.append(tuple(range(n_points - n_left_out, n_points)))
    if batch.examines_newest and n_points >= earlier.MIN_POINTS:
        left_out.append((0,))

    fits = PointFits(batch.data.select(members), batch.space, levels)
    if len(left_out) > 1:
        fits.compute(left_out)
    return fits


def weigh_newest(fits: PointFits, x: FloatArray) -> newest.NewestPoint:
    """Return the evidence that the newest point leaves the law of the others."""
    candidates = fits.without((len(x) - 1,))
    return newest.weigh_newest_point(fits.data, candidates, fits.levels, x)


def chunks(count: int, size: int) -> Iterator[slice]:
    """Return the indices of so many things, at most `size` at once."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _weigh_kinds(task: tuple[Batch, FloatArray]) -> tuple[FloatArray, KnownSegments]:
    batch, levels = task
    rows = np.arange(len(batch.scale))
    expected = np.exp(batch.log_likelihood_of_noise(rows, levels)) * noise.noise_prior(levels)
    return change_points.log_evidence_by_kind(
        batch.data,
        batch.space,
        levels,
        x=batch.x,
        noise=expected / expected.sum(axis=1, keepdims=True),
    )
