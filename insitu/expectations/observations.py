"""The measured values of series with all repetitions."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import ALL, ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, IntArray, SeriesKey

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
    experiment: Experiment,
    models: ModelSet,
    keys: Sequence[SeriesKey],
    *,
    of_ranks_in: SeriesKey | None = None,
) -> MeasuredSeries:
    """Collect the measured values of series, with the behaviour classes of the models.

    Times of crowded runs that models do not use are left out.

    Args:
        experiment, models: of the campaign.
        keys: of the series.
        of_ranks_in: the series whose ranks count instead of those of each series itself.
    """
    unused = experiment.unused_times()
    counted = keys if of_ranks_in is None else [of_ranks_in] * len(keys)
    ranks_of_classes = _ranks_of_classes(models, set(counted))
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
            for i, (key, of_ranks) in enumerate(zip(keys, counted, strict=True)):
                if key.metric in skipped:
                    continue
                row, measured = rows[index].get(key.callpath), table.values.get(key.metric)
                if row is not None and measured is not None:
                    values[i, j, k] = _mean(run, measured[row], of_ranks, ranks_of_classes)

    coordinates = np.array(points, dtype=float).reshape(len(points), len(models.parameters))
    return MeasuredSeries(tuple(keys), coordinates, values)


def divide_by_reference(
    measured: MeasuredSeries,
    experiment: Experiment,
    models: ModelSet,
    references: Sequence[CallPath],
) -> MeasuredSeries:
    """Divide all values by those of the same ranks in other call paths of the same run.

    The share of a class in the mean over all ranks changes with the sizes of the classes.

    Args:
        measured: values of one metric.
        experiment, models: as for `collect_values`.
        references: call paths whose means over the ranks are added; a run that lacks one of them,
            or in which the sum is not positive, has no quotient.
    """
    metric = measured.keys[0].metric
    keys = [SeriesKey(path, metric, ALL) for path in references]
    of_all = collect_values(experiment, models, keys).values.sum(axis=0)
    divisors = np.array(
        [
            of_all
            if key.behaviour == ALL
            else collect_values(experiment, models, keys, of_ranks_in=key).values.sum(axis=0)
            for key in measured.keys
        ]
    )
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
    run: RunKey, values: FloatArray, key: SeriesKey, ranks_of_classes: _RanksOfClasses
) -> float:
    """Return the mean over the ranks of a class in one run; NaN if none of them has a value."""
    if key.behaviour != ALL:
        ranks = ranks_of_classes.get((key, run.parameters))
        if ranks is None:
            return float("nan")
        values = values[ranks[ranks < len(values)]]

    measured = values[np.isfinite(values)]
    return float(measured.mean()) if len(measured) else float("nan")
