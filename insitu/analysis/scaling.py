"""Which call paths share the cost along one parameter, and what dominates far out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.analysis.cost import cost_metric, measured_shares
from insitu.analysis.shares import RELEVANT, Estimate, find_unreliable
from insitu.analysis.summary import costs_along, costs_at
from insitu.entities import TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray

POINTS = 97
TOLD = 9  # call paths told apart; the others are one
TELLING = 0.02  # of the cost: less anywhere is told with the others
OTHERS = ""  # the name of what is not told apart


@dataclass(frozen=True, slots=True)
class ShareCurves:
    """Parts of the cost along a parameter: at (n_points,), parts (n_names, n_points), 0 to 1.

    names: call paths, those that matter farthest out first; the last may be OTHERS. metric: what
    cost is. last: the largest measured value of the parameter.
    """

    metric: str
    axis: str
    last: float
    at: FloatArray
    names: tuple[str, ...]
    parts: FloatArray


def shares_along(
    models: ModelSet, axis: str, farthest: float, held: Mapping[str, float]
) -> ShareCurves | None:
    """The shares from the smallest measured value of a parameter to `farthest`.

    Inclusive times hold each other: for them shares are told of the largest, and do not add up.

    Args:
        models: of the campaign.
        axis: the parameter; the first one where it is none.
        farthest: value of the parameter where to end.
        held: values of other parameters; the largest measured ones otherwise.

    Returns:
        None where nothing is modelled, or nothing lies ahead.
    """
    table = measured_coordinates(models)
    if not len(table):
        return None
    along = models.parameters.index(axis) if axis in models.parameters else 0
    low, last = float(table[:, along].min()), float(table[:, along].max())
    if not 0 < low < farthest:
        return None
    at = np.unique([*np.geomspace(low, farthest, POINTS), min(last, farthest)])
    points = np.tile(fill_coordinate(models.parameters, table.max(axis=0), held), (len(at), 1))
    points[:, along] = at
    metric = cost_metric(models)
    costs = {path: np.maximum(y, 0) for path, y in costs_along(models, metric, points).items()}
    for path in _guessed(models, metric, points[-1], costs):
        del costs[path]
    if not costs:
        return None
    heap = np.array(list(costs.values()))
    total = heap.sum(axis=0) if metric == TIME_EXCLUSIVE.name else heap.max(axis=0)
    by_path = {path: y / np.where(total > 0, total, 1.0) for path, y in costs.items()}
    names = _telling(by_path)
    parts = [by_path[path] for path in names]
    others = [y for path, y in by_path.items() if path not in names]
    told = [str(path) for path in names]
    if others and metric == TIME_EXCLUSIVE.name:
        parts.append(np.sum(others, axis=0))
        told.append(OTHERS)
    return ShareCurves(metric, models.parameters[along], last, at, tuple(told), np.array(parts))


def _guessed(
    models: ModelSet, metric: str, end: FloatArray, costs: Mapping[CallPath, FloatArray]
) -> set[CallPath]:
    """What is only a guess where the picture ends; bounds are asked of those only that matter."""
    now = measured_shares(models)
    rest = sum(y[-1] for path, y in costs.items() if now.get(path, 0.0) >= RELEVANT)
    least = RELEVANT * rest if math.isfinite(rest) else 0.0
    dear = frozenset(path for path, y in costs.items() if not y[-1] <= least)
    known = costs_at(models, metric, tuple(end.tolist()), dear)
    others = {path: Estimate(float(y[-1])) for path, y in costs.items() if path not in known}
    return find_unreliable(known | others, now)


def measured_coordinates(models: ModelSet) -> FloatArray:
    """All coordinates that models were made from: (n, n_parameters)."""
    tables = [one.model.coordinates for one in models.models if len(one.model.coordinates)]
    if not tables:
        return np.empty((0, len(models.parameters)))
    return np.asarray(np.concatenate(tables))


def fill_coordinate(
    parameters: Sequence[str], largest: FloatArray, held: Mapping[str, float]
) -> FloatArray:
    """A coordinate: what is held, the largest measured values otherwise."""
    return np.array([held.get(name, x) for name, x in zip(parameters, largest, strict=True)])


def _telling(by_path: Mapping[CallPath, FloatArray]) -> list[CallPath]:
    """The call paths with the largest parts anywhere, ordered by those farthest out."""
    largest = sorted(by_path, key=lambda path: (-by_path[path].max(), path))[:TOLD]
    told = [path for path in largest if by_path[path].max() >= TELLING]
    return sorted(told, key=lambda path: (-by_path[path][-1], path))
