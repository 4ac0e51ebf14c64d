"""The behaviour classes of one metric in all runs, with the series that models are made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, Finding, Metric
from insitu.measurement import FloatArray, IntArray, SeriesKey
from insitu.modeling.base import Clusters
from insitu.modeling.cluster import class_means, cluster
from insitu.modeling.match import ALL, Matching, class_names, differing, match_equal
from insitu.modeling.places import Place, mean_over_runs


@dataclass(frozen=True, slots=True)
class Series:
    """What a model is made of: one value per run, NaN where it was not measured."""

    key: SeriesKey
    metric: Metric
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What is known of a metric before models are made."""

    series: list[Series]
    clusters: list[Clusters]
    findings: list[Finding]


def classify(
    metric: Metric,
    paths: Sequence[CallPath],
    *,
    tables: Sequence[FloatArray],
    places: Sequence[Place],
    threshold: float,
) -> Behaviour:
    """Cluster the ranks at every place, match the clusters, reduce each class to its mean.

    Args:
        metric: what the tables hold.
        paths: their rows.
        tables: per run (n_paths, n_ranks), NaN where there is no value.
        places: which runs repeat each other.
        threshold: relative distance at which a new cluster begins.
    """
    labels = [
        cluster(mean_over_runs([tables[run] for run in place.runs]), threshold) for place in places
    ]
    counts = np.array([_count(at_place) for at_place in labels]).reshape(len(places), len(paths)).T
    matchings = _matchings(counts, places)
    values = _class_values(tables, places, labels, matchings)
    everywhere = _mean_values(tables, places)
    series: list[Series] = []
    clusters: list[Clusters] = []
    findings: list[Finding] = []
    narrow = [at_place.astype(np.int32) for at_place in labels]
    for row, path in enumerate(paths):
        if not counts[row].any():
            continue
        matching = matchings[row]
        series += _series(path, metric, matching, values[row], everywhere[row])
        for place, at_place, count, assigned in zip(
            places, narrow, counts[row], matching.assigned, strict=True
        ):
            if count:
                names = _names(matching, assigned, int(count))
                clusters.append(Clusters(path, metric.name, place.key, at_place[row], names))
        if not matching.is_complete:
            keys = [place.key for place in places]
            numbers = counts[row].tolist()
            findings.append(
                differing(path, metric.name, runs=keys, counts=numbers, matching=matching)
            )
    return Behaviour(series, clusters, findings)


def _count(labels: IntArray) -> IntArray:
    highest: IntArray = labels.max(axis=1, initial=-1)
    return highest + 1


def _matchings(counts: IntArray, places: Sequence[Place]) -> list[Matching]:
    """One matching per row; rows with the same numbers of clusters share it."""
    coordinates = [place.coordinate for place in places]
    known: dict[tuple[int, ...], Matching] = {}
    result = []
    for row in map(tuple, counts.tolist()):
        if row not in known:
            known[row] = match_equal(row, coordinates)
        result.append(known[row])
    return result


def _class_values(
    tables: Sequence[FloatArray],
    places: Sequence[Place],
    labels: Sequence[IntArray],
    matchings: Sequence[Matching],
) -> FloatArray:
    """Mean over the ranks of each class: (n_paths, n_runs, n_classes), NaN where there is none."""
    number = max((len(matching.names) for matching in matchings), default=0)
    values = np.full((len(matchings), len(tables), max(number, 1)), np.nan)
    for index, (place, at_place) in enumerate(zip(places, labels, strict=True)):
        assigned = [matching.assigned[index] or () for matching in matchings]
        classes = np.full((len(matchings), max(map(len, assigned), default=0) + 2), -1)
        for row, chosen in enumerate(assigned):
            classes[row, : len(chosen)] = chosen
        beyond = classes.shape[1] - 1  # never assigned: also where label -1 points to
        of_rank = np.take_along_axis(
            classes, np.where(at_place < 0, beyond, np.minimum(at_place, beyond)), axis=1
        )
        for run in place.runs:
            values[:, run] = class_means(tables[run], of_rank, values.shape[2])
    return values


def _mean_values(tables: Sequence[FloatArray], places: Sequence[Place]) -> FloatArray:
    """Mean over all ranks: (n_paths, n_runs), NaN for runs that are at no place."""
    rows = len(tables[0]) if tables else 0
    values = np.full((rows, len(tables)), np.nan)
    for place in places:
        for run in place.runs:
            zeros = np.zeros(tables[run].shape, dtype=np.intp)
            values[:, run] = class_means(tables[run], zeros, 1)[:, 0]
    return values


def _series(
    path: CallPath, metric: Metric, matching: Matching, values: FloatArray, everywhere: FloatArray
) -> list[Series]:
    """One series per class; besides, the mean where not every run could be matched."""
    result = [
        Series(SeriesKey(path, metric.name, name), metric, values[:, index])
        for index, name in enumerate(matching.names)
        if name != ALL
    ]
    if ALL in matching.names or not matching.is_complete:
        result.append(Series(SeriesKey(path, metric.name, ALL), metric, everywhere))
    return result


def _names(matching: Matching, assigned: tuple[int, ...] | None, count: int) -> tuple[str, ...]:
    if assigned is None:
        return class_names(count)
    return tuple(matching.names[index] for index in assigned)
