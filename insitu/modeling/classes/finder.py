"""Find the classes of some call paths at a time: memory does not grow with what was measured."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import TIME, CallPath, Finding, Metric, MetricKind
from insitu.modeling.base import Clusters
from insitu.modeling.classes.behaviour import (
    MetricValues,
    Partition,
    medians_of_groups,
    partition_by_distance,
    reduce_classes,
    repeat_clusters,
    repeat_series,
    report_unmatched,
)
from insitu.modeling.classes.domain import Domain
from insitu.modeling.classes.joint import (
    ClassEvidence,
    is_partitioned_by_counts,
    partition_jointly,
)
from insitu.modeling.classes.matcher import OwnTimes
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.rules import Rules, apply_rules
from insitu.modeling.classes.run_groups import (
    PathValues,
    RunGroup,
    group_equal_rows,
    values_by_run,
)
from insitu.modeling.classes.shared_sets import FreeSeries, share_sets
from insitu.modeling.classes.supplements import find_maxima
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey


@dataclass(frozen=True, slots=True)
class MetricClasses:
    """The classes of one metric of some call paths.

    series: of classes and means, as `reduce_classes` returns them. maxima: over ranks, alike. free:
    call paths whose classes were found in their own times only, with what these say.
    """

    metric: Metric
    series: Mapping[SeriesKey, FloatArray]
    maxima: Mapping[SeriesKey, FloatArray]
    clusters: Sequence[Clusters]
    findings: Sequence[Finding]
    free: Mapping[CallPath, OwnTimes] = field(default_factory=dict)

    def without(self, paths: Collection[CallPath]) -> "MetricClasses":
        """The same without these call paths."""
        where = {str(path) for path in paths}
        return replace(
            self,
            series={key: row for key, row in self.series.items() if key.callpath not in paths},
            maxima={key: row for key, row in self.maxima.items() if key.callpath not in paths},
            clusters=[entry for entry in self.clusters if entry.callpath not in paths],
            findings=[finding for finding in self.findings if finding.where not in where],
        )


@dataclass(frozen=True, slots=True)
class ClassFinder:
    """Finds the classes of call paths in all runs, independently of other call paths.

    evidence: of all call paths; None to cluster by distance. threshold: of that distance. rules: of
    the user. domains: of each run group.
    """

    experiment: Experiment
    groups: Sequence[RunGroup]
    domains: Sequence[Domain | None]
    evidence: ClassEvidence | None
    threshold: float
    rules: Sequence[Rules]
    namer: Namer

    def find(self, paths: Sequence[CallPath]) -> list[MetricClasses]:
        """The classes of these call paths, by metric, in the order of the names of metrics."""
        by_metric = []
        path_values = PathValues(self.experiment, paths)
        for _, metric in sorted(self.experiment.metrics().items()):
            if metric.kind is MetricKind.POSITION:
                continue
            values = self._measured_values(metric, path_values)
            measured = values.paths
            families = self._find_families(values)
            firsts = [family[0] for family in families]
            if len(firsts) < len(measured):
                values = values.select(firsts)

            initial = self._partition(values)
            ruled = apply_rules(values, initial, self.rules, self.domains)
            partition = self.namer.name(values, ruled, is_literal=self.evidence is None)
            series, clusters = reduce_classes(values, partition)
            members = {}
            for family in families:
                members[measured[family[0]]] = [measured[row] for row in family]
            by_metric.append(
                MetricClasses(
                    metric=metric,
                    series=repeat_series(series, members),
                    maxima=repeat_series(find_maxima(values), members),
                    clusters=repeat_clusters(clusters, members),
                    findings=[*partition.findings, *report_unmatched(values, partition, members)],
                    free={values.paths[row]: own for row, own in initial.free.items()},
                )
            )
        return by_metric

    def _measured_values(self, metric: Metric, path_values: PathValues) -> MetricValues:
        """The values of a metric, of those call paths that have one in any run.

        Most metrics are measured in few call paths, as messages are in those of MPI.
        """
        tables = path_values.by_run(metric.name)
        values = MetricValues(metric, path_values.paths, tables, self.groups)
        has_value = np.zeros(len(path_values.paths), dtype=bool)
        for table in tables:
            has_value |= np.isfinite(table).any(axis=1)
        if has_value.all():
            return values
        return values.select(np.flatnonzero(has_value).tolist())

    def _find_families(self, values: MetricValues) -> list[list[int]]:
        """The call paths that have equal values and classes in all runs: rows, ascending.

        Most counts of a program are equal to others, and so are gauges of the heap; their classes
        need to be found once. Each call path is alone where its name or its times decide, too.
        """
        evidence, metric = self.evidence, values.metric
        by_counts = is_partitioned_by_counts(metric)
        is_gauge = metric.kind is MetricKind.GAUGE and metric.unit != TIME.unit
        if evidence is None or self.rules or not (by_counts or is_gauge):
            return [[row] for row in range(len(values.paths))]

        counts = evidence.counts
        families: dict[tuple[int, ...], list[int]] = {}
        for number, rows in enumerate(group_equal_rows(values.tables)):
            for row in rows:
                path = values.paths[row]
                classes = counts.by_series.get((metric.name, path)) if by_counts else None
                if classes is None:
                    classes = counts.own.get(path)
                below = None if by_counts else counts.below.get(path)
                families.setdefault((number, id(classes), id(below)), []).append(row)
        return sorted(families.values())

    def share_sets(self, chunks: Iterable[Sequence[MetricClasses]]) -> "ClassFinder":
        """A finder that knows the sets of ranks which several series share.

        Args:
            chunks: what `find` returned for all call paths.
        """
        if self.evidence is None or not self.groups:
            return self
        shared = {}
        by_values: dict[bytes, list[tuple[str, CallPath]]] = {}
        series: list[FreeSeries] = []
        run = np.repeat(np.arange(len(self.groups)), [group.size for group in self.groups])
        rank = np.concatenate([np.arange(group.size) for group in self.groups])
        for classes in (classes for chunk in chunks for classes in chunk):
            for path, item in self._free_series(classes):
                key = item.logs.tobytes()
                if key not in by_values:
                    series.append(item)
                by_values.setdefault(key, []).append((classes.metric.name, path))

        ends = np.cumsum([group.size for group in self.groups])[:-1]
        for item, labels in zip(series, share_sets(series, run, rank), strict=True):
            if labels is not item.labels:
                by_group = np.split(labels, ends)
                for name in by_values[item.logs.tobytes()]:
                    shared[name] = by_group
        return replace(self, evidence=replace(self.evidence, shared=shared))

    def _free_series(self, classes: MetricClasses) -> Iterator[tuple[CallPath, FreeSeries]]:
        """The series that may share a set of ranks: these have values in all ranks of all runs."""
        paths = list(classes.free)
        if not paths:
            return
        labels = {(entry.callpath, entry.run): entry for entry in classes.clusters}
        tables = values_by_run(self.experiment, classes.metric.name, paths)
        medians = medians_of_groups(MetricValues(classes.metric, paths, tables, self.groups))
        for row, path in enumerate(paths):
            values = np.concatenate([group_medians[row] for group_medians in medians])
            if not np.all(values > 0):
                continue
            clusters = [labels[path, group.key] for group in self.groups]
            names = sorted({name for entry in clusters for name in entry.names})
            codes = [
                np.array([names.index(name) for name in entry.names])[entry.labels]
                for entry in clusters
            ]
            own = classes.free[path]
            yield (
                path,
                FreeSeries(np.log(values), np.concatenate(codes), own.floor, own.smooth_criterion),
            )

    def shared_paths(self) -> set[CallPath]:
        """The call paths with a shared set."""
        return set() if self.evidence is None else {path for _, path in self.evidence.shared}

    def _partition(self, values: MetricValues) -> Partition:
        if self.evidence is None:
            return partition_by_distance(values, self.threshold)
        return partition_jointly(values, self.evidence)
