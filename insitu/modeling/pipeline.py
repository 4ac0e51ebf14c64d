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

from insitu.entities import CallPath, Finding, Metric
from insitu.errors import ModelingError
from insitu.modeling import modelers
from insitu.modeling.base import (
    MAXIMUM,
    ClassMeans,
    Clusters,
    Model,
    ModelSet,
    SeriesModel,
)
from insitu.modeling.class_means import SeriesValues, find_class_means, series_by_metric
from insitu.modeling.classes.cluster import THRESHOLD
from insitu.modeling.classes.divergence import find_divergences
from insitu.modeling.classes.match import report_missing_classes
from insitu.modeling.classes.participation import name_few_ranks, report_serial_paths
from insitu.modeling.classes.rules import JOINT, PAPER, ClassSettings, Rules
from insitu.modeling.classes.run_groups import RunGroup, group_runs
from insitu.modeling.classes.supplements import WHOLE_RUN
from insitu.modeling.crowding import report_crowded_runs, report_team_sizes
from insitu.modeling.dependencies import Products
from insitu.modeling.measurement import Experiment
from insitu.modeling.series_fitter import (
    COST,
    MIN_COORDINATES,
    FitOptions,
    FittedSeries,
    SeriesFitter,
)


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
    executor: Executor | None = None,
) -> ModelSet:
    """Cluster the ranks of every run, match the classes across runs, and fit a model to each class.

    The value of a class in a run is the mean of its ranks.

    Args:
        experiment: the runs.
        options: how classes are found and models fitted.
        executor: computes the classes by call paths, the models by chunks of series. The result
            is the same without it.

    Returns:
        Models, clusters and findings in a fixed order.

    Raises:
        ModelingError: there is no such modeler or class method.
        UsageError: a class rule names something that a run does not have.
    """
    return remodel_again(experiment, options, executor=executor)[0]


def remodel_again(
    experiment: Experiment,
    options: RefitOptions = DEFAULT_OPTIONS,
    *,
    previous: ClassMeans | None = None,
    executor: Executor | None = None,
) -> tuple[ModelSet, ClassMeans]:
    """Do what `remodel` does, with the class means of an earlier state of the experiment.

    Args:
        experiment: the runs.
        options: how classes are found and models fitted.
        previous: class means, used where they are still valid.
        executor: as for `remodel`.

    Returns:
        The models, the same with `previous` as without, and the class means for the next call.

    Raises:
        ModelingError, UsageError: as `remodel`.
    """
    _require_class_method(options.classes)
    groups, findings = group_runs(experiment)
    too_few_points = _report_too_few_points(experiment, groups)
    findings += too_few_points

    # Partition the ranks, and reduce each class to a series.
    settings = ClassSettings(options.classes, options.threshold, tuple(options.rules))
    classes = find_class_means(experiment, groups, settings, previous=previous, executor=executor)
    findings += classes.findings

    # Fit the series of each metric.
    fitted = FittedSeries()
    if experiment.runs and not too_few_points:
        fit_options = FitOptions(options.modeler, options.dependencies)
        fitter = SeriesFitter(experiment, groups, fit_options, executor)
        fitted = _fit_metrics(fitter, series_by_metric(classes, experiment))
        findings += fitted.findings

    models = _mark_few_ranks(fitted.models, classes.clusters)
    findings += _report_classes(experiment, models, classes.clusters, fitted.supplements)
    model_set = replace(
        _make_model_set(experiment, models, classes.clusters, findings),
        supplements=_sort_series(fitted.supplements),
    )
    return model_set, classes


def _require_class_method(name: str) -> None:
    if name not in (JOINT, PAPER):
        raise ModelingError(f"no class method is called '{name}'; use '{JOINT}' or '{PAPER}'")


def _mark_few_ranks(
    models: Sequence[SeriesModel], clusters: Sequence[Clusters]
) -> list[SeriesModel]:
    """Models that say which ranks execute their call path where these are few.

    Args:
        models: of all series.
        clusters: of all call paths.
    """
    few_ranks = name_few_ranks(ModelSet(clusters=clusters))
    marked_models: dict[tuple[int, str], Model] = {}  # equal series share a model
    marked = []
    for series in models:
        ranks = few_ranks.get(series.key.callpath)
        if ranks is None:
            marked.append(series)
            continue
        key = (id(series.model), ranks)
        if key not in marked_models:
            marked_models[key] = series.model.mark_few_ranks(ranks)
        marked.append(replace(series, model=marked_models[key]))
    return marked


