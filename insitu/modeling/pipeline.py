"""From an experiment to its models: cluster, match, reduce, fit, only what was touched."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, MetricKind
from insitu.errors import ModelingError
from insitu.modeling import modelers
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.classes.behaviour import (
    ClassSeries,
    MetricValues,
    Partition,
    partition_by_distance,
    reduce_classes,
    report_unmatched,
)
from insitu.modeling.classes.cluster import THRESHOLD, BoolArray
from insitu.modeling.classes.divergence import find_divergences
from insitu.modeling.classes.domain import find_domains
from insitu.modeling.classes.joint import ClassEvidence, partition_jointly
from insitu.modeling.classes.match import report_missing_classes
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.rules import JOINT, PAPER, Rules, apply_rules
from insitu.modeling.classes.run_groups import RunGroup, coordinate_name, group_runs, values_by_run
from insitu.modeling.dependencies import Products, fit_told, told_of
from insitu.modeling.measurement import Experiment, FloatArray, Points

COST = TIME_EXCLUSIVE.name  # what shares of call paths are told by
MIN_COORDINATES = 3  # fewer cannot tell a constant from a growth


@dataclass(frozen=True, slots=True)
class Way:
    """How the series of a metric are fitted: by whom, where, and what is told of call paths."""

    modeler: str
    executor: Executor | None
    told: Mapping[CallPath, Products]


@dataclass(frozen=True, slots=True)
class RefitOptions:
    """How `remodel` finds behaviour classes and fits models.

    modeler: name in the table of modelers. classes: "joint" uses counts, times where counts do not
    separate the ranks, and laws of value and size; "paper" uses relative distance alone
    [CLU §III-B]. threshold: relative distance at which a new cluster begins, for "paper". rules:
    class rules of the user, for the call paths and metrics that they name. dependencies: the
    products of parameters that the work of a call path depends on, where they are known.
    """

    modeler: str = modelers.DEFAULT
    classes: str = JOINT
    threshold: float = THRESHOLD
    rules: Sequence[Rules] = ()
    dependencies: Mapping[CallPath, Products] = field(default_factory=dict)


DEFAULT_OPTIONS = RefitOptions()


def remodel(
    experiment: Experiment,
    options: RefitOptions = DEFAULT_OPTIONS,
    *,
    previous: ModelSet | None = None,
    touched: Collection[CallPath] | None = None,
    executor: Executor | None = None,
) -> ModelSet:
    """Cluster the ranks of every run, recognise the classes across runs, model each of them.

    Args:
        experiment: runs that may be joined; the value of a class in one is the mean of its ranks.
        options: how classes are found and models fitted.
        previous: models of an earlier state of the experiment, for what was not touched.
        touched: call paths that changed since, None for all; all where the modeler shares noise.
        executor: does the work, metric by metric for classes and in parts for models; the result
            is the same.

    Returns:
        Models, clusters and findings in a fixed order: the same with `previous` as without.

    Raises:
        ModelingError, UsageError: no such modeler or classes; a rule names what a run has not.
    """
    if options.classes not in (JOINT, PAPER):
        raise ModelingError(
            f"no way to find classes is called '{options.classes}'; use {JOINT} or {PAPER}"
        )
    paths = experiment.callpaths()
    shares_noise = modelers.modeler(options.modeler).shares_noise  # a run tells all series of it
    dirty = _dirty(paths, experiment, previous, None if shares_noise else touched)
    places, findings = group_runs(experiment)
    result = _kept(previous, set(paths) - set(dirty)) if previous else ModelSet()
    models, clusters, sparse = [*result.models], [*result.clusters], _sparse(experiment, places)
    findings += [*result.findings, *sparse]
    domains, asked = find_domains(experiment, places), _below(paths, dirty)
    clues = (
        ClassEvidence.of(experiment, asked, places, domains) if options.classes == JOINT else None
    )
    namer = Namer.of(domains, [one.size for one in places])
    metrics = _measured(experiment, dirty, places)
    part = partial(_part, clues=clues, threshold=options.threshold)
    found = map(part, metrics) if executor is None else executor.map(part, metrics)
    for measured, unruled in zip(metrics, found, strict=True):
        ruled = apply_rules(measured, unruled, options.rules, domains)
        partition = namer.name(measured, ruled, is_literal=options.classes == PAPER)
        series, parted = reduce_classes(measured, partition)
        clusters += parted
        findings += [*partition.findings, *report_unmatched(measured, partition)]
        if not sparse:
            told = told_of(measured.metric, paths, options.dependencies)
            made, said = _fit(series, experiment, places, Way(options.modeler, executor, told))
            models, findings = [*models, *made], [*findings, *said]
    findings += _of_all(experiment, models, clusters)
    return _sorted(experiment, models, clusters, findings)


def _of_all(
    experiment: Experiment, models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[Finding]:
    """What is said about the models and classes of all call paths together."""
    times_tell = not experiment.crowded
    known = [one for one in models if times_tell or one.metric.unit != TIME.unit]
    return [
        *find_divergences(known, clusters),
        *report_missing_classes(clusters),
        *_crowded(experiment),
    ]


def _sorted(
    experiment: Experiment,
    models: Sequence[SeriesModel],
    clusters: Sequence[Clusters],
    findings: Sequence[Finding],
) -> ModelSet:
    return ModelSet(
        experiment.parameters,
        sorted(models, key=lambda one: one.key),
        sorted(clusters, key=lambda one: (one.callpath, one.metric, one.run.parameters)),
        tuple(sorted(set(findings), key=lambda one: (one.where, one.code, one.text))),
        _rest(experiment, {one.key.callpath for one in models if one.key.metric == COST}),
    )


def _rest(experiment: Experiment, known: Collection[CallPath]) -> dict[CallPath, float]:
    """The share of call paths that are not known in the time of the largest run; see ModelSet."""
    if not known:
        return {}
    _, table = max(experiment.runs, key=lambda run: run[0].size)
    times = table.values.get(COST)
    if times is None:
        return {}
    spent = np.nansum(times, axis=1)
    total = float(spent.sum()) or 1.0
    rest = {
        path: float(time) / total
        for path, time in zip(table.callpaths, spent, strict=True)
        if path not in known and time > 0
    }
    return dict(sorted(rest.items(), key=lambda item: (-item[1], item[0])))


def _measured(
    experiment: Experiment, dirty: Sequence[CallPath], places: Sequence[RunGroup]
) -> list[MetricValues]:
    """The metrics that are modelled, in the order of their names."""
    return [
        MetricValues(metric, dirty, values_by_run(experiment, name, dirty), places)
        for name, metric in sorted(experiment.metrics().items())
        if metric.kind is not MetricKind.POSITION
    ]


def _part(measured: MetricValues, clues: ClassEvidence | None, *, threshold: float) -> Partition:
    """The classes of one metric: by all clues or by distance."""
    if clues is None:
        return partition_by_distance(measured, threshold)
    return partition_jointly(measured, clues)


def _crowded(experiment: Experiment) -> list[Finding]:
    """Say whose times are not asked for classes."""
    if not experiment.crowded:
        return []
    names = sorted(
        {coordinate_name(key) for key in experiment.crowded}, key=lambda name: (len(name), name)
    )
    text = (
        f"more ranks than processor cores at {' '.join(names)}: times tell who had to wait, so "
        "counts alone decide which ranks behave alike"
    )
    return [Finding("ranks-crowded", text)]


def _dirty(
    paths: Sequence[CallPath],
    experiment: Experiment,
    previous: ModelSet | None,
    touched: Collection[CallPath] | None,
) -> list[CallPath]:
    """What must be made anew: everything, where the models before had other parameters."""
    if previous is None or touched is None or previous.parameters != experiment.parameters:
        return list(paths)
    known = {one.callpath for one in previous.clusters}
    changed = {path for path in paths if path in set(touched) or path not in known}
    above = {CallPath(path.frames[:end]) for path in changed for end in range(len(path.frames))}
    return [path for path in paths if path in changed or path in above]


def _below(paths: Sequence[CallPath], dirty: Sequence[CallPath]) -> list[CallPath]:
    """What is made anew and all call paths below it: their counts are witnesses."""
    roots = set(dirty)
    return [
        path
        for path in paths
        if any(CallPath(path.frames[:end]) in roots for end in range(len(path.frames) + 1))
    ]


def _kept(previous: ModelSet, clean: set[CallPath]) -> ModelSet:
    """The part of earlier models that is still true."""
    places = set(map(str, clean))
    return ModelSet(
        previous.parameters,
        [one for one in previous.models if one.key.callpath in clean],
        [one for one in previous.clusters if one.callpath in clean],
        tuple(
            one
            for one in previous.findings
            if (one.where in places and one.code != "classes-diverge")
            or (clean and one.code == "not-modelled")
        ),
    )


def _sparse(experiment: Experiment, places: Sequence[RunGroup]) -> list[Finding]:
    """Say that no model is made yet."""
    number = len({place.coordinate for place in places})
    if number >= MIN_COORDINATES or not experiment.runs:
        return []
    names = ", ".join(experiment.parameters)
    return [
        Finding(
            "too-few-points",
            f"models need {MIN_COORDINATES} values of {names}, {number} measured so far",
        )
    ]


def _fit(
    series: Sequence[ClassSeries], experiment: Experiment, places: Sequence[RunGroup], way: Way
) -> tuple[list[SeriesModel], list[Finding]]:
    """Fit series at once where they share coordinates; crowded runs depend on their crowd, too."""
    if not series:
        return [], []
    parameters = experiment.parameters
    is_told = bool(way.told) and not experiment.crowded and len(parameters) > 1
    coordinates, cube = _by_coordinate(np.array([one.values for one in series]), places)
    groups: dict[bytes, list[int]] = defaultdict(list)
    measured: BoolArray = np.asarray(np.isfinite(cube).any(axis=2))
    for index, row in enumerate(measured):
        groups[row.tobytes()].append(index)
    models: list[SeriesModel] = []
    findings: list[Finding] = []
    for members in groups.values():
        at = measured[members[0]]
        if at.sum() < MIN_COORDINATES:
            findings += [_rare(series[index], int(at.sum())) for index in members]
            continue
        values = cube[members][:, at]
        used = np.isfinite(values).any(axis=(0, 1))
        try:
            if is_told:
                keys = [series[index].key for index in members]
                points = Points(parameters, coordinates[at], values[:, :, used], keys)
                made = fit_told(points, way.told, way.modeler)
            else:
                made = modelers.fit(
                    coordinates[at],
                    values[:, :, used],
                    parameters=parameters,
                    modeler=way.modeler,
                    executor=way.executor,
                )
        except ModelingError as error:
            findings.append(Finding("not-modelled", str(error)))
            continue
        models += [
            SeriesModel(series[index].key, series[index].metric, model)
            for index, model in zip(members, made, strict=True)
        ]
    return models, findings


def _by_coordinate(values: FloatArray, places: Sequence[RunGroup]) -> tuple[FloatArray, FloatArray]:
    """From (n_series, n_runs) to coordinates and (n_series, n_coordinates, n_repetitions)."""
    runs: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for place in places:
        runs[place.coordinate] += place.runs
    cube = np.full((len(values), len(runs), max(map(len, runs.values()))), np.nan)
    for index, members in enumerate(runs.values()):
        cube[:, index, : len(members)] = values[:, members]
    return np.array(list(runs), dtype=np.float64), cube


def _rare(series: ClassSeries, number: int) -> Finding:
    key = series.key
    return Finding(
        "too-few-points",
        f"{key.metric} of {key.callpath.name}, class {key.behaviour}: measured at {number} "
        f"coordinate{'s' * (number != 1)}, {MIN_COORDINATES} are needed for a model",
        str(key.callpath),
    )
