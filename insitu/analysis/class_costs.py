"""Predict a metric over all ranks: classes by their sizes, or the mean where these are unknown."""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

import numpy as np

from insitu.analysis.cost import NO_SAMPLE, is_without_sample
from insitu.analysis.shares import Estimate
from insitu.entities import RANKS, CallPath
from insitu.modeling.base import ALL, Model, ModelSet, SeriesModel
from insitu.modeling.classes.participation import executing_shares
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.horizon import unclear_at
from insitu.modeling.joint_parameters import find_joint_change
from insitu.modeling.measurement import Coordinate, FloatArray, SeriesKey
from insitu.modeling.predictions import predict_all, predict_at

CONFIDENCE = 0.95  # probability with which bounds hold, by default
SIZE_TOLERANCE = 1e-6  # relative, of the sum of class sizes: laws are exact or not used


def estimate_all(
    models: Sequence[Model], at: Coordinate, level: float = CONFIDENCE
) -> list[Estimate]:
    """The predictions of models at one coordinate, with bounds that hold with this probability.

    They have none where parameters do not change together that changed together in all runs.
    """
    found = predict_all(models, [np.array([at])] * len(models), level)
    estimates = []
    for model, values in zip(models, found, strict=True):
        bounds = values.bounds[0].tolist() if find_joint_change(model, at) is None else ()
        estimates.append(Estimate(float(values.values[0]), *bounds))
    return estimates


def costs_at(
    models: ModelSet,
    metric: str,
    at: Coordinate,
    only: Container[CallPath] | None = None,
    level: float = CONFIDENCE,
    *,
    of_any_sizes: bool = False,
    has_bounds: bool = True,
) -> dict[CallPath, Estimate]:
    """Predict a metric of a mean rank at one coordinate; classes are weighted by their ranks.

    Where the number of ranks of each class is not known there, the model of the mean is used, and
    the estimate is marked.

    Args:
        models: of the campaign.
        metric: its name.
        at: a coordinate.
        only: the call paths of interest; all by default.
        level: the probability with which bounds hold.
        of_any_sizes: predict the ranks that execute a call path, with bounds for any class sizes.
        has_bounds: whether to compute bounds, most of the work; else they are infinite.
    """
    point = np.array([at])
    sizes = _predict_sizes(models, metric, point, only)
    groups, by_mean = _group_series(models, metric, sizes, point, only)
    executing = {} if of_any_sizes else executing_shares(models, metric, point, only)

    def weighted(group: Sequence[SeriesModel], values: Sequence[float]) -> float:
        if len(group) == 1:
            return values[0]
        return float(_weighted_mean(group, sizes, [np.array([value]) for value in values])[0])

    distinct = {id(series.model): series.model for group in groups.values() for series in group}
    estimates = _estimate_all(distinct, at, level, has_bounds=has_bounds)
    costs = {}
    for path, group in groups.items():
        by_class = [estimates[id(series.model)] for series in group]
        value = weighted(group, [class_estimate.value for class_estimate in by_class])
        lows = [class_estimate.low for class_estimate in by_class]
        highs = [class_estimate.high for class_estimate in by_class]
        if of_any_sizes:
            costs[path] = Estimate(value, min(lows), max(highs), path in by_mean)
        else:
            share = float(executing[path][0]) if path in executing else 1.0
            low, high = share * weighted(group, lows), share * weighted(group, highs)
            costs[path] = Estimate(share * value, low, high, path in by_mean)
    return costs


def _estimate_all(
    models: Mapping[int, Model], at: Coordinate, level: float, *, has_bounds: bool
) -> dict[int, Estimate]:
    """The predictions of models at one coordinate, by the same keys."""
    if has_bounds:
        estimates = estimate_all(list(models.values()), at, level)
        return dict(zip(models, estimates, strict=True))
    values = predict_at(list(models.values()), at).tolist()
    return {
        key: Estimate(value, -np.inf, np.inf) for key, value in zip(models, values, strict=True)
    }


def costs_along(models: ModelSet, metric: str, points: FloatArray) -> dict[CallPath, FloatArray]:
    """Predict a metric of a mean rank at many coordinates, without bounds.

    Args:
        models: of the campaign.
        metric: its name.
        points: (n_points, n_parameters).

    Returns:
        Per call path (n_points,).
    """
    sizes = _predict_sizes(models, metric, points)
    executing = executing_shares(models, metric, points)
    costs = {}
    groups, _ = _group_series(models, metric, sizes, points)
    for path, group in groups.items():
        values = [series.model.predict(points) for series in group]
        costs[path] = executing.get(path, 1.0) * _weighted_mean(group, sizes, values)

    return costs