def _fit_metrics(fitter: SeriesFitter, by_metric: Mapping[Metric, SeriesValues]) -> FittedSeries:
    """Fit classes, means and maxima of all metrics, and the time of the whole run."""
    all_fitted = FittedSeries()
    for metrics in fitter.arrange(by_metric):
        classes: dict[Metric, SeriesValues] = {}
        maxima: dict[Metric, SeriesValues] = {}
        whole_run: dict[Metric, SeriesValues] = {}
        for metric in metrics:
            for key, row in by_metric[metric].items():
                is_maximum = key.behaviour == MAXIMUM
                kind = whole_run if key.callpath == WHOLE_RUN else maxima if is_maximum else classes
                kind.setdefault(metric, {})[key] = row

        fitted = fitter.fit(classes)
        all_fitted.models.extend(fitted.models)
        all_fitted.supplements.extend(fitted.supplements)
        for values in (maxima, whole_run):
            all_fitted.supplements.extend(fitter.fit(values).models)
        all_fitted.findings.extend(fitted.findings)
    return all_fitted


def _report_classes(
    experiment: Experiment,
    models: Sequence[SeriesModel],
    clusters: Sequence[Clusters],
    supplements: Sequence[SeriesModel],
) -> list[Finding]:
    """Findings about the models and classes of all call paths together."""
    comparable = models
    if experiment.crowded_runs():  # times of crowded runs show who had to wait
        comparable = [model for model in models if not model.metric.is_wall_time]
    run_time = next((s.model.values[-1] for s in supplements if s.key.callpath == WHOLE_RUN), 0.0)
    few_ranks = name_few_ranks(ModelSet(clusters=clusters))
    return [
        *find_divergences(comparable, clusters),
        *report_serial_paths(models, few_ranks, float(run_time)),
        *report_missing_classes(clusters),
        *report_crowded_runs(experiment),
        *report_team_sizes(experiment),
    ]


def _make_model_set(
    experiment: Experiment,
    models: Sequence[SeriesModel],
    clusters: Sequence[Clusters],
    findings: Sequence[Finding],
) -> ModelSet:
    with_cost = {model.key.callpath for model in models if model.key.metric == COST}
    position = _sort_paths(entry.callpath for entry in clusters)
    return ModelSet(
        parameters=experiment.parameters,
        models=_sort_series(models),
        clusters=sorted(clusters, key=lambda c: (position[c.callpath], c.metric, c.run.parameters)),
        findings=tuple(
            sorted(set(findings), key=lambda finding: (finding.where, finding.code, finding.text))
        ),
        rest=_unmodelled_shares(experiment, with_cost),
    )


def _sort_series(series: Iterable[SeriesModel]) -> list[SeriesModel]:
    """Sort by key. Tuples compare faster than keys."""
    listed = list(series)
    position = _sort_paths(each.key.callpath for each in listed)
    return sorted(
        listed, key=lambda each: (position[each.key.callpath], each.key.metric, each.key.behaviour)
    )


def _sort_paths(callpaths: Iterable[CallPath]) -> dict[CallPath, int]:
    """The position of each call path in their order: each has many series."""
    in_order = sorted(set(callpaths), key=lambda path: path.frames)
    return {path: number for number, path in enumerate(in_order)}


def _unmodelled_shares(
    experiment: Experiment, modelled: Collection[CallPath]
) -> dict[CallPath, float]:
    """The share of call paths without a model in the time of the largest run; see ModelSet."""
    if not modelled:
        return {}
    _, table = max(experiment.runs, key=lambda run: run[0].size)
    times = table.values.get(COST)
    if times is None or set(modelled).issuperset(table.callpaths):  # nothing needs to be read
        return {}

    spent = np.nansum(times, axis=1)
    total = float(spent.sum()) or 1.0
    shares: dict[CallPath, float] = {}
    for path, time in zip(table.callpaths, spent, strict=True):
        if path not in modelled and time > 0:
            shares[path] = float(time) / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _report_too_few_points(experiment: Experiment, groups: Sequence[RunGroup]) -> list[Finding]:
    """Report that there are too few coordinates for any model."""
    count = len({group.coordinate for group in groups})
    if count >= MIN_COORDINATES or not experiment.runs:
        return []
    names = ", ".join(experiment.parameters)
    text = f"models need {MIN_COORDINATES} values of {names}, {count} measured so far"
    return [Finding("too-few-points", text)]
