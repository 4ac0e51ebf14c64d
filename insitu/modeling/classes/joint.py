"""Behaviour classes from all evidence: counts where they separate ranks, times where not."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from insitu.entities import (
    ALLOCATIONS,
    BYTES_ALLOCATED,
    RANKS,
    TIME,
    CallPath,
    Finding,
    Metric,
    MetricKind,
)
from insitu.modeling.classes.behaviour import (
    MetricValues,
    Partition,
    means_of_groups,
    medians_of_groups,
)
from insitu.modeling.classes.candidates import Candidate, find_candidates
from insitu.modeling.classes.cluster import BoolArray, class_means, cluster
from insitu.modeling.classes.count_partitions import partition_by_counts
from insitu.modeling.classes.counts import DISTINCT, CountEvidence, collect_evidence
from insitu.modeling.classes.domain import Domain
from insitu.modeling.classes.gauges import partition_gauges
from insitu.modeling.classes.match import Matching, class_names
from insitu.modeling.classes.matcher import (
    TIME_SPREAD,
    ClusterMatcher,
    OwnTimes,
    PathClasses,
    one_class_of,
)
from insitu.modeling.classes.minor_paths import allow_shared_sets, find_minor_paths
from insitu.modeling.classes.mixture import Mixture, find_classes
from insitu.modeling.classes.profiles import Profiles, partition_profiles
from insitu.modeling.classes.run_groups import (
    RunGroup,
    coordinate_name,
    values_by_run,
)
from insitu.modeling.classes.scatter import (
    MIN_FLOOR,
    are_ranks_alike,
    are_surely_uniform,
    is_order_random,
    least_spread,
    may_be_noise,
    repetition_spread,
)
from insitu.modeling.classes.supplements import find_top_paths
from insitu.modeling.measurement import Experiment, FloatArray, IntArray
from insitu.text import list_some

UNREPEATED_MARGIN = 8.0  # of the criterion where nothing was repeated: odds of about 50
MIN_RUNS = 3  # of several ranks, of which more than one must have several classes of times
MAX_TESTED = 32  # unrepeated values of a series, above which any division of ranks is too many
NAMED_OUTLIERS = 5  # ranks that a finding lists
EXACT_OR_EQUAL = (ALLOCATIONS, BYTES_ALLOCATED)  # an allocator's noise makes no classes

AnyArray = TypeVar("AnyArray", FloatArray, IntArray)


@dataclass(frozen=True, slots=True)
class ClassEvidence:
    """What is known about the ranks of an experiment besides the values of one metric.

    counts: the classes that exact counts make; root_times: (n_runs,), mean time of each call path
    without a parent; whole_times: (n_runs,), the sum over call paths without a measured caller;
    is_crowded: whether ranks of a run shared processor cores, so that times say which ranks had to
    wait and not which did more work; candidates: partitions that domains usually lead to; mixtures:
    results by their values, because inclusive and exclusive times of a leaf are the same; shared:
    classes of all run groups that series have in common with others, see `shared_sets`.
    """

    counts: CountEvidence
    root_times: Mapping[CallPath, FloatArray]
    whole_times: FloatArray
    is_crowded: bool = False
    candidates: Sequence[Candidate] = ()
    mixtures: dict[bytes, Mixture] = field(default_factory=dict)
    shared: Mapping[tuple[str, CallPath], Sequence[IntArray]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        paths: Sequence[CallPath],
        groups: Sequence[RunGroup],
        domains: Sequence[Domain | None],
    ) -> "ClassEvidence":
        """Collect the evidence for these call paths.

        Args:
            experiment: all runs.
            paths: call paths whose counts are used.
            groups: runs that repeat each other.
            domains: the Cartesian domain of each group, None where it is not known.
        """
        tops = find_top_paths(paths)
        means = [_row_means(table) for table in values_by_run(experiment, TIME.name, tops)]
        times = np.array(means).reshape(len(means), len(tops)).T
        of_roots = zip(tops, times, strict=True)

        return cls(
            counts=collect_evidence(experiment, paths, groups),
            root_times={path: mean for path, mean in of_roots if path.parent is None},
            whole_times=np.nansum(times, axis=0),
            is_crowded=bool(experiment.crowded_runs()),
            candidates=find_candidates([group.size for group in groups], domains),
        )


def is_partitioned_by_counts(metric: Metric) -> bool:
    """Whether counts alone decide the classes of a metric, and not its own differences."""
    return metric.is_deterministic or metric in EXACT_OR_EQUAL


def partition_jointly(measured: MetricValues, evidence: ClassEvidence) -> Partition:
    """Partition ranks by counts where these separate them, else by a mixture over all runs.

    Equal counts are a class; inclusive times are partitioned by the counts of their call path, or
    else of all call paths below it, other metrics by those of their call path; gauges by their own
    values. Clusters of times are matched across runs by laws of value and size, so that runs with
    fewer classes count too.

    Args:
        measured: the values of one metric of several call paths.
        evidence: of the experiment.
    """
    means = means_of_groups(measured)
    matcher = ClusterMatcher(measured.groups)

    if is_partitioned_by_counts(measured.metric):
        return _assemble(measured, means, _partition_counts(measured, means, evidence.counts))

    is_inclusive = measured.metric.name == TIME.name
    by_counts = evidence.counts.below if is_inclusive else evidence.counts.own
    is_minor = find_minor_paths(measured, evidence.root_times, evidence.whole_times)
    one_class = [np.zeros(group.size, dtype=np.intp) for group in measured.groups]

    classes_of_row: dict[int, Sequence[IntArray]] = {}
    has_classes = np.zeros(len(measured.paths), dtype=bool)
    for row, path in enumerate(measured.paths):
        is_shared = (measured.metric.name, path) in evidence.shared
        has_classes[row] = is_shared or path in by_counts
        if is_shared:
            classes_of_row[row] = evidence.shared[measured.metric.name, path]
        elif path in by_counts:
            classes_of_row[row] = by_counts[path].coarse
        elif is_minor[row]:
            classes_of_row[row] = one_class
    by_path = partition_by_counts(means, classes_of_row)
    if not evidence.is_crowded:
        by_path |= allow_shared_sets(measured, by_path, is_minor & ~has_classes)

    rest = [row for row in range(len(measured.paths)) if row not in by_path]
    if not rest:
        return _assemble(measured, means, by_path)
    undecided = measured.select(rest)
    if measured.metric.kind is MetricKind.GAUGE:
        found = partition_gauges(undecided, evidence.counts, evidence.candidates, matcher)
    else:
        found = _TimePartitioner(undecided, evidence, matcher).partition()
    by_path |= {rest[row]: classes for row, classes in found.items()}
    return _assemble(measured, means, by_path)


def _assemble(
    measured: MetricValues, means: Sequence[FloatArray], by_path: Mapping[int, PathClasses]
) -> Partition:
    """Collect the classes of all call paths, by row."""
    labels = [np.full(group_means.shape, -1) for group_means in means]
    matchings: list[Matching] = []
    findings: list[Finding] = []
    free: dict[int, OwnTimes] = {}
    for row in range(len(measured.paths)):
        classes = by_path[row]
        for group_labels, path_labels in zip(labels, classes.labels, strict=True):
            group_labels[row] = path_labels
        matchings.append(classes.matching)
        findings += classes.findings
        if classes.own is not None:
            free[row] = classes.own
    return Partition(labels, matchings, findings, free)


def _partition_counts(
    measured: MetricValues, means: Sequence[FloatArray], counts: CountEvidence
) -> dict[int, PathClasses]:
    """Partition ranks by their exact counts; all ranks are one class where counts do not repeat.

    A count that varies between repetitions has the classes that the other counts of its call path
    make, since polling and waiting happen as often as time allows.
    """
    one_class = [np.zeros(group.size, dtype=np.intp) for group in measured.groups]
    classes_of_row: dict[int, Sequence[IntArray]] = {}
    for row, path in enumerate(measured.paths):
        matched = counts.by_series.get((measured.metric.name, path))
        if matched is not None:
            classes_of_row[row] = matched.labels
        elif path in counts.own and _differs(_rows(means, row)):
            classes_of_row[row] = counts.own[path].coarse
        else:
            classes_of_row[row] = one_class
    return partition_by_counts(means, classes_of_row)


def _differs(values: Sequence[FloatArray]) -> bool:
    """Whether ranks of some run have different values."""
    return any(len(np.unique(v[np.isfinite(v)])) > 1 for v in values)


class _TimePartitioner:
    """Partitions the ranks of one metric by its measured values, call path by call path.

    Each call path is one class where its ranks do not differ by more than their noise; it is
    partitioned by relative distance where a logarithm fails, by a mixture otherwise.
    """

    def __init__(
        self, measured: MetricValues, evidence: ClassEvidence, matcher: ClusterMatcher
    ) -> None:
        self.measured = measured
        self.evidence = evidence
        self.matcher = matcher
        self.means = means_of_groups(measured)
        self.medians = medians_of_groups(measured)
        self.spread = repetition_spread(measured.tables, measured.groups)
        self.has_zero = np.zeros(len(measured.paths), dtype=bool)
        for group_medians in self.medians:
            self.has_zero |= (group_medians <= 0).any(axis=1)
        sizes = [group.size for group in measured.groups]
        self.has_other_parameters = 1 < len(set(sizes)) < len(sizes)
        self.is_uniform = self._find_uniform()

    def partition(self) -> dict[int, PathClasses]:
        """The classes of all call paths, by row."""
        return {row: self._partition_path(row) for row in range(len(self.measured.paths))}

    def _partition_path(self, row: int) -> PathClasses:
        values = _rows(self.means, row)
        if self.is_uniform[row]:
            return one_class_of(values, self.matcher)

        if self.has_zero[row]:
            labels = [cluster(group_values) for group_values in values]
            return PathClasses(labels, self.matcher.match(labels, values))

        by_profile = self._partition_by_profile(row)
        if by_profile is not None:
            return by_profile

        mixture = self._fit_mixture(row)
        if mixture.smooth:
            one_class = one_class_of(values, self.matcher)
            own = OwnTimes(self._floor(row), mixture.smooth_criterion)
            return replace(one_class, findings=self._report_smooth(row, mixture.smooth), own=own)

        labels, findings = self._spread_labels(row, mixture)
        if self._may_be_noise(row, mixture):
            one_class = one_class_of(values, self.matcher)
            return replace(one_class, findings=findings, own=OwnTimes(self._floor(row)))
        if mixture.is_candidate:
            return PathClasses(labels, self._same_classes(mixture, labels), findings)

        matching = self.matcher.match(labels, values, max(mixture.spread, TIME_SPREAD))
        classes = PathClasses(labels, matching, findings, own=OwnTimes(self._floor(row)))

        # Noise of a single repetition makes classes too, but of sizes that follow no law. And what
        # is seen in one run of several is no class: it has no model, and nothing confirms it.
        counts = [len(np.unique(group_labels[group_labels >= 0])) for group_labels in labels]
        is_unrepeated = np.isnan(self.spread[row])
        is_lawless = is_unrepeated and not self.matcher.follows_laws(classes, values)
        is_single = np.count_nonzero(counts) >= MIN_RUNS and sum(n > 1 for n in counts) == 1
        if is_lawless or is_single:
            one_class = one_class_of(values, self.matcher)
            rejected = self._report_rejected(row, max(counts))
            return replace(one_class, findings=rejected, own=OwnTimes(self._floor(row)))
        return classes

    def _may_be_noise(self, row: int, mixture: Mixture) -> bool:
        """Whether classes of unrepeated times are no more than noise makes of any size.

        With many values, the criterion of a mixture knows the noise from the ranks themselves.
        """
        if not np.isnan(self.spread[row]):
            return False

        values = [
            group_values[np.isfinite(group_values)] for group_values in _rows(self.medians, row)
        ]
        logs = [np.log(group_values) for group_values in values if len(group_values)]
        if not mixture.is_candidate and sum(len(group_logs) for group_logs in logs) > MAX_TESTED:
            return False
        classes = [
            np.where(is_outlier, group_labels.max(initial=0) + 1, group_labels)
            for group_labels, is_outlier in zip(mixture.labels, mixture.is_outlier, strict=True)
        ]
        return may_be_noise(logs, classes, mixture.log_choices)

    def _partition_by_profile(self, row: int) -> PathClasses | None:
        """The classes of ranks over all runs with as many ranks, where these differ otherwise.

        The class of a rank is the same in these runs, while values of classes depend on all
        parameters. None where all ranks are alike, or there is one parameter.
        """
        if not self.has_other_parameters:
            return None

        groups, values = self.measured.groups, _rows(self.medians, row)
        by_size: dict[int, list[int]] = defaultdict(list)
        for index, group in enumerate(groups):
            if np.isfinite(values[index]).any():
                by_size[group.size].append(index)

        profiles = []
        for size, indices in by_size.items():
            logs = np.log(np.stack([values[index] for index in indices], axis=1))
            profiles.append(Profiles(size, logs, self._other_parameters(indices)))
        candidates = [
            [candidate[indices[0]] for indices in by_size.values()]
            for candidate in self.evidence.candidates
        ]

        spread = float(self.spread[row])
        floor = MIN_FLOOR if np.isnan(spread) else least_spread(spread)
        partition = partition_profiles(profiles, candidates, floor=floor)
        if partition.classes is None:
            one_class = one_class_of(_rows(self.means, row), self.matcher)
            return replace(one_class, findings=self._report_rejected(row, partition.rejected))

        class_of_size = dict(zip(by_size, partition.classes, strict=True))
        no_class = {group.size: np.zeros(group.size, dtype=np.intp) for group in groups}
        by_group = [(no_class | class_of_size)[group.size] for group in groups]
        return partition_by_counts(self.means, {row: by_group})[row]

    def _report_rejected(self, row: int, count: int) -> tuple[Finding, ...]:
        """A finding about groups of ranks that differ and are modelled as one class."""
        if count < 2:
            return ()
        path, metric = self.measured.paths[row], self.measured.metric.name
        text = (
            f"ranks differ in {metric} of {path.name}, in up to {count} groups whose sizes and "
            "values follow no law of the number of ranks; they are modelled by their mean"
        )
        return (Finding("ranks-differ", text, str(path)),)

    def _report_smooth(self, row: int, smooth: str) -> tuple[Finding, ...]:
        """A finding about ranks that differ without groups."""
        largest = max(self.medians, key=lambda medians: medians.shape[1])[row]
        known = largest[np.isfinite(largest)]
        path, metric = self.measured.paths[row], self.measured.metric.name
        ratio = f", by up to {known.max() / known.min():.3g} times" if len(known) else ""
        text = (
            f"values of {metric} of {path.name} {smooth}{ratio}: ranks form no classes there; "
            "they are modelled by their mean and maximum"
        )
        return (Finding("ranks-differ", text, str(path)),)

    def _other_parameters(self, indices: Sequence[int]) -> tuple[tuple[float, ...], ...]:
        """The parameters of these groups other than the number of ranks."""
        keys = []
        for index in indices:
            parameters = self.measured.groups[index].key.parameters
            keys.append(tuple(value for name, value in parameters if name != RANKS))
        return tuple(keys)

    def _find_uniform(self) -> BoolArray:
        """The call paths whose ranks are one class without a search: (n_paths,)."""
        measured = self.measured
        is_time = measured.metric.is_wall_time
        candidates = self.evidence.candidates
        uniform = is_order_random(measured.tables, measured.groups, candidates)
        uniform |= self.evidence.is_crowded and is_time
        if not self.medians:
            return uniform

        logs = []
        for group_medians in self.medians:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs.append(np.where(group_medians > 0, np.log(group_medians), np.nan))
        uniform |= are_surely_uniform(logs) & ~self.has_zero

        # Without repetitions, runs at other coordinates show how much noise there is.
        unrepeated = np.flatnonzero(np.isnan(self.spread) & ~uniform & ~self.has_zero)
        uniform[unrepeated] = are_ranks_alike([group_logs[unrepeated] for group_logs in logs])
        return uniform

    def _floor(self, row: int) -> float:
        """The least relative spread of ranks, from repetitions if there are any."""
        return least_spread(float(self.spread[row]))

    def _fit_mixture(self, row: int) -> Mixture:
        """Find the classes of one call path in all run groups that have values."""
        values = _rows(self.medians, row)
        is_unrepeated = bool(np.isnan(self.spread[row]))
        floor = self._floor(row)
        margin = UNREPEATED_MARGIN if is_unrepeated else 0.0

        mixtures = self.evidence.mixtures
        key = np.concatenate([[floor, margin], *values]).tobytes()
        if key not in mixtures:
            used = [group for group, v in enumerate(values) if np.isfinite(v).any()]
            is_present = [np.isfinite(group_values) for group_values in values]
            candidates = [
                [candidate[group][is_present[group]] for group in used]
                for candidate in self.evidence.candidates
            ]
            mixtures[key] = find_classes(
                [values[group][is_present[group]] for group in used],
                x=np.array([self.matcher.x[group] for group in used]),
                floor=floor,
                margin=margin,
                candidates=candidates,
                ranks=[np.flatnonzero(is_present[group]) for group in used],
            )
        return mixtures[key]

    def _spread_labels(
        self, row: int, mixture: Mixture
    ) -> tuple[list[IntArray], tuple[Finding, ...]]:
        """Labels of all ranks, -1 without a value, and a finding about those that fit no class."""
        labels, outliers = [], []
        fitted = iter(zip(mixture.labels, mixture.is_outlier, strict=True))
        for group, group_values in zip(self.measured.groups, _rows(self.medians, row), strict=True):
            is_present = np.isfinite(group_values)
            group_labels = np.full(len(group_values), -1)
            if is_present.any():
                present_labels, is_outlier = next(fitted)
                group_labels[is_present] = cluster(present_labels + 1.0, DISTINCT)
                name = coordinate_name(group.key)
                for rank in np.flatnonzero(is_present)[is_outlier]:
                    outliers.append(f"rank {rank} at {name}")
            labels.append(group_labels)

        if not outliers:
            return labels, ()
        path, metric = self.measured.paths[row], self.measured.metric.name
        text = (
            f"{metric} of {path.name} fits no behaviour class: "
            f"{list_some(outliers, NAMED_OUTLIERS)}"
        )
        return labels, (Finding("outlier-ranks", text, str(path)),)

    def _same_classes(self, mixture: Mixture, labels: Sequence[IntArray]) -> Matching:
        """The matching of a candidate partition, whose classes are the same in all groups."""
        fitted = iter(mixture.labels)
        assigned: list[tuple[int, ...] | None] = []
        for group_labels in labels:
            has_values = bool((group_labels >= 0).any())
            assigned.append(tuple(np.unique(next(fitted)).tolist()) if has_values else None)

        count = 1 + max(int(group_labels.max()) for group_labels in mixture.labels)
        return Matching(class_names(count), tuple(assigned), is_complete=True)


def _rows(tables: Sequence[AnyArray], row: int) -> list[AnyArray]:
    """One row of each table."""
    return [table[row] for table in tables]


def _row_means(values: FloatArray) -> FloatArray:
    """Mean over all ranks, (n_rows, n_ranks) to (n_rows,); NaN where there is no value."""
    return class_means(values, np.zeros(values.shape[1], dtype=np.intp), 1)[:, 0]
