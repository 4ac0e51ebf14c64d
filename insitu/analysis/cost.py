"""The share of each call path in what a campaign costs at its largest scale."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from insitu.entities import METRICS, TIME, TIME_EXCLUSIVE, VISITS, CallPath, is_start_up
from insitu.modeling.base import ALL, Model, ModelSet, SeriesModel
from insitu.modeling.measurement import RunTable, SeriesKey

_COSTS = (TIME_EXCLUSIVE.name, TIME.name, VISITS.name)
MIN_SHARE = 0.01  # of the cost; noise of cheaper call paths is worth no run
NO_SAMPLE = "unclear: no sample"
_ORDER = (*_COSTS, *(metric.name for metric in METRICS if metric.name not in _COSTS))


def measured_shares(models: ModelSet) -> dict[CallPath, float]:
    """The share (0 to 1) of each call path, over all ranks, at the largest measured coordinate.

    Exclusive times are shares of all time, including that of call paths without a model. Inclusive
    times contain each other, so they are shares of the largest. Without times, visits or else the
    first metric are the cost.
    """
    metric = cost_metric(models)
    series = _covering([series for series in models.models if series.key.metric == metric])
    points = {model.key: dict(measured_points(model.model)) for model in series}
    largest = max((at for values in points.values() for at in values), default=())
    ranks = _ranks_at(models, metric, largest)

    cost: dict[CallPath, float] = {}
    for model in series:
        path = model.key.callpath
        mean = points[model.key].get(largest, 0.0)
        cost[path] = cost.get(path, 0.0) + mean * ranks.get(model.key, 1)

    is_sum = metric == TIME_EXCLUSIVE.name
    total = sum(cost.values()) if is_sum else max(cost.values(), default=0.0)
    modelled = 1.0 - sum(models.rest.values())
    return {path: modelled * value / total if total > 0 else 0.0 for path, value in cost.items()}


def is_without_sample(series: SeriesModel) -> bool:
    """Whether these are times of a function that no sample hit: 0, which is not what it takes."""
    is_sampled = series.key.metric in (TIME.name, TIME_EXCLUSIVE.name)
    return is_sampled and bool(len(series.model.values)) and not series.model.values.any()


def shares_of_run(table: RunTable) -> dict[CallPath, float]:
    """The share (0 to 1) of each call path in the time of a run, where there are no models yet."""
    for metric in (TIME_EXCLUSIVE, TIME):
        times = table.values.get(metric.name)
        if times is None:
            continue
        spent = np.nansum(times, axis=1)
        # Inclusive times contain each other.
        total = float(spent.sum() if metric is TIME_EXCLUSIVE else spent.max(initial=0.0))
        shares = spent / total if total > 0 else 0.0 * spent
        return dict(zip(table.callpaths, shares.tolist(), strict=True))
    return {}


def select_costly(models: ModelSet) -> list[SeriesModel]:
    """The series whose open questions are worth a run: counts, and times of costly call paths."""
    share = measured_shares(models)
    selected = []
    for series in models.models:
        is_time = series.key.metric in (TIME.name, TIME_EXCLUSIVE.name)
        if not is_time or share.get(series.key.callpath, 0.0) >= MIN_SHARE:
            selected.append(series)
    return selected


def cost_metric(models: ModelSet) -> str:
    """The metric that is the cost of a call path; "" where nothing is modelled."""
    present = dict.fromkeys(series.key.metric for series in models.models)
    return next((name for name in _COSTS if name in present), next(iter(present), ""))


def sort_by_cost(
    series: Sequence[SeriesModel], share: Mapping[CallPath, float]
) -> list[SeriesModel]:
    """Sort series: the most expensive call path first, then by metric and by class.

    Start-up comes last: it happens once in a run, however long that is.
    """
    return sorted(
        series,
        key=lambda entry: (
            is_start_up(entry.key.callpath),
            -share.get(entry.key.callpath, 0.0),
            entry.key.callpath,
            metric_order(entry.key.metric),
            entry.key.metric,
            entry.key.behaviour,
        ),
    )


def metric_order(name: str) -> int:
    """The position of a metric in lists of several; unknown metrics come last."""
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def measured_points(model: Model) -> list[tuple[tuple[float, ...], float]]:
    """The points of a model as (coordinate, median over repetitions), ascending."""
    pairs = zip(model.coordinates.tolist(), model.values.tolist(), strict=True)
    return sorted((tuple(at), value) for at, value in pairs if math.isfinite(value))


def _covering(series: list[SeriesModel]) -> list[SeriesModel]:
    """Per call path the series of all ranks if there is one, else those of its classes."""
    with_all = {model.key.callpath for model in series if model.key.behaviour == ALL}

    covering = []
    for model in series:
        if model.key.behaviour == ALL or model.key.callpath not in with_all:
            covering.append(model)
    return covering


def _ranks_at(models: ModelSet, metric: str, coordinate: tuple[float, ...]) -> dict[SeriesKey, int]:
    """How many ranks each class has at one coordinate."""
    ranks = {}
    for clusters in models.clusters:
        if clusters.metric != metric:
            continue
        if clusters.run.coordinate(models.parameters) == coordinate:
            counts = np.bincount(clusters.labels[clusters.labels >= 0]).tolist()
            for name, count in zip(clusters.names, counts, strict=False):
                ranks[SeriesKey(clusters.callpath, metric, name)] = count
            ranks[SeriesKey(clusters.callpath, metric, ALL)] = sum(counts)
    return ranks
