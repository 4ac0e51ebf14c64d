"""From an experiment to its models: partition the ranks, match the classes, fit every series.

A value goes through these types. An `Experiment` holds the table of every run. `MetricValues` are
the tables of one metric over all runs. A `Partition` assigns each rank of each run to a behaviour
class; the mean over the ranks of a class in each run makes a `Series`, with repetitions reduced to
medians. Modeler "evidence" turns it into `RelativeData`, whose errors are relative; fits every
hypothesis to them, which gives `Candidates` and beside them the `Posterior` probabilities; and
chooses one `Answer` per series. It becomes a `Model` in the `ModelSet`, which also has the classes
and the findings. The other modelers go from `Series` to `Model` directly.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import TIME, CallPath, Finding, Metric
from insitu.errors import ModelingError
from insitu.modeling import modelers
from insitu.modeling.base import (
    CROWDED,
    Clusters,
    ModelSet,
    SeriesModel,
)
from insitu.modeling.classes.cluster import THRESHOLD
from insitu.modeling.classes.divergence import find_divergences
from insitu.modeling.classes.domain import find_domains
from insitu.modeling.classes.finder import ClassFinder, MetricClasses
from insitu.modeling.classes.joint import ClassEvidence
from insitu.modeling.classes.match import report_missing_classes
from insitu.modeling.classes.naming import Namer
from insitu.modeling.classes.participation import (
    SERIAL_PATH,
    name_few_ranks,
    report_serial_paths,
)
from insitu.modeling.classes.rules import JOINT, PAPER, Rules
from insitu.modeling.classes.run_groups import (
    RunGroup,
    chunk_paths,
    coordinate_name,
    group_runs,
)
from insitu.modeling.classes.supplements import (
    WHOLE_RUN,
    measure_whole_runs,
)
from insitu.modeling.dependencies import (
    Products,
)
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey
from insitu.modeling.parallel import map_tasks
from insitu.modeling.series_fitter import (
    COST,
    MIN_COORDINATES,
    FitOptions,
    FittedSeries,
    SeriesFitter,
)

_Values = dict[SeriesKey, FloatArray]  # of series: (n_runs,)
_MetricSeries = tuple[Metric, _Values, _Values]  # of classes and means, and of maxima


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
    _require_class_method(options.classes)

    # What to fit again, and what to reuse.
    paths = experiment.callpaths()
    if modelers.load_modeler(options.modeler).shares_noise:
        touched = None  # each new value changes the models of all series of its metric
    stale = _stale_paths(paths, experiment, previous, touched)
    reused = _reuse(previous, set(paths) - set(stale)) if previous is not None else ModelSet()
    models, clusters, findings = [*reused.models], [*reused.clusters], [*reused.findings]
    supplements = [*reused.supplements]

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
    if experiment.runs and not too_few_points:
        fit_options = FitOptions(options.modeler, options.dependencies)
        fitted = _fit_metrics(SeriesFitter(experiment, groups, fit_options, executor), by_metric)
        models += fitted.models
        supplements += fitted.supplements
        findings += fitted.findings

    models = _mark_few_ranks(models, new_clusters)
    findings += _report_classes(experiment, models, clusters, supplements)
    return replace(
        _make_model_set(experiment, models, clusters, findings),
        supplements=sorted(supplements, key=lambda series: series.key),
    )


def _require_class_method(name: str) -> None:
    if name not in (JOINT, PAPER):
        raise ModelingError(f"no class method is called '{name}'; use '{JOINT}' or '{PAPER}'")


def _mark_few_ranks(
    models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[SeriesModel]:
    """Models that say which ranks execute their call path where these are few.

    Args:
        models: of all series.
        clusters: of the call paths that were fitted again; the others are marked already.
    """
    few_ranks = name_few_ranks(ModelSet(clusters=clusters))
    marked = []
    for series in models:
        ranks = few_ranks.get(series.key.callpath)
        marked.append(series if ranks is None else series.mark_few_ranks(ranks))
    return marked


def _fit_metrics(fitter: SeriesFitter, by_metric: Mapping[str, _MetricSeries]) -> FittedSeries:
    """Fit classes, means and maxima of all metrics, and the time of the whole run."""
    all_fitted = FittedSeries()
    for metric, series, maxima in by_metric.values():
        fitted = fitter.fit(metric, series)
        all_fitted.models.extend(fitted.models)
        all_fitted.supplements.extend([*fitted.supplements, *fitter.fit(metric, maxima).models])
        all_fitted.findings.extend(fitted.findings)

    whole_run = fitter.fit(TIME, measure_whole_runs(fitter.experiment))
    all_fitted.supplements.extend(whole_run.models)
    return all_fitted


def _collect_classes(
    chunks: Iterable[Sequence[MetricClasses]],
) -> tuple[dict[str, _MetricSeries], list[Clusters], list[Finding]]:
    """The series of each metric, the clusters and the findings of all chunks of call paths.

    Equal labels are one array in memory: most call paths share theirs with others.
    """
    by_metric: dict[str, _MetricSeries] = {}
    clusters: list[Clusters] = []
    findings: list[Finding] = []
    labels_by_content: dict[bytes, np.ndarray] = {}
    for chunk in chunks:
        for classes in chunk:
            _, series, maxima = by_metric.setdefault(classes.metric.name, (classes.metric, {}, {}))
            series.update(classes.series)
            maxima.update(classes.maxima)
            findings += classes.findings
            for entry in classes.clusters:
                labels = labels_by_content.setdefault(entry.labels.tobytes(), entry.labels)
                clusters.append(replace(entry, labels=labels))
    return by_metric, clusters, findings


def _report_classes(
    experiment: Experiment,
    models: Sequence[SeriesModel],
    clusters: Sequence[Clusters],
    supplements: Sequence[SeriesModel],
) -> list[Finding]:
    """Findings about the models and classes of all call paths together."""
    comparable = models
    if experiment.crowded:  # times of crowded runs show who had to wait
        comparable = [model for model in models if model.metric.unit != TIME.unit]
    run_time = next((s.model.values[-1] for s in supplements if s.key.callpath == WHOLE_RUN), 0.0)
    few_ranks = name_few_ranks(ModelSet(clusters=clusters))
    return [
        *find_divergences(comparable, clusters),
        *report_serial_paths(models, few_ranks, float(run_time)),
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
        is_of_clean_path = finding.where in names and finding.code not in (
            "classes-diverge",
            SERIAL_PATH,
        )
        if is_of_clean_path or (clean and finding.code == "not-modelled"):
            findings.append(finding)

    return ModelSet(
        parameters=previous.parameters,
        models=[model for model in previous.models if model.key.callpath in clean],
        supplements=[model for model in previous.supplements if model.key.callpath in clean],
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
