"""The behaviour classes of one metric in all runs, and the series that models are made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.entities import CallPath, Finding, Metric
from insitu.modeling.base import ALL, Clusters
from insitu.modeling.classes.cluster import class_means, cluster
from insitu.modeling.classes.match import (
    Matching,
    match_equal,
    report_unequal_counts,
    unmatched_names,
)
from insitu.modeling.classes.matcher import OwnTimes
from insitu.modeling.classes.run_groups import RunGroup, group_equal_rows, mean_over_runs
from insitu.modeling.classes.scatter import row_medians
from insitu.modeling.measurement import FloatArray, IntArray, SeriesKey


@dataclass(frozen=True, slots=True)
class MetricValues:
    """The values of one metric of several call paths.

    tables: per run (n_paths, n_ranks), NaN where there is no value; groups: which runs repeat each
    other.
    """

    metric: Metric
    paths: Sequence[CallPath]
    tables: Sequence[FloatArray]
    groups: Sequence[RunGroup]

    def select(self, rows: Sequence[int]) -> "MetricValues":
        """The values of some of the call paths, by row (k,)."""
        return MetricValues(
            metric=self.metric,
            paths=[self.paths[row] for row in rows],
            tables=[table[np.asarray(rows, dtype=np.intp)] for table in self.tables],
            groups=self.groups,
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """The ranks of all runs, partitioned into behaviour classes.

    labels: per run group (n_paths, n_ranks), the cluster of each rank, -1 where it has no value;
    matchings: per call path which cluster is which class; free: rows of call paths whose classes
    were found in their own times only, with what these say.
    """

    labels: Sequence[IntArray]
    matchings: Sequence[Matching]
    findings: Sequence[Finding]
    free: Mapping[int, OwnTimes] = field(default_factory=dict)


def means_of_groups(measured: MetricValues) -> list[FloatArray]:
    """Mean of each rank over repetitions: (n_paths, n_ranks) per run group."""
    return [
        mean_over_runs([measured.tables[run] for run in group.runs]) for group in measured.groups
    ]


def medians_of_groups(measured: MetricValues) -> list[FloatArray]:
    """Median of each rank over repetitions: (n_paths, n_ranks) per run group.

    Of two repetitions it is the smaller value: one measurement may be slow for reasons of its own,
    which the mean of both does not leave out.
    """
    medians = []
    for group in measured.groups:
        repetitions = [measured.tables[run] for run in group.runs]
        if len(repetitions) == 2:
            medians.append(np.fmin(*repetitions))
        else:
            medians.append(row_medians(np.stack(repetitions, axis=-1)))
    return medians


def partition_by_distance(measured: MetricValues, threshold: float) -> Partition:
    """Cluster by relative distance and match equal numbers of clusters [CLU §III-B].

    Repetitions are averaged per rank before they are clustered.

    Args:
        measured: the values.
        threshold: relative distance at which a new cluster begins.
    """
    labels = [cluster(means, threshold) for means in means_of_groups(measured)]

    counts = count_clusters(labels, len(measured.paths))
    coordinates = [group.coordinate for group in measured.groups]

    # Most call paths share their numbers of clusters with others.
    by_counts: dict[tuple[int, ...], Matching] = {}
    matchings = []
    for path_counts in map(tuple, counts.tolist()):
        if path_counts not in by_counts:
            by_counts[path_counts] = match_equal(path_counts, coordinates)
        matchings.append(by_counts[path_counts])
    return Partition(labels, matchings, [])


def report_unmatched(
    measured: MetricValues,
    partition: Partition,
    members: Mapping[CallPath, Sequence[CallPath]],
) -> list[Finding]:
    """Report the call paths whose classes could not be matched in every run.

    Args:
        measured: the values of one metric.
        partition: their classes.
        members: of each call path those with the same values and classes, itself among them.
    """
    counts = count_clusters(partition.labels, len(measured.paths)).tolist()
    keys = [group.key for group in measured.groups]

    findings = []
    for path, path_counts, matching in zip(
        measured.paths, counts, partition.matchings, strict=True
    ):
        if matching.is_complete:
            continue
        for member in members[path]:
            finding = report_unequal_counts(
                member, measured.metric.name, runs=keys, counts=path_counts, matching=matching
            )
            findings.append(finding)
    return findings


def count_clusters(labels: Sequence[IntArray], n_paths: int) -> IntArray:
    """Number of clusters, (n_paths, n_groups), 0 where there is no value.

    Args:
        labels: per run group (n_paths, n_ranks).
        n_paths: number of call paths, for the case of no groups.
    """
    highest = [group_labels.max(axis=1, initial=-1) for group_labels in labels]
    counts: IntArray = np.array(highest, dtype=np.intp).reshape(len(labels), n_paths).T + 1
    return counts


def reduce_classes(
    measured: MetricValues, partition: Partition
) -> tuple[dict[SeriesKey, FloatArray], list[Clusters]]:
    """Reduce each class to its mean per run, and name the class of every rank.

    Call paths without any value are left out.

    Returns:
        The data of models, values (n_runs,) by key, NaN where nothing was measured; and the
        clusters of each call path in each run group.
    """
    counts = count_clusters(partition.labels, len(measured.paths))
    class_values = _class_values(measured, partition)
    overall = _overall_means(measured)
    narrow = [_share_rows(group_labels) for group_labels in partition.labels]

    series: dict[SeriesKey, FloatArray] = {}
    clusters: list[Clusters] = []
    for row, path in enumerate(measured.paths):
        if not counts[row].any():
            continue
        matching = partition.matchings[row]
        series |= _make_series(
            path, measured.metric, matching, values=class_values[row], overall=overall[row]
        )
        for index, group in enumerate(measured.groups):
            count = int(counts[row, index])
            if count:
                names = _cluster_names(matching, index, count)
                labels = narrow[index][row]
                clusters.append(Clusters(path, measured.metric.name, group.key, labels, names))
    return series, clusters


def repeat_series(
    series: Mapping[SeriesKey, FloatArray], members: Mapping[CallPath, Sequence[CallPath]]
) -> dict[SeriesKey, FloatArray]:
    """The series of more call paths, sorted by call path.

    Args:
        series: values by key.
        members: of each call path those with the same values and classes, itself among them.
    """
    repeated = list(series.items())
    for key, values in series.items():
        for member in members[key.callpath]:
            if member is not key.callpath:
                repeated.append((SeriesKey(member, key.metric, key.behaviour), values))
    return dict(sorted(repeated, key=lambda item: item[0].callpath.frames))


def repeat_clusters(
    clusters: Sequence[Clusters], members: Mapping[CallPath, Sequence[CallPath]]
) -> list[Clusters]:
    """The clusters of more call paths, sorted by call path; see `repeat_series`."""
    repeated = list(clusters)
    for entry in clusters:
        for member in members[entry.callpath]:
            if member is not entry.callpath:
                other = Clusters(member, entry.metric, entry.run, entry.labels, entry.names)
                repeated.append(other)
    return sorted(repeated, key=lambda entry: entry.callpath.frames)


def _share_rows(labels: IntArray) -> list[np.ndarray]:
    """The rows of labels (n_paths, n_ranks); equal rows are one array, narrow and read-only."""
    by_content: dict[bytes, np.ndarray] = {}
    rows = []
    for row in labels.astype(np.int32):
        content = row.tobytes()
        if content not in by_content:
            by_content[content] = np.frombuffer(content, dtype=np.int32)
        rows.append(by_content[content])
    return rows


def _class_values(measured: MetricValues, partition: Partition) -> FloatArray:
    """Mean over the ranks of each class: (n_paths, n_runs, n_classes), NaN where there is none."""
    matchings = partition.matchings
    n_classes = max((len(matching.names) for matching in matchings), default=0)
    values = np.full((len(matchings), len(measured.tables), max(n_classes, 1)), np.nan)

    for index, (group, labels) in enumerate(zip(measured.groups, partition.labels, strict=True)):
        class_of_rank = _classes_of_ranks(labels, [m.assigned[index] or () for m in matchings])
        families = group_equal_rows([class_of_rank])
        alone = [rows[0] for rows in families if len(rows) == 1]
        shared = [rows for rows in families if len(rows) > 1]
        for run in group.runs:
            table = measured.tables[run]
            values[alone, run] = class_means(table[alone], class_of_rank[alone], values.shape[2])
            for rows in shared:
                values[rows, run] = class_means(
                    table[rows], class_of_rank[rows[0]], values.shape[2]
                )
    return values


def _classes_of_ranks(labels: IntArray, assigned: Sequence[tuple[int, ...]]) -> IntArray:
    """From the cluster of each rank, (n_paths, n_ranks), to its class; -1 for ranks without one.

    Args:
        labels: clusters.
        assigned: per call path the class of each cluster.
    """
    # One column per cluster, and one more for ranks without a cluster or class.
    none = max(map(len, assigned), default=0)
    class_of_cluster = np.full((len(assigned), none + 1), -1)
    for row, classes in enumerate(assigned):
        class_of_cluster[row, : len(classes)] = classes

    column = np.where(labels < 0, none, np.minimum(labels, none))
    class_of_rank: IntArray = np.take_along_axis(class_of_cluster, column, axis=1)
    return class_of_rank


def _overall_means(measured: MetricValues) -> FloatArray:
    """Mean over all ranks: (n_paths, n_runs), NaN for runs that are in no group."""
    values = np.full((len(measured.paths), len(measured.tables)), np.nan)
    for group in measured.groups:
        for run in group.runs:
            table = measured.tables[run]
            values[:, run] = class_means(table, np.zeros(group.size, dtype=np.intp), 1)[:, 0]
    return values


def _make_series(
    path: CallPath, metric: Metric, matching: Matching, *, values: FloatArray, overall: FloatArray
) -> dict[SeriesKey, FloatArray]:
    """One series per class, and the mean over all ranks, which exists in every run."""
    series = {SeriesKey(path, metric.name, ALL): overall}
    for index, name in enumerate(matching.names):
        if name != ALL:
            series[SeriesKey(path, metric.name, name)] = values[:, index]
    return series


def _cluster_names(matching: Matching, group: int, count: int) -> tuple[str, ...]:
    """The names of the clusters of one run group."""
    assigned = matching.assigned[group]
    if assigned is None:
        return unmatched_names(count)
    return tuple(matching.names[index] for index in assigned)
