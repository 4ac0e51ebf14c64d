"""Fits series of values, and marks models of crowded runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, Metric
from insitu.errors import ModelingError
from insitu.modeling import modelers
from insitu.modeling.base import ALL, CROWDED, Model, SeriesModel
from insitu.modeling.class_means import SeriesValues
from insitu.modeling.classes.cluster import BoolArray
from insitu.modeling.classes.run_groups import RunGroup
from insitu.modeling.crowding import describe_crowding
from insitu.modeling.dependencies import Products, dependencies_of_metric, fit_with_dependencies
from insitu.modeling.measurement import Experiment, FloatArray, SeriesKey
from insitu.modeling.run_effects import (
    RUN_DISTURBED,
    find_disturbed_runs,
    remove_disturbed_runs,
    report_disturbed_run,
)
from insitu.modeling.sampling import sampling_variances

COST = TIME_EXCLUSIVE.name  # the metric by which call paths have shares
MIN_COORDINATES = 3  # fewer cannot distinguish a constant from growth


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How series are fitted.

    modeler: name in the table of modelers. dependencies: the products of parameters that the work
    of a call path depends on, where they are known.
    """

    modeler: str = modelers.DEFAULT
    dependencies: Mapping[CallPath, Products] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FittedSeries:
    """Models of series; supplements: of classes with the law of the mean."""

    models: list[SeriesModel] = field(default_factory=list)
    supplements: list[SeriesModel] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SeriesFitter:
    """Fits series, those with the same coordinates at once."""

    experiment: Experiment
    groups: Sequence[RunGroup]
    options: FitOptions
    executor: Executor | None

    def arrange(self, metrics: Iterable[Metric]) -> list[list[Metric]]:
        """Return the metrics in groups that are fitted together.

        The inclusive and the exclusive time of a function that calls none are the same values, so
        that they need the same model. They depend on different parameters where these are known.
        """
        groups: dict[str, list[Metric]] = {}
        for metric in metrics:
            is_time = metric in (TIME, TIME_EXCLUSIVE) and not self._dependencies(metric)
            groups.setdefault(TIME.name if is_time else metric.name, []).append(metric)
        return list(groups.values())

    def fit(self, series: Mapping[Metric, SeriesValues]) -> FittedSeries:
        """Return models, and findings about series without one.

        A class with too few coordinates for a model has the law of the mean over all ranks.

        Args:
            series: by metric; of metrics that `arrange` has put together.
        """
        metric_of = {key: metric for metric, values in series.items() for key in values}
        if not metric_of:
            return FittedSeries()
        keys = list(metric_of)
        of_runs = np.array([series[metric][key] for key, metric in metric_of.items()])
        coordinates, cube = _by_coordinate(of_runs, self.groups)
        known = self._known_variances(series)
        metric = metric_of[keys[0]]
        findings: list[Finding] = []
        if metric.is_wall_time:
            cube, crowded = self._without_crowded_runs(cube)
            is_cost = np.array([key.metric == COST for key in keys])
            cube, disturbed = self._without_disturbed_runs(cube, is_cost | ~is_cost.any())
            findings += [*disturbed, *crowded] if is_cost.any() else []

        # Series that were measured at the same coordinates.
        is_measured: BoolArray = np.asarray(np.isfinite(cube).any(axis=2))
        rows_of: dict[bytes, list[int]] = defaultdict(list)
        for row, at_coordinates in enumerate(is_measured):
            rows_of[at_coordinates.tobytes()].append(row)

        models: list[SeriesModel] = []
        too_short: list[int] = []
        for rows in rows_of.values():
            at = is_measured[rows[0]]
            if at.sum() < MIN_COORDINATES:
                findings += [_report_few_coordinates(keys[row], int(at.sum())) for row in rows]
                too_short += rows
                continue

            model_of = _find_equal(rows, keys, cube, known)
            distinct = list(dict.fromkeys(model_of))
            values = cube[distinct][:, at]
            is_used = np.isfinite(values).any(axis=(0, 1))
            try:
                fitted = self._fit(
                    coordinates[at],
                    values[:, :, is_used],
                    [keys[row] for row in distinct],
                    self._dependencies(metric),
                    None if known is None else known[distinct][:, at][:, :, is_used],
                    is_exact=metric.is_deterministic,
                )
            except ModelingError as error:
                findings.append(Finding("not-modelled", str(error)))
                continue
            crowding = self._report_crowding(metric, coordinates[at])
            fitted_of = dict(zip(distinct, _add_findings(fitted, crowding), strict=True))
            for row, first in zip(rows, model_of, strict=True):
                models.append(SeriesModel(keys[row], metric_of[keys[row]], fitted_of[first]))

        means = {(s.key.callpath, s.metric): s for s in models if s.key.behaviour == ALL}
        supplements = []
        for row in too_short:
            at, key = is_measured[row], keys[row]
            mean = means.get((key.callpath, metric_of[key]))
            if at.any() and mean is not None:
                values = np.nanmedian(cube[row][at], axis=1)
                supplements.append(mean.lend_law(key, coordinates[at], values))
        return FittedSeries(models, supplements, findings)

    def _known_variances(self, series: Mapping[Metric, SeriesValues]) -> FloatArray | None:
        """The variances that are known, arranged as the values are; None if there are none."""
        known = [
            sampling_variances(self.experiment, metric.name, values)
            for metric, values in series.items()
        ]
        arrays = [variances for variances in known if variances is not None]
        return _by_coordinate(np.concatenate(arrays), self.groups)[1] if arrays else None

    def _without_crowded_runs(self, cube: FloatArray) -> tuple[FloatArray, list[Finding]]:
        """Times without the crowded runs that others make up for, and a finding about each."""
        unused = self.experiment.unused_times()
        if not unused:
            return cube, []
        cube, findings = cube.copy(), []
        for index, runs in enumerate(_runs_by_coordinate(self.groups).values()):
            for repetition, run in enumerate(runs):
                key = self.experiment.runs[run][0]
                if key in unused:
                    cube[:, index, repetition] = np.nan
                    reason = describe_crowding(self.experiment, [key])
                    text = f"run {key}: {reason}; its times are not used for models"
                    findings.append(Finding(RUN_DISTURBED, text))
        return cube, findings

    def _without_disturbed_runs(
        self, cube: FloatArray, is_judged: BoolArray
    ) -> tuple[FloatArray, list[Finding]]:
        """Times without runs that were slow as a whole, and a finding about each of these.

        Args:
            is_judged: (n_series,), which of them show whether a run was slow.
        """
        disturbed = find_disturbed_runs(cube[is_judged])
        runs_at = list(_runs_by_coordinate(self.groups).values())
        findings = []
        for run in disturbed:
            index = runs_at[run.coordinate][run.repetition]
            findings.append(report_disturbed_run(run, self.experiment.runs[index][0]))
        return remove_disturbed_runs(cube, disturbed), findings

    def _report_crowding(self, metric: Metric, coordinates: FloatArray) -> list[Finding]:
        """A finding for models of times if ranks of a run at these coordinates shared cores."""
        if not metric.is_wall_time:
            return []

        used = set(map(tuple, coordinates.tolist()))
        parameters = self.experiment.parameters
        unjudged = self.experiment.unjudged_runs()
        text = describe_crowding(
            self.experiment, [key for key in unjudged if key.coordinate(parameters) in used]
        )
        return [Finding(CROWDED, text)] if text else []

    def _dependencies(self, metric: Metric) -> dict[CallPath, Products]:
        """What is known for this metric; nothing for one parameter, or where times are crowded.

        The times of crowded runs also depend on how many ranks share a core.
        """
        if self.experiment.unjudged_runs() or len(self.experiment.parameters) == 1:
            return {}
        paths = self.experiment.callpaths()
        return dependencies_of_metric(metric, paths, self.options.dependencies)

    def _fit(
        self,
        coordinates: FloatArray,
        values: FloatArray,
        keys: Sequence[SeriesKey],
        dependencies: Mapping[CallPath, Products],
        known_variances: FloatArray | None,
        *,
        is_exact: bool,
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
                known_variances=known_variances,
                is_exact=is_exact,
            )
        return modelers.fit(
            coordinates,
            values,
            parameters=parameters,
            modeler=self.options.modeler,
            executor=self.executor,
            known_variances=known_variances,
            is_exact=is_exact,
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


def _find_equal(
    rows: Sequence[int], keys: Sequence[SeriesKey], cube: FloatArray, known: FloatArray | None
) -> list[int]:
    """For each of some rows, the first of the same class with the same values, mostly itself.

    Args:
        rows: indices of series. keys: of all series.
        cube, known: values and their known variances, as `_by_coordinate` arranges them.
    """
    first: dict[tuple[CallPath, str, bytes, bytes], int] = {}
    equal = []
    for row in rows:
        variances = b"" if known is None else known[row].tobytes()
        of_class = keys[row].callpath, keys[row].behaviour
        equal.append(first.setdefault((*of_class, cube[row].tobytes(), variances), row))
    return equal


def _add_findings(models: Sequence[Model], findings: Sequence[Finding]) -> list[Model]:
    """The models with more findings; equal series still share one model, which is stored once."""
    if not findings:
        return list(models)
    marked: dict[int, Model] = {}
    for model in models:
        if id(model) not in marked:
            marked[id(model)] = replace(model, findings=(*model.findings, *findings))
    return [marked[id(model)] for model in models]


def _report_few_coordinates(key: SeriesKey, count: int) -> Finding:
    text = (
        f"{key.metric} of {key.callpath.name}, class {key.behaviour}: measured at {count} "
        f"coordinate{'s' * (count != 1)}, {MIN_COORDINATES} are needed for a model"
    )
    return Finding("too-few-points", text, str(key.callpath))
