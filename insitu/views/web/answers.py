"""What a page asks about the models of a campaign, as JSON."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from insitu.analysis.cost import cost_metric, measured_points, measured_shares
from insitu.analysis.detail import candidates, residuals
from insitu.analysis.scaling import fill_coordinate, measured_coordinates, shares_along
from insitu.analysis.shares import Estimate, predict_shares, trust_level
from insitu.analysis.summary import costs_along, costs_at
from insitu.modeling.base import Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.measurement import FloatArray
from insitu.views.drawing import FARTHER

STEPS = 64  # points of a curve
GRID = 32  # points of a side of a surface
MOST_RANKS = 4_096  # whose classes are told one by one
MOST_RUNS = 6  # whose ranks are told, the largest
MOST_PATHS = 60  # predicted at once, the dearest there

Json = dict[str, Any]  # Any: JSON


class Answers:
    """The kept models of a campaign, told by whoever reads it; one thread uses it."""

    def __init__(self, changed: Callable[[], ModelSet | None]) -> None:
        """Ask `changed` before each answer: the models, or None where they are as before."""
        self._changed = changed
        self._models = ModelSet()

    def series(self, callpath: str, metric: str, axis: str, held: Mapping[str, float]) -> Json:
        """All classes of a metric of a call path along a parameter, and which ranks they are.

        Args:
            callpath: its text.
            metric: its name.
            axis: the parameter; the first one where it is none.
            held: values of the other parameters; the largest measured ones otherwise.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        models = self.models()
        names = models.parameters
        along = names.index(axis) if axis in names else 0
        found = [one for one in _of(models, callpath, metric) if len(one.model.values)]
        places = _places(found)
        at = fill_coordinate(names, places.max(axis=0), held) if len(places) else np.empty(0)
        grid = _grid(places[:, along], FARTHER) if len(places) else np.empty(0)
        return {
            "axis": names[along] if names else "",
            "held": dict(zip(names, at.tolist(), strict=False)),
            "levels": {
                name: np.unique(places[:, i]).tolist()
                for i, name in enumerate(names)
                if len(places)
            },
            "at": grid.tolist(),
            "classes": [_series(one, along, grid, at) for one in found],
            "ranks": _ranks(models, callpath, metric),
        }

    def surface(
        self,
        callpath: str,
        metric: str,
        behaviour: str,
        axes: tuple[str, str],
        held: Mapping[str, float],
    ) -> Json:
        """A model over two parameters: values on a grid, and the points that were measured.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        models = self.models()
        names = models.parameters
        found = [
            one
            for one in _of(models, callpath, metric)
            if one.key.behaviour == behaviour and len(one.model.values)
        ]
        if not found or axes[0] == axes[1] or not set(axes) <= set(names):
            return {"values": []}
        (one, *_), (x, y) = found, (names.index(name) for name in axes)
        model = one.model
        at = fill_coordinate(names, model.coordinates.max(axis=0), held)
        across, down = (_span(model.coordinates[:, i], FARTHER, GRID) for i in (x, y))
        points = np.tile(at, (GRID * GRID, 1))
        points[:, x], points[:, y] = np.tile(across, GRID), np.repeat(down, GRID)
        rest = [i for i in range(len(names)) if i not in (x, y)]
        here = (model.coordinates[:, rest] == at[rest]).all(axis=1) & np.isfinite(model.values)
        return {
            "axes": list(axes),
            "held": {names[i]: float(at[i]) for i in rest},
            "unit": one.metric.unit,
            "x": across.tolist(),
            "y": down.tolist(),
            "values": [_json(row) for row in model.predict(points).reshape(GRID, GRID)],
            "points": np.column_stack([model.coordinates[here][:, [x, y]], model.values[here]])
            .astype(float)
            .tolist(),
        }

    def shares(self, axis: str, farthest: float, held: Mapping[str, float]) -> Json:
        """Shares of the cost along a parameter.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        found = shares_along(self.models(), axis, farthest, held)
        if found is None:
            return {"names": []}
        return {
            "metric": found.metric,
            "axis": found.axis,
            "last": found.last,
            "at": found.at.tolist(),
            "names": list(found.names),
            "parts": [_json(row) for row in found.parts],
        }

    def outlook(self, held: Mapping[str, float]) -> Json:
        """What the models say of one place: cost, share and growth of the dearest call paths.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        models = self.models()
        table = measured_coordinates(models)
        if not len(table):
            return {"rows": []}
        names, largest = models.parameters, table.max(axis=0)
        at = fill_coordinate(names, largest, held)
        metric = cost_metric(models)
        values = costs_along(models, metric, np.array([at, largest]))
        dearest = sorted(values, key=lambda path: -values[path][0])[:MOST_PATHS]
        known = costs_at(models, metric, tuple(at.tolist()), frozenset(dearest))
        costs = {path: known.get(path, Estimate(float(then))) for path, (then, _) in values.items()}
        parts = list(predict_shares(costs, metric, measured_shares(models)))
        return {
            "metric": metric,
            "unit": next(one.metric.unit for one in models.models if one.key.metric == metric),
            "left_out": max(len(parts) - MOST_PATHS, 0),
            "rest": sum(models.rest.values()),
            "rows": [
                {
                    "callpath": str(part.callpath),
                    "share": part.now,
                    "then": _told(part.then),
                    "now": _finite(float(values[part.callpath][1])),
                    "cost": _told(costs[part.callpath]),
                    "trust": trust_level(costs[part.callpath]),
                }
                for part in parts[:MOST_PATHS]
            ],
        }

    def models(self) -> ModelSet:
        """The newest models.

        Raises:
            CampaignError: the campaign cannot be read any more.
        """
        changed = self._changed()
        if changed is not None:
            self._models = changed
        return self._models


def _of(models: ModelSet, callpath: str, metric: str) -> list[SeriesModel]:
    return [
        one
        for one in models.models
        if one.key.metric == metric and str(one.key.callpath) == callpath
    ]


def _places(series: Sequence[SeriesModel]) -> FloatArray:
    if not series:
        return np.empty((0, 1))
    return np.asarray(np.concatenate([one.model.coordinates for one in series]))


def _span(values: FloatArray, farther: float, steps: int) -> FloatArray:
    """From the smallest value to beyond the largest, in equal ratios where that can be."""
    low, high = float(values.min()), float(values.max())
    space = np.geomspace if low > 0 else np.linspace
    return np.asarray(space(low, max(high * farther, low + 1), steps))


def _grid(values: FloatArray, farther: float) -> FloatArray:
    """Where curves are drawn: evenly, and at every measured value."""
    return np.unique([*_span(values, farther, STEPS), *np.unique(values)[:STEPS]])


def _series(one: SeriesModel, along: int, grid: FloatArray, at: FloatArray) -> Json:
    """Points, curve and all that is known of a model along one parameter."""
    model = one.model
    coordinates = model.coordinates
    rest = [i for i in range(coordinates.shape[1]) if i != along]
    here = (coordinates[:, rest] == at[rest]).all(axis=1) & np.isfinite(model.values)
    table = np.tile(at, (len(grid), 1))
    table[:, along] = grid
    x, y, off = coordinates[here, along], model.values[here], residuals(model)[here]
    order = np.argsort(x, kind="stable")
    return {
        "name": one.key.behaviour,
        "text": str(model),
        "unit": one.metric.unit,
        "last": float(coordinates[:, along].max()),
        "points": np.column_stack([x, y])[order].tolist(),
        "residuals": _json(off[order]),
        "measured": [[list(point), value] for point, value in measured_points(model)],
        "values": _json(model.predict(table)),
        "bounds": [_json(side) for side in model.interval(table).T],
        "gaps": [
            [point.low, point.high, chance]
            for point, chance in zip(model.change_points, _chances(model), strict=True)
        ]
        if along == 0
        else [],
        "segments": [
            {"from": _finite(part.lower), "to": _finite(part.upper), "text": str(part.function)}
            for part in model.segments
        ],
        "candidates": [
            {"text": str(function), "probability": weight, "values": _json(function(table))}
            for function, weight in candidates(model)
        ],
        "quality": {
            "smape": _finite(model.quality.smape),
            "adjusted_r2": _finite(model.quality.adjusted_r2),
            "rss": _finite(model.quality.rss),
            "probability": _finite(model.probability),
        },
        "modeler": model.modeler,
        "findings": [f"{item.code}: {item.text}" for item in model.findings],
    }


def _chances(model: Model) -> list[float | None]:
    """The probability of each change point, None where a modeler knows none."""
    known = [_finite(value) for value in model.change_probabilities]
    return known + [None] * (len(model.change_points) - len(known))


def _ranks(models: ModelSet, callpath: str, metric: str) -> list[Json]:
    """Which class each rank is, -1 for none, in the largest runs."""
    found: dict[Any, Clusters] = {}  # Any: a coordinate; of repetitions the last
    for one in models.clusters:
        if one.metric == metric and str(one.callpath) == callpath:
            found[one.run.parameters] = one
    largest = sorted(found.values(), key=lambda one: (len(one.labels), one.run.parameters))
    return [
        {
            "run": str(one.run),
            "names": one.names,
            "counts": [int((one.labels == i).sum()) for i in range(len(one.names))],
            "labels": one.labels[:MOST_RANKS].tolist(),
        }
        for one in largest[: -MOST_RUNS - 1 : -1]
    ]


def _told(found: Estimate) -> list[float | None]:
    return [_finite(value) for value in (found.value, found.low, found.high)]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _json(values: FloatArray) -> list[float | None]:
    return [_finite(value) for value in values.tolist()]