def _group_series(
    models: ModelSet,
    metric: str,
    sizes: Mapping[SeriesKey, FloatArray],
    points: FloatArray,
    only: Container[CallPath] | None = None,
) -> tuple[dict[CallPath, list[SeriesModel]], set[CallPath]]:
    """Per call path the series that cover all ranks at the points.

    These are the classes if size laws give the ranks of each, and if these add up to all ranks.
    Otherwise it is the mean over all ranks.

    Returns:
        The series, and the call paths with several classes for which it is the mean.
    """
    divided = _paths_with_classes(models, metric, only)
    by_mean: set[CallPath] = set()
    groups: dict[CallPath, list[SeriesModel]] = {}
    for series in models.models:
        path = series.key.callpath
        if series.key.metric == metric and (only is None or path in only):
            groups.setdefault(path, []).append(series)

    for path, group in groups.items():
        of_all = [series for series in group if series.key.behaviour == ALL]
        of_classes = [series for series in group if series.key.behaviour != ALL]
        if of_all and not _covers_all_ranks(models, of_classes, sizes, points):
            groups[path] = of_all
            if path in divided:
                by_mean.add(path)
        else:
            groups[path] = of_classes or of_all

    return groups, by_mean


def _paths_with_classes(
    models: ModelSet, metric: str, only: Container[CallPath] | None
) -> set[CallPath]:
    """The call paths whose ranks are of several classes in some run."""
    paths = set()
    for entry in models.clusters:
        is_wanted = entry.metric == metric and (only is None or entry.callpath in only)
        if is_wanted and len(entry.names) > 1:
            paths.add(entry.callpath)
    return paths


def _covers_all_ranks(
    models: ModelSet,
    classes: Sequence[SeriesModel],
    sizes: Mapping[SeriesKey, FloatArray],
    points: FloatArray,
) -> bool:
    """Whether the sizes of these classes add up to the number of ranks at every point."""
    if RANKS not in models.parameters or not classes:
        return False
    if any(series.key not in sizes for series in classes):
        return False

    ranks = points[:, models.parameters.index(RANKS)]
    total = np.sum([sizes[series.key] for series in classes], axis=0)
    return bool(np.all(abs(total - ranks) <= SIZE_TOLERANCE * ranks))


def _predict_sizes(
    models: ModelSet,
    metric: str,
    points: FloatArray,
    only: Container[CallPath] | None = None,
) -> dict[SeriesKey, FloatArray]:
    """How many ranks the classes of a metric have at points, where a law says it: (n_points,)."""
    clusters = []
    for entry in models.clusters:
        if entry.metric == metric and (only is None or entry.callpath in only):
            clusters.append(entry)
    if all(len(entry.names) == 1 for entry in clusters):
        return {}

    # Many call paths share a law, and each is predicted once.
    laws = size_laws(clusters, models.parameters)
    distinct = {id(law): law for law in laws.values()}
    predicted = {key: law.predict(points) for key, law in distinct.items()}
    return {key: predicted[id(law)] for key, law in laws.items()}


def _weighted_mean(
    group: Sequence[SeriesModel],
    sizes: Mapping[SeriesKey, FloatArray],
    values: Sequence[FloatArray],
) -> FloatArray:
    """Mean over ranks of the values of classes at points; equal weights where sizes are unknown."""
    if len(group) == 1:
        return values[0]

    unknown = np.full(len(values[0]), np.nan)
    ranks = np.maximum(np.array([sizes.get(series.key, unknown) for series in group]), 0.0)
    ranks[:, np.isnan(ranks).any(axis=0) | (ranks.sum(axis=0) <= 0)] = 1.0
    return np.asarray((ranks * np.array(values)).sum(axis=0) / ranks.sum(axis=0))


def unclear_costs(
    models: ModelSet, metric: str, costs: Mapping[CallPath, Estimate], at: Sequence[float]
) -> dict[CallPath, str]:
    """Why the cost of call paths is no prediction at a coordinate; without those where it is one.

    Args:
        metric: of the costs. costs: by call path, with their bounds there.
    """
    series_of: dict[CallPath, list[SeriesModel]] = defaultdict(list)
    for series in models.models:
        if series.key.metric == metric and series.key.callpath in costs:
            series_of[series.key.callpath].append(series)

    unclear = {}
    for path, members in series_of.items():
        cost = costs[path]
        if all(map(is_without_sample, members)):
            unclear[path] = NO_SAMPLE
            continue
        for series in members:
            bounds = (cost.low, cost.high) if len(members) == 1 else None
            reason = unclear_at(series.model, at, bounds)
            if reason:
                unclear[path] = reason
                break
    return unclear


def shown_cost(cost: Estimate, unclear: str) -> Estimate:
    """A cost as views show it: a function that no sample hit has no bounds, as 0 to 0 would be."""
    return Estimate(cost.value, is_by_mean=cost.is_by_mean) if unclear == NO_SAMPLE else cost
