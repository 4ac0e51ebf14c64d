"""Predictions for a scale that was not measured: the cost and share of every call path there."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.analysis.board import Board
from insitu.analysis.class_costs import costs_at, estimate_all, shown_cost, unclear_costs
from insitu.analysis.cost import cost_metric, measured_shares
from insitu.analysis.shares import CostShare, Estimate, find_unclear_shares, predict_shares
from insitu.analysis.summary import largest_coordinate, target_of_models
from insitu.entities import CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import Coordinate
from insitu.modeling.predictions import predict_at
from insitu.modeling.target import default_target

SLIDER_STEP = 2.0 ** (1 / 4)  # four steps of a slider double a parameter
SLIDER_END = 16_384.0  # beyond every default target; in multiples of the largest measured value

MODEST_FACTOR = 2.0  # bounds take as long as three predictions: of less growth they are computed
# only where a model has findings

SeriesId = tuple[str, str, str]  # call path, metric, class


@dataclass(frozen=True, slots=True)
class Prospect:
    """A call path at a coordinate.

    cost: of a mean rank, in seconds or in what else is the cost; now, share: its share in the cost,
    0 to 1, as measured and at the coordinate, NaN where the model is unreliable (it is then left
    out of the total); factor: its cost relative to that at the largest measured scale, infinite
    from zero, NaN where it is unclear; unclear: why the cost is no prediction, "" where it is one;
    is_share_unclear: the share is none, for this or another cost.
    """

    callpath: str
    cost: Estimate
    now: float
    share: Estimate
    factor: float
    unclear: str = ""
    is_share_unclear: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """All call paths at the coordinate `at`, the largest share first.

    shares: by call path, without unclear ones; factors: how many times larger each series is than
    at the largest measured scale, NaN where that is unclear.
    """

    at: Coordinate = ()
    metric: str = ""
    unit: str = ""
    prospects: tuple[Prospect, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[SeriesId, float] = field(default_factory=dict)


def smallest_coordinate(models: ModelSet) -> Coordinate:
    """The smallest measured value of each parameter; () where nothing was measured."""
    tables = [series.model.coordinates for series in models.models if len(series.model.coordinates)]
    if not tables:
        return ()
    return tuple(np.concatenate(tables).min(axis=0).tolist())


def outlook_target(models: ModelSet, chosen: Mapping[str, float]) -> Coordinate:
    """The default coordinate of an outlook; () where nothing was measured.

    Args:
        models: of the campaign.
        chosen: values of parameters that campaign.toml names.
    """
    return target_of_models(models, chosen) if largest_coordinate(models) else ()


def board_target(board: Board, chosen: Mapping[str, float]) -> dict[str, float]:
    """The default target by the measured points of a board; empty where nothing was measured.

    Args:
        board: of the campaign.
        chosen: values of parameters that campaign.toml names.
    """
    coordinates = []
    for row in board.series:
        coordinates += [coordinate for coordinate, _ in row.points]
    if not coordinates:
        return {}
    table = np.array(coordinates)
    target = default_target(board.parameters, table.max(axis=0).tolist(), chosen, table)
    return dict(zip(board.parameters, target, strict=True))


def slider_position(value: float, low: float, high: float) -> float:
    """The position of a value on a logarithmic slider, 0 to 1.

    Args:
        value: of the parameter.
        low, high: its smallest and largest measured value.
    """
    if not 0 < low <= value:
        return 0.0
    return min(math.log(value / low) / math.log(high * SLIDER_END / low), 1.0)


def slider_value(position: float, low: float, high: float) -> float:
    """The value at a position of a slider, 0 to 1: that of the nearest step."""
    if low <= 0:
        return high
    steps = round(position * math.log(high * SLIDER_END / low) / math.log(SLIDER_STEP))
    return step_value(low, steps, low, high)


def step_value(value: float, steps: int, low: float, high: float) -> float:
    """Move a value of a slider by some steps; whole numbers stay whole."""
    if value <= 0 or low <= 0:
        return min(max(value + steps, low), high * SLIDER_END)

    result = value * SLIDER_STEP**steps
    if float(value).is_integer():
        result = float(round(result))
        # Small numbers would not move at all: 1 rounds to 1.
        if result == value and steps:
            result = value + math.copysign(1.0, steps)
    return min(max(result, low), high * SLIDER_END)


def make_outlook(models: ModelSet, at: Sequence[float]) -> Outlook:
    """Predict all series at one coordinate; an empty outlook without models."""
    if not models.models:
        return Outlook()

    target, largest = tuple(at), largest_coordinate(models)
    metric = cost_metric(models)
    unit = next(series.metric.unit for series in models.models if series.key.metric == metric)

    costs, costs_now = costs_at(models, metric, target), costs_at(models, metric, largest)
    now = measured_shares(models)
    unclear = unclear_costs(models, metric, costs, target)
    shares_then = order_shares(predict_shares(costs, metric, now), unclear)
    unclear_shares = find_unclear_shares(shares_then, unclear, metric)
    then = {share.callpath: share.then for share in shares_then}
    order = [*then, *(path for path in costs if path not in then)]
    prospects = []
    for path in order:
        factor = _factor(costs_now[path].value, costs[path].value)
        prospect = Prospect(
            callpath=str(path),
            cost=shown_cost(costs[path], unclear.get(path, "")),
            now=now.get(path, 0.0),
            share=then.get(path, Estimate(math.nan)),
            factor=math.nan if path in unclear else factor,
            unclear=unclear.get(path, ""),
            is_share_unclear=path in unclear_shares,
        )
        prospects.append(prospect)

    shares = {}
    for prospect in prospects:
        if prospect.share.value >= 0 and not prospect.is_share_unclear:
            shares[prospect.callpath] = prospect.share.value
    factors = _series_factors(models, largest, target)
    return Outlook(target, metric, unit, tuple(prospects), shares=shares, factors=factors)


def order_shares(shares: Iterable[CostShare], unclear: Container[CallPath]) -> list[CostShare]:
    """Sort shares for people: unclear ones follow by what they take now, guesses are last.

    Args:
        shares: the largest first.
        unclear: the call paths whose cost is no prediction.
    """

    def key(share: CostShare) -> tuple[bool, bool, float]:
        is_unclear = share.callpath in unclear
        return math.isnan(share.then.value), is_unclear, -share.now if is_unclear else 0.0

    return sorted(shares, key=key)


def _series_factors(
    models: ModelSet, largest: Coordinate, target: Coordinate
) -> dict[SeriesId, float]:
    distinct = list({id(series.model): series.model for series in models.models}.values())
    now, then = (predict_at(distinct, at).tolist() for at in (largest, target))
    factor_of = {id(m): _factor(*pair) for m, *pair in zip(distinct, now, then, strict=True)}

    doubtful = [
        model
        for model in distinct
        if model.findings or not 1 / MODEST_FACTOR <= factor_of[id(model)] <= MODEST_FACTOR
    ]
    for model, found in zip(doubtful, estimate_all(doubtful, target), strict=True):
        if unclear_at(model, target, (found.low, found.high)):
            factor_of[id(model)] = math.nan
    return {
        (str(series.key.callpath), series.key.metric, series.key.behaviour): factor_of[
            id(series.model)
        ]
        for series in models.models
    }


def _factor(now: float, then: float) -> float:
    if now > 0:
        return then / now
    return math.inf if then > 0 else 1.0
