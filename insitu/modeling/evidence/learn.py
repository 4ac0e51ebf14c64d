"""What the series of a pool share: the noise, and how often behaviour changes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any  # chunks of work are of every kind

import numpy as np

from insitu.modeling.evidence import change_points, newest, noise
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import ChangePrior
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.evidence.posterior import fit_hypotheses
from insitu.modeling.measurement import FloatArray, IntArray

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
        off = weigh_newest(batch, sample, levels)[1].log_evidence
        off += batch.log_likelihood_of_scatter(sample, levels)
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


def _log_evidence_by_kind(
    batch: Batch, rows: IntArray, levels: FloatArray, map_: Map
) -> FloatArray:
    """The evidence of some series by kind of change: (3, s, L), logarithm."""
    distinct = batch.find_distinct(rows)
    firsts = rows[distinct.first]
    tasks = ((batch.select(firsts[span]), levels) for span in chunks(len(firsts), CHUNK_SIZE))
    by_kind = np.concatenate(list(map_(_weigh_kinds, tasks)), axis=1)[:, distinct.group]
    return np.asarray(by_kind + batch.log_likelihood_of_scatter(rows, levels))


def weigh_newest(
    batch: Batch, rows: IntArray, levels: FloatArray
) -> tuple[Candidates, newest.NewestPoint]:
    """Fits of all points but the newest, and the evidence that the newest leaves their law."""
    data = batch.data.select(rows)
    before = data.select(slice(None), slice(0, len(batch.x) - 1))
    candidates = fit_hypotheses(before, batch.space, levels)
    return candidates, newest.weigh_newest_point(data, candidates, levels, batch.x)


def chunks(count: int, size: int) -> Iterator[slice]:
    """Return the indices of so many things, at most `size` at once."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _weigh_kinds(task: tuple[Batch, FloatArray]) -> FloatArray:
    batch, levels = task
    rows = np.arange(len(batch.scale))
    expected = np.exp(batch.log_likelihood_of_scatter(rows, levels)) * noise.noise_prior(levels)
    return change_points.log_evidence_by_kind(
        batch.data,
        batch.space,
        levels,
        x=batch.x,
        noise=expected / expected.sum(axis=1, keepdims=True),
    )
