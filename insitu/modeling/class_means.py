"""The mean of each behaviour class in each run: what models are made from.

Classes are found in the first repetitions at each coordinate. Later repetitions do not change them,
they only add the means of these classes. So a refit with one more repetition reads the values of
that repetition alone, where the classes and means of the runs before are still at hand. The result
is the same as from scratch, to the last bit: every mean depends on its run and the classes only.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from insitu.entities import TIME, CallPath, Finding, Metric, RunKey
from insitu.modeling.base import ALL, MAXIMUM, ClassMeans, Clusters
from insitu.modeling.classes.cluster import class_means
from insitu.modeling.classes.domain import find_domains
from insitu.modeling.classes.finder import ClassFinder, MetricClasses
from insitu.modeling.classes.joint import ClassEvidence
from insitu.modeling.classes.letters import rename_clusters, share_letters
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.rules import JOINT, ClassSettings
from insitu.modeling.classes.run_groups import (
    RunGroup,
    chunk_paths,
    group_runs,
    values_by_run,
)
from insitu.modeling.classes.supplements import WHOLE_RUN, measure_whole_runs
from insitu.modeling.measurement import Experiment, FloatArray, IntArray, SeriesKey
from insitu.modeling.parallel import map_tasks
from insitu.modeling.run_means import RunMeans

METHOD = 12  # raised by every change of how classes are found: means of earlier ones are not used

# Repetitions at a coordinate in which classes are found. The median of seven values has less than
# half of their standard deviation; twice as many would make that a third.
MAX_EVIDENCE = 7

SeriesValues = dict[SeriesKey, FloatArray]  # (n_runs,) by series, NaN where nothing was measured


def series_by_metric(classes: ClassMeans, experiment: Experiment) -> dict[Metric, SeriesValues]:
    """Return the values of each metric, by series."""
    by_metric: dict[Metric, SeriesValues] = {}
    identities = _identities(experiment)
    for name, keys in classes.keys.items():
        columns = [classes.means[identity][name] for identity in identities]
        values = np.array(columns).reshape(len(columns), len(keys)).T
        by_metric[classes.metrics[name]] = dict(zip(keys, values, strict=True))
    return by_metric


def choose_evidence(experiment: Experiment, groups: Sequence[RunGroup]) -> list[int]:
    """Choose the runs in which classes are found: indices, ascending.

    These are the MAX_EVIDENCE repetitions with the lowest numbers at each coordinate, and each
    later one with a call path or metric that none of those before it has.
    """
    evidence: list[int] = []
    for group in groups:
        known: set[CallPath | Metric] = set()
        callpaths: tuple[CallPath, ...] = ()
        in_order = sorted(group.runs, key=lambda run: (experiment.runs[run][0].repetition, run))
        for number, run in enumerate(in_order):
            table = experiment.runs[run][1]
            if number >= MAX_EVIDENCE and table.callpaths is callpaths:
                is_new = not known.issuperset(table.metrics)
            else:
                is_new = not known.issuperset((*table.callpaths, *table.metrics))
            callpaths = table.callpaths
            if number < MAX_EVIDENCE or is_new:
                evidence.append(run)
                known.update(table.callpaths, table.metrics)
    return sorted(evidence)


def runs_to_read(
    experiment: Experiment, settings: ClassSettings, previous: ClassMeans | None
) -> tuple[set[int], list[int]]:
    """Return the indices of the runs whose values `find_class_means` uses, and the evidence.

    Args:
        experiment: all runs; their values are not used.
        settings: how ranks are grouped.
        previous: what an earlier call returned.

    Returns:
        The runs to read; and those in which classes are found, whose values a later call may use.
    """
    groups, _ = group_runs(experiment)
    evidence = choose_evidence(experiment, groups)
    if previous is None or not _is_reusable(previous, experiment, evidence, groups, settings):
        return set(range(len(experiment.runs))), evidence
    identities = _identities(experiment)
    return {index for index, key in enumerate(identities) if key not in previous.means}, evidence


def find_class_means(
    experiment: Experiment,
    groups: Sequence[RunGroup],
    settings: ClassSettings,
    *,
    previous: ClassMeans | None = None,
    executor: Executor | None = None,
) -> ClassMeans:
    """Find the behaviour classes, and the mean of each in every run.

    Args:
        experiment: all runs.
        groups: of runs that repeat each other, see `group_runs`.
        settings: how ranks are grouped.
        previous: what an earlier call returned; it is used as far as it is still valid.
        executor: computes the classes by call paths. The result is the same without it.

    Raises:
        UsageError: a class rule names something that a run does not have.
    """
    chosen = choose_evidence(experiment, groups)
    if previous is not None and _is_reusable(previous, experiment, chosen, groups, settings):
        classes = previous
    else:
        classes = _find_classes(experiment, chosen, groups, settings, executor)

    # The later repetitions. Runs without all parameters are in no group and have no values.
    means: dict[str, Mapping[str, FloatArray]] = dict(classes.means)
    identities = _identities(experiment)
    new = [run for run, identity in enumerate(identities) if identity not in means]
    group_of = {run: group for group in groups for run in group.runs}
    clusters_by_run = _cluster_by_run(classes.clusters) if new else {}
    callpaths = experiment.callpaths() if new else []
    for run in new:
        alone = replace(experiment, runs=(experiment.runs[run],), contents=())
        if run in group_of:
            clusters = clusters_by_run.get(group_of[run].key, {})
            of_run = _means_of_run(alone, classes, clusters, callpaths)
        else:
            of_run = {name: np.full(len(keys), np.nan) for name, keys in classes.keys.items()}
        means[identities[run]] = RunMeans.of(of_run)
    return replace(classes, means={identity: means[identity] for identity in identities})


def _identities(experiment: Experiment) -> list[str]:
    """The identities of all runs."""
    return [_identity(experiment, index) for index in range(len(experiment.runs))]


def _identity(experiment: Experiment, index: int) -> str:
    """A name of a run that stands for its content as well; its index where that is unknown."""
    content = experiment.contents[index] if experiment.contents else ""
    return f"{experiment.runs[index][0]} {content}" if content else f"{index}"


def _is_reusable(
    previous: ClassMeans,
    experiment: Experiment,
    evidence: Sequence[int],
    groups: Sequence[RunGroup],
    settings: ClassSettings,
) -> bool:
    if not previous.basis:
        return False
    return previous.basis == _digest_basis(experiment, evidence, groups, settings)


def _digest_basis(
    experiment: Experiment,
    evidence: Sequence[int],
    groups: Sequence[RunGroup],
    settings: ClassSettings,
) -> str:
    """A digest of everything that decides the classes; empty if a run cannot be recognised."""
    if not experiment.contents or not all(experiment.contents[run] for run in evidence):
        return ""

    rules = []
    for group in settings.rules:
        texts = [(rule.name, rule.text) for rule in group.classes]
        rules.append((texts, group.callpath, group.metric, group.threshold))
    described = [METHOD, experiment.parameters, bool(experiment.crowded_runs())]
    described += [settings.method, settings.threshold, rules]
    chosen = set(evidence)
    for run_group in groups:
        runs = [_identity(experiment, run) for run in run_group.runs if run in chosen]
        described.append((run_group.key, run_group.coordinate, run_group.size, runs))
    return hashlib.blake2b(repr(described).encode(), digest_size=16).hexdigest()


def _find_classes(
    experiment: Experiment,
    chosen: Sequence[int],
    groups: Sequence[RunGroup],
    settings: ClassSettings,
    executor: Executor | None,
) -> ClassMeans:
    """Find the classes in the runs chosen as evidence; the means are of these runs."""
    evidence = replace(experiment, runs=tuple(experiment.runs[run] for run in chosen), contents=())
    position = {run: number for number, run in enumerate(chosen)}
    own_groups = []
    for group in groups:
        own_runs = tuple(position[run] for run in group.runs if run in position)
        own_groups.append(replace(group, runs=own_runs))

    paths = evidence.callpaths()
    domains = find_domains(evidence, own_groups)
    finder = ClassFinder(
        experiment=evidence,
        groups=own_groups,
        domains=domains,
        evidence=ClassEvidence.of(evidence, paths, own_groups, domains)
        if settings.method == JOINT
        else None,
        threshold=settings.threshold,
        rules=settings.rules,
        namer=Namer.of(domains, [group.size for group in own_groups]),
    )
    chunks = list(map_tasks(executor, finder.find, chunk_paths(paths, evidence)))

    # Once more where several series share a set of ranks.
    sharing = finder.share_sets(chunks)
    shared_paths = sharing.shared_paths()
    if shared_paths:
        chunks = [[classes.without(shared_paths) for classes in chunk] for chunk in chunks]
        again = chunk_paths(sorted(shared_paths), evidence)
        chunks += map_tasks(executor, sharing.find, again)
    by_metric, clusters, findings = _collect_classes(chunks)
    clusters = _rename_letters(by_metric, clusters, settings)
    if evidence.runs and TIME.name in by_metric:
        by_metric[TIME.name][1].update(measure_whole_runs(evidence, paths))

    identities = _identities(experiment)
    means: dict[str, dict[str, FloatArray]] = {identities[run]: {} for run in chosen}
    for name, (_, series) in by_metric.items():
        values = np.array(list(series.values())).reshape(len(series), len(chosen))
        for run, column in zip(chosen, values.T, strict=True):
            means[identities[run]][name] = column
    return ClassMeans(
        basis=_digest_basis(experiment, chosen, groups, settings),
        metrics={name: metric for name, (metric, _) in by_metric.items()},
        keys={name: tuple(series) for name, (_, series) in by_metric.items()},
        means={identity: RunMeans.of(of_run) for identity, of_run in means.items()},
        clusters=clusters,
        findings=findings,
    )


def _collect_classes(
    chunks: Iterable[Sequence[MetricClasses]],
) -> tuple[dict[str, tuple[Metric, dict[SeriesKey, FloatArray]]], list[Clusters], list[Finding]]:
    """The series of each metric, the clusters and the findings of all chunks of call paths.

    Equal labels are one array in memory: most call paths share theirs with others.
    """
    by_metric: dict[str, tuple[Metric, dict[SeriesKey, FloatArray]]] = {}
    clusters: list[Clusters] = []
    findings: list[Finding] = []
    labels_by_content: dict[bytes, np.ndarray] = {}
    for chunk in chunks:
        for classes in chunk:
            _, series = by_metric.setdefault(classes.metric.name, (classes.metric, {}))
            series.update(classes.series)
            series.update(classes.maxima)
            findings += classes.findings
            for entry in classes.clusters:
                labels = labels_by_content.setdefault(entry.labels.tobytes(), entry.labels)
                if labels is entry.labels:
                    clusters.append(entry)
                    continue
                shared = Clusters(entry.callpath, entry.metric, entry.run, labels, entry.names)
                clusters.append(shared)
    return by_metric, clusters, findings


def _rename_letters(
    by_metric: Mapping[str, tuple[Metric, dict[SeriesKey, FloatArray]]],
    clusters: Sequence[Clusters],
    settings: ClassSettings,
) -> list[Clusters]:
    """Give letters the same meaning in all series: rename these in place, and return clusters."""
    reserved = {rule.name for rules in settings.rules for rule in rules.classes}
    renamings = share_letters(clusters, reserved)
    for name, (_, series) in by_metric.items():
        renamed = {}
        for key, values in series.items():
            letters = renamings.get((name, key.callpath), {})
            new = letters.get(key.behaviour)
            renamed[key if new is None else replace(key, behaviour=new)] = values
        series.clear()
        series.update(renamed)
    return rename_clusters(clusters, renamings)


def _cluster_by_run(
    clusters: Iterable[Clusters],
) -> dict[RunKey, dict[tuple[str, CallPath], Clusters]]:
    by_run: dict[RunKey, dict[tuple[str, CallPath], Clusters]] = defaultdict(dict)
    for entry in clusters:
        by_run[entry.run][entry.metric, entry.callpath] = entry
    return by_run


def _means_of_run(
    experiment: Experiment,
    classes: ClassMeans,
    clusters: Mapping[tuple[str, CallPath], Clusters],
    callpaths: Sequence[CallPath],
) -> dict[str, FloatArray]:
    """The mean of each series in a single run: (n_series,) by metric, NaN where it has no value.

    Args:
        experiment: the run.
        classes: with the series.
        clusters: of the ranks of this run, by metric and call path.
        callpaths: of all runs.
    """
    means = {}
    for name, keys in classes.keys.items():
        means[name] = _reduce_run(experiment, name, keys, clusters)
        for index, key in enumerate(keys):
            if key.callpath == WHOLE_RUN:
                means[name][index] = measure_whole_runs(experiment, callpaths)[key][0]
    return means


def _reduce_run(
    experiment: Experiment,
    metric: str,
    keys: Sequence[SeriesKey],
    clusters: Mapping[tuple[str, CallPath], Clusters],
) -> FloatArray:
    """The mean of each class, the mean over all ranks, or the maximum: (n_series,)."""
    series_of: dict[CallPath, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        series_of[key.callpath].append(index)

    reduced = np.full(len(keys), np.nan)
    for paths in chunk_paths(list(series_of), experiment):
        (values,) = values_by_run(experiment, metric, paths)
        overall = class_means(values, np.zeros(values.shape[1], dtype=np.intp), 1)[:, 0]
        highest = np.where(np.isfinite(values), values, -np.inf).max(axis=1, initial=-np.inf)
        of_all_ranks = {ALL: overall, MAXIMUM: np.where(np.isfinite(highest), highest, np.nan)}

        names = [[keys[index].behaviour for index in series_of[path]] for path in paths]
        entries = [clusters.get((metric, path)) for path in paths]
        for rows, labels, count in _share_labels(names, entries, values.shape[1]):
            by_class = class_means(values[rows], labels, count)
            for row, row_means in zip(rows, by_class, strict=True):
                for number, index in enumerate(series_of[paths[row]]):
                    of_all = of_all_ranks.get(names[row][number])
                    reduced[index] = row_means[number] if of_all is None else of_all[row]
    return reduced


def _share_labels(
    names: Sequence[Sequence[str]], entries: Sequence[Clusters | None], n_ranks: int
) -> Iterator[tuple[list[int], IntArray, int]]:
    """Call paths with the same classes in the same order: rows, labels (n_ranks,) and their number.

    A label is the position of its class among the series of the call path, -1 for none.

    Args:
        names: the classes of the series of each call path.
        entries: the clusters of the ranks.
        n_ranks: number of ranks.
    """
    shared: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for row, (classes, entry) in enumerate(zip(names, entries, strict=True)):
        content = () if entry is None else (id(entry.labels), entry.names)
        shared[tuple(classes), content].append(row)

    for rows in shared.values():
        classes, entry = names[rows[0]], entries[rows[0]]
        labels = np.full(n_ranks, -1, dtype=np.intp)
        if entry is not None:
            position = {name: number for number, name in enumerate(classes)}
            class_of_cluster = np.array([position.get(name, -1) for name in entry.names] + [-1])
            labels = class_of_cluster[entry.labels]  # label -1 is the last
        yield rows, labels, len(classes)
