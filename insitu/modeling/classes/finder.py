"""Find the classes of some call paths at a time: memory does not grow with what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insitu.entities import CallPath, Finding, Metric, MetricKind
from insitu.modeling.base import Clusters
from insitu.modeling.classes.behaviour import (
    MetricValues,
    Partition,
    partition_by_distance,
    reduce_classes,
    report_unmatched,
)
from insitu.modeling.classes.domain import Domain
from insitu.modeling.classes.joint import ClassEvidence, partition_jointly
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.rules import Rules, apply_rules
from insitu.modeling.classes.run_groups import RunGroup, values_by_run
from insitu.modeling.classes.supplements import find_maxima
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey


@dataclass(frozen=True, slots=True)
class MetricClasses:
    """The classes of one metric of some call paths.

    series: of classes and means, as `reduce_classes` returns them. maxima: over ranks, alike.
    """

    metric: Metric
    series: Mapping[SeriesKey, FloatArray]
    maxima: Mapping[SeriesKey, FloatArray]
    clusters: Sequence[Clusters]
    findings: Sequence[Finding]


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
        for name, metric in sorted(self.experiment.metrics().items()):
            if metric.kind is MetricKind.POSITION:
                continue
            tables = values_by_run(self.experiment, name, paths)
            values = MetricValues(metric, paths, tables, self.groups)

            ruled = apply_rules(values, self._partition(values), self.rules, self.domains)
            partition = self.namer.name(values, ruled, is_literal=self.evidence is None)
            series, clusters = reduce_classes(values, partition)
            findings = [*partition.findings, *report_unmatched(values, partition)]
            by_metric.append(
                MetricClasses(
                    metric=metric,
                    series=series,
                    maxima=find_maxima(values),
                    clusters=clusters,
                    findings=findings,
                )
            )
        return by_metric

    def _partition(self, values: MetricValues) -> Partition:
        if self.evidence is None:
            return partition_by_distance(values, self.threshold)
        return partition_jointly(values, self.evidence)
