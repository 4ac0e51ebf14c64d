"""Which call paths share the cost along one parameter, and which dominate far out."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.analysis.class_costs import costs_along, costs_at, unclear_costs
from insitu.analysis.cost import cost_metric, measured_shares
from insitu.analysis.shares import (
    RELEVANT,
    Estimate,
    find_unclear_shares,
    find_unreliable,
    predict_shares,
)
from insitu.entities import TIME_EXCLUSIVE, CallPath, number
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray
from insitu.modeling.target import following_columns, held_columns, points_along

POINTS = 97
MAX_ESTIMATES = 60  # bounds of call paths that take most now, whatever they take then
MAX_CURVES = 9  # call paths with a curve of their own
MIN_SHARE = 0.02  # of the cost anywhere: call paths below it have no curve of their own
OTHERS = ""  # the name of the sum of all other call paths


@dataclass(frozen=True, slots=True)
class ShareCurves:
    """Shares of the cost along a parameter.

    metric: the cost; axis: the parameter; last: its largest measured value; farthest: where the
    curves were to end; at: (n_points,), its values, up to where it is unclear what takes the time;
    names: call paths, those that matter farthest out first, the last may be OTHERS;
    shares: (n_names, n_points), 0 to 1.
    """

    metric: str
    axis: str
    last: float
    farthest: float
    at: FloatArray
    names: tuple[str, ...]
    shares: FloatArray


def shares_along(
    models: ModelSet, axis: str, farthest: float, held: Mapping[str, float]
) -> ShareCurves | None:
    """The shares from the smallest measured value of a parameter to `farthest`.

    Inclusive times contain each other: they are shares of the largest and do not add up to 1.

    Args:
        models: of the campaign.
        axis: the parameter; the first one if the models have none of this name.
        farthest: value of the parameter where the curves end.
        held: values of other parameters; the largest measured ones by default.

    Returns:
        None where nothing is modelled or predicted, or `farthest` is not beyond the smallest
        measured value.
    """
    table = measured_coordinates(models)
    if not len(table):
        return None
    along = models.parameters.index(axis) if axis in models.parameters else 0
    low, last = float(table[:, along].min()), float(table[:, along].max())
    if not 0 < low < farthest:
        return None

    metric = cost_metric(models)
    point = fill_coordinate(models.parameters, table.max(axis=0), held)
    end = points_along(point, along, np.array([farthest]), table)[-1]
    reach, unreliable = find_reach(models, metric, end, along)
    if reach <= low:
        return None

    at = np.unique([*np.geomspace(low, reach, POINTS), min(last, reach)])
    costs = _costs_along(models, metric, points_along(point, along, at, table))
    costs = {path: y for path, y in costs.items() if path not in unreliable}
    if not costs:
        return None

    names, shares = _select_curves(costs, is_sum=metric == TIME_EXCLUSIVE.name)
    return ShareCurves(
        metric=metric,
        axis=models.parameters[along],
        last=last,
        farthest=farthest,
        at=at,
        names=names,
        shares=shares,
    )


def find_reach(
    models: ModelSet, metric: str, end: FloatArray, along: int
) -> tuple[float, set[CallPath]]:
    """Up to which doubling of a parameter it is clear what takes the time, at most that of `end`.

    Args:
        models: of the campaign.
        metric: the cost.
        end: (n_parameters,), the farthest point.
        along: index of the parameter.

    Returns:
        The value of the parameter, and the call paths without a predicted share there, which are
        in no total. The value is 0 where it is unclear within the measured range already.
    """
    table = measured_coordinates(models)
    last, farthest = table[:, along].max(), end[along]
    n_doublings = max(math.ceil(math.log2(farthest / last)), 0)
    at = np.minimum(last * 2.0 ** np.arange(n_doublings + 1), farthest)
    points = points_along(end, along, at, table)
    values = _costs_along(models, metric, points)
    now = measured_shares(models)

    def estimate(i: int) -> dict[CallPath, Estimate]:
        costs = {path: y[i] for path, y in values.items()}
        return _estimate_relevant(models, metric, points[i], costs, now)

    def is_unclear(i: int) -> bool:
        estimates = estimate(i)
        shares = list(predict_shares(estimates, metric, now))
        relevant = {path: cost for path, cost in estimates.items() if math.isfinite(cost.low)}
        unclear = unclear_costs(models, metric, relevant, points[i].tolist())
        n_unclear = len(find_unclear_shares(shares, unclear, metric))
        return 0 < len(shares) == n_unclear

    n_clear = bisect_left(range(len(at)), True, key=is_unclear)
    if not n_clear:
        return 0.0, set()
    return float(at[n_clear - 1]), find_unreliable(estimate(n_clear - 1), now)


def _costs_along(models: ModelSet, metric: str, points: FloatArray) -> dict[CallPath, FloatArray]:
    return {path: np.maximum(y, 0) for path, y in costs_along(models, metric, points).items()}


def _select_curves(
    costs: Mapping[CallPath, FloatArray], *, is_sum: bool
) -> tuple[tuple[str, ...], FloatArray]:
    """Names and shares of the call paths with the largest shares; the sum of all others last."""
    table = np.array(list(costs.values()))
    total = table.sum(axis=0) if is_sum else table.max(axis=0)
    by_path = {path: y / np.where(total > 0, total, 1.0) for path, y in costs.items()}

    largest = sorted(by_path, key=lambda path: (-by_path[path].max(), path))[:MAX_CURVES]
    chosen = [path for path in largest if by_path[path].max() >= MIN_SHARE]
    chosen.sort(key=lambda path: (-by_path[path][-1], path))

    names = [str(path) for path in chosen]
    shares = [by_path[path] for path in chosen]
    others = [y for path, y in by_path.items() if path not in chosen]
    if others and is_sum:
        names.append(OTHERS)
        shares.append(np.sum(others, axis=0))
    return tuple(names), np.array(shares)


def _estimate_relevant(
    models: ModelSet,
    metric: str,
    point: FloatArray,
    costs: Mapping[CallPath, float],
    now: Mapping[CallPath, float],
) -> dict[CallPath, Estimate]:
    """The costs of call paths at a point, with bounds where the call path could matter there.

    Bounds are expensive to compute.
    """
    rest = sum(cost for path, cost in costs.items() if now.get(path, 0.0) >= RELEVANT)
    least = RELEVANT * rest if math.isfinite(rest) else 0.0

    by_measured = sorted(costs, key=lambda path: -now.get(path, 0.0))
    relevant = {path for path, cost in costs.items() if not cost <= least}
    relevant.update(by_measured[:MAX_ESTIMATES])
    estimates = costs_at(models, metric, tuple(point.tolist()), frozenset(relevant))
    for path, cost in costs.items():
        estimates.setdefault(path, Estimate(float(cost)))
    return estimates


def measured_coordinates(models: ModelSet) -> FloatArray:
    """All coordinates that models were made from: (n, n_parameters)."""
    tables = [series.model.coordinates for series in models.models if len(series.model.coordinates)]
    if not tables:
        return np.empty((0, len(models.parameters)))
    return np.asarray(np.concatenate(tables))


def fill_coordinate(
    parameters: Sequence[str], others: FloatArray, held: Mapping[str, float]
) -> FloatArray:
    """A coordinate, (n_parameters,): the held values, and those of another one otherwise."""
    return np.array([held.get(name, x) for name, x in zip(parameters, others, strict=True)])


def fullest_line(coordinates: FloatArray, along: int) -> FloatArray:
    """The largest coordinate of the line along one parameter that has the most points.

    Where a few sizes were measured at one number of ranks only, a curve over the ranks has its
    points at another size. Parameters that changed with the one are on its line.

    Args:
        coordinates: (n_points, n_parameters). along: the column of the parameter.
    """
    points = np.unique(coordinates, axis=0)
    others = points[:, held_columns(coordinates, along)]
    lines, line = np.unique(others, axis=0, return_inverse=True)
    counts = np.bincount(line.ravel(), minlength=len(lines))
    fullest = np.flatnonzero(counts == counts.max())[-1]
    of_line = points[line.ravel() == fullest]
    return np.asarray(of_line[np.argmax(of_line[:, along])])


def is_on_line(coordinates: FloatArray, point: FloatArray, along: int) -> NDArray[np.bool_]:
    """Which coordinates lie on the line along one parameter through a point, (n_points,).

    Args:
        coordinates: (n_points, n_parameters). along: the column of the parameter.
        point: (n_parameters,), see `fullest_line`.
    """
    columns = held_columns(coordinates, along)
    return np.asarray((coordinates[:, columns] == point[columns]).all(axis=1))


def describe_line(
    parameters: Sequence[str], coordinates: FloatArray, point: FloatArray, along: int
) -> str:
    """What a line along one parameter holds and takes along: `at m = 3; n follows p`.

    Args:
        parameters: their names.
        coordinates, point, along: see `is_on_line`.
    """
    rest = [f"{parameters[i]} = {number(point[i])}" for i in held_columns(coordinates, along)]
    texts = [f"at {', '.join(rest)}"] if rest else []
    followers = following_columns(coordinates, along)
    texts += [f"{parameters[i]} follows {parameters[along]}" for i in followers]
    return "; ".join(texts)
