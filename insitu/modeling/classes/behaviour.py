"""The behaviour classes of one metric in all runs, with the series that models are made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, Finding, Metric
from insitu.modeling.base import Clusters
from insitu.modeling.classes.cluster import class_means, cluster
from insitu.modeling.classes.match import (
    ALL,
    Matching,
    match_equal,
    report_unequal_counts,
    unmatched_names,
)
from insitu.modeling.classes.run_groups import RunGroup, mean_over_runs
from insitu.modeling.measurement import FloatArray, IntArray, SeriesKey


@dataclass(frozen=True, slots=True)
class MetricValues:
    """One metric of several call paths.

    tables: per run (n_paths, n_ranks), NaN where there is no value; places: which runs repeat each
    other.
    """

    metric: Metric
    paths: Sequence[CallPath]
    tables: Sequence[FloatArray]
    groups: Sequence[RunGroup]


@dataclass(frozen=True, slots=True)
class Partition:
    """Which ranks behave alike, and as what.

    labels: per place (n_paths, n_ranks), the cluster of each rank, -1 where it has no value;
    matchings: per call path which cluster is which class.
    """

    labels: Sequence[IntArray]
    matchings: Sequence[Matching]
    findings: Sequence[Finding]


def partition_by_distance(measured: MetricValues, threshold: float) -> Partition:
    """Cluster by relative distance, match where numbers agree: as the paper does [CLU §III-B].

    Repetitions are averaged per rank before they are clustered.
    """
    labels = [
        cluster(mean_over_runs([measured.tables[run] for run in place.runs]), threshold)
        for place in measured.groups
    ]
    counts = count_clusters(labels, len(measured.paths))
    coordinates = [place.coordinate for place in measured.groups]
    known: dict[tuple[int, ...], Matching] = {}
    matchings = []
    for row in map(tuple, counts.tolist()):
        if row not in known:
            known[row] = match_equal(row, coordinates)
        matchings.append(known[row])
    return Partition(labels, matchings, [])


def report_unmatched(measured: MetricValues, partition: Partition) -> list[Finding]:
    """Tell of the call paths of which not every run could be matched."""
    counts = count_clusters(partition.labels, len(measured.paths)).tolist()
    keys = [place.key for place in measured.groups]
    name = measured.metric.name
    return [
        report_unequal_counts(path, name, runs=keys, counts=row, matching=matching)
        for path, row, matching in zip(measured.paths, counts, partition.matchings, strict=True)
        if not matching.is_complete
    ]


def count_clusters(labels: Sequence[IntArray], n_paths: int) -> IntArray:
    """Number of clusters: (n_paths, n_places), 0 where there is no value."""
    highest = [one.max(axis=1, initial=-1) for one in labels]
    counts: IntArray = np.array(highest, dtype=np.intp).reshape(len(labels), n_paths).T + 1
    return counts


def reduce_classes(
    measured: MetricValues, partition: Partition
) -> tuple[dict[SeriesKey, FloatArray], list[Clusters]]:
    """Reduce each class to its mean per run, and return the class of every rank.

    Returns:
        The series that models are made of, values (n_runs,) by key, NaN where nothing was measured;
        and the clusters of each call path at each coordinate.
    """
    counts = count_clusters(partition.labels, len(measured.paths))
    values = _class_values(measured, partition)
    everywhere = _mean_values(measured)
    series: dict[SeriesKey, FloatArray] = {}
    clusters: list[Clusters] = []
    narrow = [at_place.astype(np.int32) for at_place in partition.labels]
    for row, path in enumerate(measured.paths):
        if not counts[row].any():
            continue
        matching = partition.matchings[row]
        series |= _series(path, measured.metric, matching, values[row], everywhere[row])
        for place, at_place, count, assigned in zip(
            measured.groups, narrow, counts[row], matching.assigned, strict=True
        ):
            if count:
                names = _names(matching, assigned, int(count))
                clusters.append(
                    Clusters(path, measured.metric.name, place.key, at_place[row], names)
                )
    return series, clusters


def _class_values(measured: MetricValues, partition: Partition) -> FloatArray:
    """Mean over the ranks of each class: (n_paths, n_runs, n_classes), NaN where there is none."""
    matchings = partition.matchings
    number = max((len(matching.names) for matching in matchings), default=0)
    values = np.full((len(matchings), len(measured.tables), max(number, 1)), np.nan)
    for index, (place, at_place) in enumerate(zip(measured.groups, partition.labels, strict=True)):
        assigned = [matching.assigned[index] or () for matching in matchings]
        beyond = max(map(len, assigned), default=0)  # the column of what is in no class
        classes = np.full((len(matchings), beyond + 1), -1)
        for row, chosen in enumerate(assigned):
            classes[row, : len(chosen)] = chosen
        column = np.where(at_place < 0, beyond, np.minimum(at_place, beyond))
        of_rank = np.take_along_axis(classes, column, axis=1)
        for run in place.runs:
            values[:, run] = class_means(measured.tables[run], of_rank, values.shape[2])
    return values


def _mean_values(measured: MetricValues) -> FloatArray:
    """Mean over all ranks: (n_paths, n_runs), NaN for runs that are at no place."""
    values = np.full((len(measured.paths), len(measured.tables)), np.nan)
    for place in measured.groups:
        for run in place.runs:
            table = measured.tables[run]
            values[:, run] = class_means(table, np.zeros(table.shape, dtype=np.intp), 1)[:, 0]
    return values


def _series(
    path: CallPath, metric: Metric, matching: Matching, values: FloatArray, everywhere: FloatArray
) -> dict[SeriesKey, FloatArray]:
    """One series per class, and the mean of all ranks if not every run could be matched."""
    series = {}
    for index, name in enumerate(matching.names):
        if name != ALL:
            series[SeriesKey(path, metric.name, name)] = values[:, index]
    if ALL in matching.names or not matching.is_complete:
        series[SeriesKey(path, metric.name, ALL)] = everywhere
    return series


def _names(matching: Matching, assigned: tuple[int, ...] | None, count: int) -> tuple[str, ...]:
    if assigned is None:
        return unmatched_names(count)
    return tuple(matching.names[index] for index in assigned)
