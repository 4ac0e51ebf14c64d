"""From an experiment to its models: partition the ranks, match the classes, fit every series.

A value goes through these types. An `Experiment` holds the table of every run. `MetricValues` are
the tables of one metric over all runs. A `Partition` assigns each rank of each run to a behaviour
class; the mean over the ranks of a class in each run makes a `Series`, with repetitions reduced to
medians. Modeler "evidence" turns it into `RelativeData`, whose errors are relative; fits every
hypothesis to them, which gives `Candidates` and beside them the `Posterior` probabilities; and
chooses one `Answer` per series. It becomes a `Model` in the `ModelSet`, which also has the classes
and the findings. The other modelers go from `Series` to `Model` directly.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, Metric
from insitu.errors import ModelingError
from insitu.modeling import modelers
from insitu.modeling.base import CROWDED, Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.classes.cluster import THRESHOLD, BoolArray
from insitu.modeling.classes.divergence import find_divergences
from insitu.modeling.classes.domain import find_domains
from insitu.modeling.classes.finder import ClassFinder, MetricClasses
from insitu.modeling.classes.joint import ClassEvidence
from insitu.modeling.classes.match import report_missing_classes
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.rules import JOINT, PAPER, Rules
from insitu.modeling.classes.run_groups import (
    RunGroup,
    chunk_paths,
    coordinate_name,
    group_runs,
)
from insitu.modeling.dependencies import (
    Products,
    dependencies_of_metric,
    fit_with_dependencies,
)
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey
from insitu.modeling.parallel import map_tasks
from insitu.modeling.run_effects import (
    find_disturbed_runs,
    remove_disturbed_runs,
    report_disturbed_run,
)

COST = TIME_EXCLUSIVE.name  # the metric by which call paths have shares
MIN_COORDINATES = 3  # fewer cannot distinguish a constant from growth


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
    """Cluster the ranks of every run, match the classes across runs, and fit a model to each class.

    The value of a class in a run is the mean of its ranks.

    Args:
        experiment: the runs.
        options: how classes are found and models fitted.
        previous: models of an earlier state of the experiment, reused where nothing has changed.
        touched: call paths that have changed since, None for all. If the modeler shares noise
            between series, everything is fitted again.
        executor: computes the classes by call paths, the models by chunks of series. The result
            is the same without it.

    Returns:
        Models, clusters and findings in a fixed order, the same with `previous` as without.

    Raises:
        ModelingError: there is no such modeler or class method.
        UsageError: a class rule names something that a run does not have.
    """
    if options.classes not in (JOINT, PAPER):
        raise ModelingError(
            f"no class method is called '{options.classes}'; use '{JOINT}' or '{PAPER}'"
        )

    # What to fit again, and what to reuse.
    paths = experiment.callpaths()
    if modelers.load_modeler(options.modeler).shares_noise:
        touched = None  # each new value changes the models of all series of its metric
    stale = _stale_paths(paths, experiment, previous, touched)
    reused = _reuse(previous, set(paths) - set(stale)) if previous is not None else ModelSet()
    models, clusters, findings = [*reused.models], [*reused.clusters], [*reused.findings]

    groups, group_findings = group_runs(experiment)
    findings += group_findings
    too_few_points = _report_too_few_points(experiment, groups)
    findings += too_few_points

    # Partition the ranks, and reduce each class to a series.
    domains = find_domains(experiment, groups)
    evidence = None
    if options.classes == JOINT:
        stale_and_below = _with_descendants(paths, stale)
        evidence = ClassEvidence.of(experiment, stale_and_below, groups, domains)
    finder = ClassFinder(
        experiment=experiment,
        groups=groups,
        domains=domains,
        evidence=evidence,
        threshold=options.threshold,
        rules=options.rules,
        namer=Namer.of(domains, [group.size for group in groups]),
    )
    by_metric, new_clusters, class_findings = _collect_classes(
        map_tasks(executor, finder.find, chunk_paths(stale, experiment))
    )
    clusters += new_clusters
    findings += class_findings

    # Fit the series of each metric.
    fitter = _SeriesFitter(experiment, groups, options, executor)
    for metric, series in () if too_few_points else by_metric.values():
        metric_models, metric_findings = fitter.fit(metric, series)
        models += metric_models
        findings += metric_findings

    findings += _report_classes(experiment, models, clusters)
    return _make_model_set(experiment, models, clusters, findings)


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
            findings += classes.findings
            for entry in classes.clusters:
                labels = labels_by_content.setdefault(entry.labels.tobytes(), entry.labels)
                clusters.append(replace(entry, labels=labels))
    return by_metric, clusters, findings


def _report_classes(
    experiment: Experiment, models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[Finding]:
    """Findings about the models and classes of all call paths together."""
    comparable = models
    if experiment.crowded:  # times of crowded runs show who had to wait
        comparable = [model for model in models if model.metric.unit != TIME.unit]
    return [
        *find_divergences(comparable, clusters),
        *report_missing_classes(clusters),
        *_report_crowded_runs(experiment),
    ]


def _make_model_set(
    experiment: Experiment,
    models: Sequence[SeriesModel],
    clusters: Sequence[Clusters],
    findings: Sequence[Finding],
) -> ModelSet:
    with_cost = {model.key.callpath for model in models if model.key.metric == COST}
    return ModelSet(
        parameters=experiment.parameters,
        models=sorted(models, key=lambda model: model.key),
        clusters=sorted(clusters, key=lambda c: (c.callpath, c.metric, c.run.parameters)),
        findings=tuple(
            sorted(set(findings), key=lambda finding: (finding.where, finding.code, finding.text))
        ),
        rest=_unmodelled_shares(experiment, with_cost),
    )


def _unmodelled_shares(
    experiment: Experiment, modelled: Collection[CallPath]
) -> dict[CallPath, float]:
    """The share of call paths without a model in the time of the largest run; see ModelSet."""
    if not modelled:
        return {}
    _, table = max(experiment.runs, key=lambda run: run[0].size)
    times = table.values.get(COST)
    if times is None:
        return {}

    spent = np.nansum(times, axis=1)
    total = float(spent.sum()) or 1.0
    shares: dict[CallPath, float] = {}
    for path, time in zip(table.callpaths, spent, strict=True):
        if path not in modelled and time > 0:
            shares[path] = float(time) / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _report_crowded_runs(experiment: Experiment) -> list[Finding]:
    """Report the runs whose times are not used to find classes."""
    if not experiment.crowded:
        return []
    names = {coordinate_name(key) for key in experiment.crowded}
    in_order = sorted(names, key=lambda name: (len(name), name))
    text = (
        f"more ranks than processor cores at {' '.join(in_order)}: times show which ranks had to "
        "wait, so only counts decide which ranks behave alike"
    )
    return [Finding(CROWDED, text)]


def _stale_paths(
    paths: Sequence[CallPath],
    experiment: Experiment,
    previous: ModelSet | None,
    touched: Collection[CallPath] | None,
) -> list[CallPath]:
    """The call paths to fit again: all of them if the previous models had other parameters."""
    if previous is None or touched is None or previous.parameters != experiment.parameters:
        return list(paths)

    touched = set(touched)
    had_clusters = {clusters.callpath for clusters in previous.clusters}
    changed = {path for path in paths if path in touched or path not in had_clusters}

    # An inclusive value changes with the call paths below it.
    above: set[CallPath] = set()
    for path in changed:
        above.update(CallPath(path.frames[:end]) for end in range(len(path.frames)))
    return [path for path in paths if path in changed or path in above]


def _with_descendants(paths: Sequence[CallPath], stale: Sequence[CallPath]) -> list[CallPath]:
    """The stale call paths and all below them, whose counts are evidence for their classes."""
    roots = set(stale)

    def is_in_subtree(path: CallPath) -> bool:
        ends = range(len(path.frames) + 1)
        return any(CallPath(path.frames[:end]) in roots for end in ends)

    return [path for path in paths if is_in_subtree(path)]


def _reuse(previous: ModelSet, clean: set[CallPath]) -> ModelSet:
    """The models, clusters and findings of earlier models that are still valid."""
    names = set(map(str, clean))
    findings = []
    for finding in previous.findings:
        is_of_clean_path = finding.where in names and finding.code != "classes-diverge"
        if is_of_clean_path or (clean and finding.code == "not-modelled"):
            findings.append(finding)

    return ModelSet(
        parameters=previous.parameters,
        models=[model for model in previous.models if model.key.callpath in clean],
        clusters=[clusters for clusters in previous.clusters if clusters.callpath in clean],
        findings=tuple(findings),
    )


def _report_too_few_points(experiment: Experiment, groups: Sequence[RunGroup]) -> list[Finding]:
    """Report that there are too few coordinates for any model."""
    count = len({group.coordinate for group in groups})
    if count >= MIN_COORDINATES or not experiment.runs:
        return []
    names = ", ".join(experiment.parameters)
    text = f"models need {MIN_COORDINATES} values of {names}, {count} measured so far"
    return [Finding("too-few-points", text)]


@dataclass(frozen=True, slots=True)
class _SeriesFitter:
    """Fits the series of a metric, those with the same coordinates at once."""

    experiment: Experiment
    groups: Sequence[RunGroup]
    options: RefitOptions
    executor: Executor | None

    def fit(
        self, metric: Metric, series: Mapping[SeriesKey, FloatArray]
    ) -> tuple[list[SeriesModel], list[Finding]]:
        """Return models, and findings about series without one.

        Args:
            series: values (n_runs,) by key, NaN where nothing was measured.
        """
        if not series:
            return [], []
        keys = list(series)
        coordinates, cube = _by_coordinate(np.array(list(series.values())), self.groups)
        dependencies = self._dependencies(metric)
        findings: list[Finding] = []
        if metric.unit == TIME.unit:
            cube, disturbed = self._without_disturbed_runs(cube)
            findings += disturbed if metric.name == COST else []

        # Series that were measured at the same coordinates.
        is_measured: BoolArray = np.asarray(np.isfinite(cube).any(axis=2))
        rows_of: dict[bytes, list[int]] = defaultdict(list)
        for row, at_coordinates in enumerate(is_measured):
            rows_of[at_coordinates.tobytes()].append(row)

        models: list[SeriesModel] = []
        for rows in rows_of.values():
            own_keys = [keys[row] for row in rows]
            at = is_measured[rows[0]]
            if at.sum() < MIN_COORDINATES:
                findings += [_report_few_coordinates(key, int(at.sum())) for key in own_keys]
                continue

            values = cube[rows][:, at]
            is_used = np.isfinite(values).any(axis=(0, 1))
            try:
                fitted = self._fit(coordinates[at], values[:, :, is_used], own_keys, dependencies)
            except ModelingError as error:
                findings.append(Finding("not-modelled", str(error)))
                continue
            crowding = self._report_crowding(metric, coordinates[at])
            for key, model in zip(own_keys, fitted, strict=True):
                marked = replace(model, findings=(*model.findings, *crowding))
                models.append(SeriesModel(key, metric, marked if crowding else model))
        return models, findings

    def _without_disturbed_runs(self, cube: FloatArray) -> tuple[FloatArray, list[Finding]]:
        """Times without runs that were slow as a whole, and a finding about each of these."""
        disturbed = find_disturbed_runs(cube)
        runs_at = list(_runs_by_coordinate(self.groups).values())
        findings = []
        for run in disturbed:
            index = runs_at[run.coordinate][run.repetition]
            findings.append(report_disturbed_run(run, self.experiment.runs[index][0]))
        return remove_disturbed_runs(cube, disturbed), findings

    def _report_crowding(self, metric: Metric, coordinates: FloatArray) -> list[Finding]:
        """A finding for models of times if ranks of a run at these coordinates shared cores."""
        if metric.unit != TIME.unit:
            return []

        used = set(map(tuple, coordinates.tolist()))
        densities = []
        for key, cores in self.experiment.crowded.items():
            if key.coordinate(self.experiment.parameters) in used:
                densities.append((key.size / cores, key.size, cores))
        if not densities:
            return []
        _, ranks, cores = max(densities)
        return [Finding(CROWDED, f"{ranks} ranks on {cores} core{'s' * (cores != 1)}")]

    def _dependencies(self, metric: Metric) -> dict[CallPath, Products]:
        """What is known for this metric; nothing for one parameter, or for crowded runs.

        The times of crowded runs also depend on how many ranks share a core.
        """
        if self.experiment.crowded or len(self.experiment.parameters) == 1:
            return {}
        paths = self.experiment.callpaths()
        return dependencies_of_metric(metric, paths, self.options.dependencies)

    def _fit(
        self,
        coordinates: FloatArray,
        values: FloatArray,
        keys: Sequence[SeriesKey],
        dependencies: Mapping[CallPath, Products],
    ) -> list[Model]:
        parameters = self.experiment.parameters
        if dependencies:
            return fit_with_dependencies(
                parameters,
                coordinates,
                values,
                keys,
                dependencies=dependencies,
                modeler=self.options.modeler,
            )
        return modelers.fit(
            coordinates,
            values,
            parameters=parameters,
            modeler=self.options.modeler,
            executor=self.executor,
        )


def _runs_by_coordinate(groups: Sequence[RunGroup]) -> dict[tuple[float, ...], list[int]]:
    """The indices of the runs at each coordinate."""
    runs_at: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for group in groups:
        runs_at[group.coordinate] += group.runs
    return runs_at


def _by_coordinate(values: FloatArray, groups: Sequence[RunGroup]) -> tuple[FloatArray, FloatArray]:
    """Arrange values by coordinate and repetition.

    Args:
        values: (n_series, n_runs).

    Returns:
        Coordinates (n_coordinates, n_parameters), and values (n_series, n_coordinates,
        n_repetitions), NaN where a coordinate has fewer repetitions.
    """
    runs_at = _runs_by_coordinate(groups)
    n_repetitions = max(map(len, runs_at.values()))
    cube = np.full((len(values), len(runs_at), n_repetitions), np.nan)
    for index, runs in enumerate(runs_at.values()):
        cube[:, index, : len(runs)] = values[:, runs]
    return np.array(list(runs_at), dtype=np.float64), cube


def _report_few_coordinates(key: SeriesKey, count: int) -> Finding:
    text = (
        f"{key.metric} of {key.callpath.name}, class {key.behaviour}: measured at {count} "
        f"coordinate{'s' * (count != 1)}, {MIN_COORDINATES} are needed for a model"
    )
    return Finding("too-few-points", text, str(key.callpath))
