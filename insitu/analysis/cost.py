"""The share of each call path in what a campaign costs at its largest scale."""

import math

import numpy as np

from insitu.entities import METRICS, TIME, TIME_EXCLUSIVE, VISITS, CallPath
from insitu.modeling.base import Model, ModelSet, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import SeriesKey

_COSTS = (TIME_EXCLUSIVE.name, TIME.name, VISITS.name)
_ORDER = (*_COSTS, *(metric.name for metric in METRICS if metric.name not in _COSTS))


def measured_shares(models: ModelSet) -> dict[CallPath, float]:
    """The share (0 to 1) of each call path, over all ranks, at the largest measured coordinate.

    Exclusive times are shares of all time, that of call paths without a model included; inclusive
    ones of the largest, which holds the others.
    Without times, visits or else the first metric decide.
    """
    metric = cost_metric(models)
    costing = _covering([series for series in models.models if series.key.metric == metric])
    points = {series.key: dict(measured_points(series.model)) for series in costing}
    largest = max((at for values in points.values() for at in values), default=())
    ranks = _ranks_at(models, metric, largest)
    cost: dict[CallPath, float] = {}
    for series in costing:
        value = points[series.key].get(largest, 0.0)
        path = series.key.callpath
        cost[path] = cost.get(path, 0.0) + value * ranks.get(series.key, 1)
    total = sum(cost.values()) if metric == TIME_EXCLUSIVE.name else max(cost.values(), default=0.0)
    part = 1.0 - sum(models.rest.values())
    return {path: part * value / total if total > 0 else 0.0 for path, value in cost.items()}


def cost_metric(models: ModelSet) -> str:
    """The metric that says what a call path costs; empty where nothing is modelled."""
    present = dict.fromkeys(series.key.metric for series in models.models)
    return next((name for name in _COSTS if name in present), next(iter(present), ""))


def sort_by_cost(models: ModelSet, share: dict[CallPath, float]) -> list[SeriesModel]:
    """All series, those of the most expensive call path first; within one by metric and class."""
    return sorted(
        models.models,
        key=lambda series: (
            -share.get(series.key.callpath, 0.0),
            series.key.callpath,
            metric_order(series.key.metric),
            series.key.metric,
            series.key.behaviour,
        ),
    )


def metric_order(name: str) -> int:
    """The place of a metric where several stand below each other; unknown ones come last."""
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def measured_points(model: Model) -> list[tuple[tuple[float, ...], float]]:
    """The points of a model as (coordinate, value), repetitions reduced, ascending."""
    pairs = zip(model.coordinates.tolist(), model.values.tolist(), strict=True)
    return sorted((tuple(at), value) for at, value in pairs if math.isfinite(value))


def _covering(series: list[SeriesModel]) -> list[SeriesModel]:
    """One class of all ranks where there is one, else the classes that part them."""
    whole = {one.key.callpath for one in series if one.key.behaviour == ALL}
    return [one for one in series if one.key.behaviour == ALL or one.key.callpath not in whole]


def _ranks_at(models: ModelSet, metric: str, coordinate: tuple[float, ...]) -> dict[SeriesKey, int]:
    """How many ranks each class has at one coordinate."""
    ranks = {}
    for clusters in models.clusters:
        if clusters.metric == metric and clusters.run.coordinate(models.parameters) == coordinate:
            counts = np.bincount(clusters.labels[clusters.labels >= 0]).tolist()
            for name, count in zip(clusters.names, counts, strict=False):
                ranks[SeriesKey(clusters.callpath, metric, name)] = count
            ranks[SeriesKey(clusters.callpath, metric, ALL)] = sum(counts)
    return ranks
