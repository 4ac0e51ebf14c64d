"""Queries of the web page about the models of a campaign, answered as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from insitu.analysis.class_costs import costs_along, costs_at, shown_cost, unclear_costs
from insitu.analysis.cost import cost_metric, measured_points, measured_shares
from insitu.analysis.detail import candidates, describe_claim, residuals
from insitu.analysis.outlook import order_shares
from insitu.analysis.scaling import (
    fill_coordinate,
    fullest_line,
    measured_coordinates,
    shares_along,
)
from insitu.analysis.shares import (
    Estimate,
    find_unclear_shares,
    predict_shares,
    trust_level,
)
from insitu.entities import finite
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import ALL, MAXIMUM, Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.doubt import describe_domain
from insitu.modeling.joint_parameters import CHANGED_TOGETHER
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import following_columns, held_columns, points_along
from insitu.views.axes import FARTHER

CURVE_POINTS = 64
SURFACE_POINTS = 32  # per axis
MAX_LABELS = 4_096  # ranks per run whose classes are sent one by one
MAX_RUNS = 6  # runs whose ranks are sent, the largest
MAX_PATHS = 60  # call paths in the outlook, the most expensive at the target

Json = dict[str, Any]  # Any: JSON


class ModelQueries:
    """Answers queries about the stored models of a campaign. One thread uses it."""

    def __init__(self, read_changed: Callable[[], ModelSet | None]) -> None:
        """`read_changed` returns the models, or None if they have not changed."""
        self._read_changed = read_changed
        self._models = ModelSet()

    def models(self) -> ModelSet:
        """The newest models.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        changed = self._read_changed()
        if changed is not None:
            self._models = changed
        return self._models

    def series(self, callpath: str, metric: str, axis: str, fixed: Mapping[str, float]) -> Json:
        """The models of all behaviour classes of a call path along a parameter, and their ranks.

        Args:
            callpath: text of the call path.
            metric: name of the metric.
            axis: name of the parameter; the first parameter if there is none of this name.
            fixed: values of the other parameters; their largest measured values by default.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        models = self.models()
        names = models.parameters
        along = names.index(axis) if axis in names else 0

        series = [item for item in models.series_of(callpath, metric) if len(item.model.values)]
        if not {item.key.behaviour for item in series} <= {ALL, MAXIMUM}:
            # The classes show what the slowest ranks do; the curve of the maximum would hide one.
            series = [item for item in series if item.key.behaviour != MAXIMUM]
        coordinates = _coordinates(series)
        if len(coordinates):
            at = fill_coordinate(names, fullest_line(coordinates, along), fixed)
            grid = _curve_points(coordinates[:, along], FARTHER)
            columns = sorted([along, *held_columns(coordinates, along)])
            levels = {names[i]: np.unique(coordinates[:, i]).tolist() for i in columns}
            held = {names[i]: float(at[i]) for i in columns}
        else:
            at, grid, levels, held = np.empty(0), np.empty(0), {}, {}

        return {
            "axis": names[along] if names else "",
            "held": held,
            "levels": levels,
            "at": grid.tolist(),
            "classes": [_series_json(item, along, grid, at, coordinates) for item in series],
            "ranks": _ranks_json(models, callpath, metric),
        }

    def surface(
        self,
        callpath: str,
        metric: str,
        behaviour: str,
        *,
        axes: tuple[str, str],
        fixed: Mapping[str, float],
    ) -> Json:
        """A model over two parameters: predictions on a grid, and the measured points.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        models = self.models()
        names = models.parameters
        series = next(
            (
                item
                for item in models.series_of(callpath, metric)
                if item.key.behaviour == behaviour and len(item.model.values)
            ),
            None,
        )
        if series is None or axes[0] == axes[1] or not set(axes) <= set(names):
            return {"values": []}

        model = series.model
        x, y = (names.index(name) for name in axes)
        may_be_either = not model.depends_on or set(axes) <= set(model.depends_on)
        if may_be_either and y in following_columns(model.coordinates, x):
            reason = f"{axes[0]} and {axes[1]} {CHANGED_TOGETHER} in all runs"
            return {"values": [], "reason": reason}
        at = fill_coordinate(names, model.coordinates.max(axis=0), fixed)
        across = _span(model.coordinates[:, x], FARTHER, SURFACE_POINTS)
        down = _span(model.coordinates[:, y], FARTHER, SURFACE_POINTS)

        grid = np.tile(at, (SURFACE_POINTS**2, 1))
        grid[:, x] = np.tile(across, SURFACE_POINTS)
        grid[:, y] = np.repeat(down, SURFACE_POINTS)
        values = model.predict(grid).reshape(SURFACE_POINTS, SURFACE_POINTS)

        others = [i for i in range(len(names)) if i not in (x, y)]
        is_shown = _is_at(model, others, at)
        points = np.column_stack([model.coordinates[is_shown][:, [x, y]], model.values[is_shown]])

        return {
            "axes": list(axes),
            "held": {names[i]: float(at[i]) for i in others},
            "unit": series.metric.unit,
            "x": across.tolist(),
            "y": down.tolist(),
            "values": [_finite_list(row) for row in values],
            "points": points.astype(float).tolist(),
        }

    def shares(self, axis: str, farthest: float, fixed: Mapping[str, float]) -> Json:
        """Shares of the cost along a parameter, up to the value `farthest`.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        curves = shares_along(self.models(), axis, farthest, fixed)
        if curves is None:
            return {"names": []}

        return {
            "metric": curves.metric,
            "axis": curves.axis,
            "last": curves.last,
            "farthest": curves.farthest,
            "at": curves.at.tolist(),
            "names": list(curves.names),
            "parts": [_finite_list(row) for row in curves.shares],
        }

    def outlook(self, fixed: Mapping[str, float]) -> Json:
        """Cost, share and growth of the most expensive call paths at one coordinate.

        Raises:
            CampaignError: the campaign can no longer be read.
        """
        models = self.models()
        coordinates = measured_coordinates(models)
        if not len(coordinates):
            return {"rows": []}

        largest = coordinates.max(axis=0)
        at = fill_coordinate(models.parameters, largest, fixed)
        metric = cost_metric(models)
        values = costs_along(models, metric, np.array([at, largest]))

        # Intervals are only computed for the call paths that are shown.
        expensive = sorted(values, key=lambda path: -values[path][0])[:MAX_PATHS]
        costs = {path: Estimate(float(then)) for path, (then, _) in values.items()}
        costs |= costs_at(models, metric, tuple(at.tolist()), frozenset(expensive))

        shares = list(predict_shares(costs, metric, measured_shares(models)))
        crowded = set()
        for series in models.models:
            if series.key.metric == metric and series.crowding:
                crowded.add(series.key.callpath)

        shown = {share.callpath: costs[share.callpath] for share in shares[:MAX_PATHS]}
        unclear = unclear_costs(models, metric, shown, at.tolist())
        unclear_shares = find_unclear_shares(shares, unclear, metric)
        rows = []
        for share in order_shares(shares[:MAX_PATHS], unclear):
            cost = shown_cost(costs[share.callpath], unclear.get(share.callpath, ""))
            row = {
                "callpath": str(share.callpath),
                "share": share.now,
                "then": _estimate_json(share.then),
                "now": finite(float(values[share.callpath][1])),
                "cost": _estimate_json(cost),
                "unclear": unclear.get(share.callpath, ""),
                "is_share_unclear": share.callpath in unclear_shares,
                "trust": "crowded" if share.callpath in crowded else trust_level(cost),
                "by_mean": cost.is_by_mean,
            }
            rows.append(row)

        return {
            "metric": metric,
            "at": dict(zip(models.parameters, at.tolist(), strict=True)),
            "unit": next(item.metric.unit for item in models.models if item.key.metric == metric),
            "left_out": max(len(shares) - MAX_PATHS, 0),
            "rest": sum(models.rest.values()),
            "rows": rows,
        }


def _coordinates(series: Sequence[SeriesModel]) -> FloatArray:
    """All coordinates of the series: (n_points, n_parameters)."""
    if not series:
        return np.empty((0, 1))
    return np.asarray(np.concatenate([item.model.coordinates for item in series]))


def _is_at(model: Model, columns: Sequence[int], at: FloatArray) -> FloatArray:
    """Which points of a model were measured and agree with `at` in some columns: (n_points,)."""
    is_there = (model.coordinates[:, columns] == at[columns]).all(axis=1)
    return np.asarray(is_there & np.isfinite(model.values))


def _span(values: FloatArray, farther: float, n_points: int) -> FloatArray:
    """Points from the smallest value to `farther` times the largest, geometric where possible."""
    low, high = float(values.min()), float(values.max())
    space = np.geomspace if low > 0 else np.linspace
    return np.asarray(space(low, max(high * farther, low + 1), n_points))


def _curve_points(values: FloatArray, farther: float) -> FloatArray:
    """The points of a curve: evenly spaced ones, and all measured values."""
    return np.unique([*_span(values, farther, CURVE_POINTS), *np.unique(values)[:CURVE_POINTS]])


def _series_json(
    series: SeriesModel, along: int, grid: FloatArray, at: FloatArray, measured: FloatArray
) -> Json:
    """Points, curve and properties of a model along one parameter.

    Args:
        series: the model.
        along: column of the parameter.
        grid: values of that parameter at which the curve is computed: (n,).
        at: values of all parameters; column `along` is ignored.
        measured: all coordinates: parameters that changed with this one follow it.
    """
    model = series.model
    coordinates = model.coordinates
    is_shown = _is_at(model, held_columns(measured, along), at)

    curve = points_along(at, along, grid, measured)
    x, y = coordinates[is_shown, along], model.values[is_shown]
    order = np.argsort(x, kind="stable")

    gaps = []
    if along == 0:
        pairs = zip(model.change_points, _change_probabilities(model), strict=True)
        gaps = [[point.low, point.high, probability] for point, probability in pairs]

    segments = []
    for segment in model.segments:
        limits = {"from": finite(segment.lower), "to": finite(segment.upper)}
        domain = describe_domain(model.domain).strip() if len(model.segments) == 1 else ""
        segments.append({**limits, "text": str(segment.function), "domain": domain})

    rivals = []
    for function, weight in candidates(model):
        values = _finite_list(function(curve))
        rivals.append({"text": str(function), "probability": weight, "values": values})

    return {
        "name": series.key.behaviour,
        "label": series.class_text,
        "text": series.text,
        "unit": series.metric.unit,
        "last": float(coordinates[:, along].max()),
        "points": np.column_stack([x, y])[order].tolist(),
        "residuals": _finite_list(residuals(model)[is_shown][order]),
        "measured": [[list(point), value] for point, value in measured_points(model)],
        "values": _finite_list(model.predict(curve)),
        "bounds": [_finite_list(side) for side in model.interval(curve).T],
        "gaps": gaps,
        "segments": segments,
        "candidates": rivals,
        "quality": {
            "smape": finite(model.quality.smape),
            "adjusted_r2": finite(model.quality.adjusted_r2),
            "rss": finite(model.quality.rss),
            "claim": describe_claim(model),
        },
        "modeler": model.modeler,
        "findings": [
            *(f"{finding.code}: {finding.text}" for finding in model.findings),
            *describe_back_tests([series]).values(),
        ],
    }


def _change_probabilities(model: Model) -> list[float | None]:
    """The probability of each change point; None where the modeler gives none."""
    probabilities = [finite(value) for value in model.change_probabilities]
    return probabilities + [None] * (len(model.change_points) - len(probabilities))


def _ranks_json(models: ModelSet, callpath: str, metric: str) -> list[Json]:
    """The class of each rank (-1: none) in the largest runs; of repetitions the last one."""
    by_coordinate: dict[Any, Clusters] = {}  # Any: the parameters of a run
    for clusters in models.clusters:
        if clusters.metric == metric and str(clusters.callpath) == callpath:
            by_coordinate[clusters.run.parameters] = clusters

    def size(clusters: Clusters) -> tuple[int, Any]:
        return len(clusters.labels), clusters.run.parameters

    rows = []
    for clusters in sorted(by_coordinate.values(), key=size, reverse=True)[:MAX_RUNS]:
        counts = [int((clusters.labels == i).sum()) for i in range(len(clusters.names))]
        row = {
            "run": str(clusters.run),
            "size": clusters.run.size,
            "names": clusters.names,
            "counts": counts,
            "labels": clusters.labels[:MAX_LABELS].tolist(),
        }
        rows.append(row)
    return rows


def _estimate_json(estimate: Estimate) -> list[float | None]:
    return [finite(value) for value in (estimate.value, estimate.low, estimate.high)]


def _finite_list(values: FloatArray) -> list[float | None]:
    return [finite(value) for value in values.tolist()]
