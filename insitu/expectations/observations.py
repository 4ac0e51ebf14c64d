"""The measured values of series with all repetitions."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import ALL, ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, IntArray, RunTable, SeriesKey

Parameters = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Values of series at shared coordinates.

    Attributes:
        keys: of the series.
        coordinates: (n_points, n_parameters), ascending.
        values: (n_series, n_points, n_repetitions), mean over the ranks of the class, NaN if not
            measured.
    """

    keys: tuple[SeriesKey, ...]
    coordinates: FloatArray
    values: FloatArray


def collect_values(
    experiment: Experiment, models: ModelSet, keys: Sequence[SeriesKey]
) -> MeasuredSeries:
    """Collect the measured values of series, with the behaviour classes of the models.

    Times of crowded runs that models do not use are left out.
    """
    unused = experiment.unused_times()
    ranks_of_classes = _ranks_of_classes(models, set(keys))
    runs: dict[tuple[float, ...], list[int]] = defaultdict(list)

    for index, (run, _) in enumerate(experiment.runs):
        coordinate = run.coordinate(models.parameters)
        if np.all(np.isfinite(coordinate)):
            runs[coordinate].append(index)

    points = sorted(runs)
    values = np.full((len(keys), len(points), max(map(len, runs.values()), default=1)), np.nan)

    rows = []
    for _, table in experiment.runs:
        rows.append({path: row for row, path in enumerate(table.callpaths)})

    for j, point in enumerate(points):
        for k, index in enumerate(runs[point]):
            run, table = experiment.runs[index]
            times = {metric.name for metric in table.metrics if metric.is_wall_time}
            skipped = times if run in unused else set()
            for i, key in enumerate(keys):
                if key.metric in skipped:
                    continue
                values[i, j, k] = _mean(run, table, key, rows[index], ranks_of_classes)

    coordinates = np.array(points, dtype=float).reshape(len(points), len(models.parameters))
    return MeasuredSeries(tuple(keys), coordinates, values)


def divide_by_reference(
    measured: MeasuredSeries,
    experiment: Experiment,
    models: ModelSet,
    references: Sequence[CallPath],
) -> MeasuredSeries:
    """Divide all values by those of other call paths in the same run.

    Args:
        measured: values of one metric.
        experiment, models: as for `collect_values`.
        references: call paths whose means over all ranks are added; a run that lacks one of them,
            or in which the sum is not positive, has no quotient.
    """
    metric = measured.keys[0].metric
    keys = [SeriesKey(path, metric, ALL) for path in references]
    divisors = collect_values(experiment, models, keys).values.sum(axis=0)
    divisors = np.where(divisors > 0, divisors, np.nan)
    return MeasuredSeries(measured.keys, measured.coordinates, measured.values / divisors)


_RanksOfClasses = dict[tuple[SeriesKey, Parameters], IntArray]


def _ranks_of_classes(models: ModelSet, keys: set[SeriesKey]) -> _RanksOfClasses:
    wanted = {(key.callpath, key.metric) for key in keys}
    ranks: _RanksOfClasses = {}
    for clusters in models.clusters:
        if (clusters.callpath, clusters.metric) not in wanted:
            continue
        for label, name in enumerate(clusters.names):
            key = SeriesKey(clusters.callpath, clusters.metric, name)
            if key in keys:
                ranks[key, clusters.run.parameters] = np.flatnonzero(clusters.labels == label)
    return ranks


def _mean(
    run: RunKey,
    table: RunTable,
    key: SeriesKey,
    rows: dict[CallPath, int],
    ranks_of_classes: _RanksOfClasses,
) -> float:
    """Return the mean over the ranks of a class in one run; NaN if it was not measured."""
    row, values = rows.get(key.callpath), table.values.get(key.metric)
    if row is None or values is None:
        return float("nan")

    of_ranks = values[row]
    if key.behaviour != ALL:
        ranks = ranks_of_classes.get((key, run.parameters))
        if ranks is None:
            return float("nan")
        of_ranks = of_ranks[ranks[ranks < len(of_ranks)]]

    measured = of_ranks[np.isfinite(of_ranks)]
    return float(measured.mean()) if len(measured) else float("nan")
