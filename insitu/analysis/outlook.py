"""What the models say of a scale that was not measured: every call path's cost and share there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.analysis.cost import cost_metric, measured_shares
from insitu.analysis.shares import Estimate, predict_shares
from insitu.analysis.summary import Coordinate, costs_at, default_target, largest_coordinate
from insitu.modeling.base import ModelSet

STEP = 2.0 ** (1 / 4)  # of a slider: four steps double a parameter
FARTHEST = 1024.0  # times the largest value measured, where a slider ends

SeriesId = tuple[str, str, str]  # call path, metric, class


@dataclass(frozen=True, slots=True)
class Prospect:
    """A call path at a place: seconds (or what else costs) of a mean rank, and shares, 0 to 1.

    share: NaN where the model is only a guess so far out; it is left out of the sum. factor: how
    many times more it costs than at the largest scale measured; infinite from zero.
    """

    callpath: str
    cost: Estimate
    now: float
    share: Estimate
    factor: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """All call paths at a place, the largest share first.

    shares: the same by call path; factors: how many times larger each series is than at the largest
    scale measured.
    """

    at: Coordinate = ()
    metric: str = ""
    unit: str = ""
    prospects: tuple[Prospect, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[SeriesId, float] = field(default_factory=dict)


def smallest_coordinate(models: ModelSet) -> Coordinate:
    """The smallest measured value of each parameter."""
    tables = [one.model.coordinates for one in models.models if len(one.model.coordinates)]
    if not tables:
        return ()
    return tuple(np.concatenate(tables).min(axis=0).tolist())


def outlook_target(models: ModelSet) -> Coordinate:
    """Where to look ahead if nobody says; () where nothing was measured."""
    return default_target(models) if largest_coordinate(models) else ()


def slider_position(value: float, low: float, high: float) -> float:
    """Where a value stands on a slider, 0 to 1; sliders are logarithmic."""
    if not 0 < low <= value:
        return 0.0
    return min(math.log(value / low) / math.log(high * FARTHEST / low), 1.0)


def slider_value(part: float, low: float, high: float) -> float:
    """The value at a place of a slider, the nearest of its steps."""
    if low <= 0:
        return high
    steps = round(part * math.log(high * FARTHEST / low) / math.log(STEP))
    return step_value(low, steps, low, high)


def step_value(value: float, steps: int, low: float, high: float) -> float:
    """A value of a slider some steps on; whole numbers stay whole."""
    if value <= 0 or low <= 0:
        return min(max(value + steps, low), high * FARTHEST)
    found = value * STEP**steps
    if float(value).is_integer():
        found = float(round(found))
        if found == value and steps:
            found = value + math.copysign(1.0, steps)
    return min(max(found, low), high * FARTHEST)


def make_outlook(models: ModelSet, at: Sequence[float]) -> Outlook:
    """What the models say at a place; empty without models."""
    if not models.models:
        return Outlook()
    place = tuple(at)
    metric = cost_metric(models)
    unit = next(one.metric.unit for one in models.models if one.key.metric == metric)
    here, there = np.array([largest_coordinate(models)]), np.array([place])
    factors = {}
    for one in models.models:
        key = (str(one.key.callpath), one.key.metric, one.key.behaviour)
        factors[key] = _factor(
            float(one.model.predict(here)[0]), float(one.model.predict(there)[0])
        )
    costs, now = costs_at(models, metric, place), measured_shares(models)
    before = costs_at(models, metric, largest_coordinate(models))
    then = {part.callpath: part.then for part in predict_shares(costs, metric, now)}
    order = [*then, *(path for path in costs if path not in then)]
    prospects = [
        Prospect(
            str(path),
            costs[path],
            now.get(path, 0.0),
            then.get(path, Estimate(math.nan)),
            _factor(before[path].value, costs[path].value),
        )
        for path in order
    ]
    share = {one.callpath: one.share.value for one in prospects if one.share.value >= 0}
    return Outlook(place, metric, unit, tuple(prospects), share, factors)


def _factor(now: float, then: float) -> float:
    if now > 0:
        return then / now
    return math.inf if then > 0 else 1.0
