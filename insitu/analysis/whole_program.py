"""The time of a whole program as the sum of what its functions take themselves [DET §3, §6.2]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.analysis.callpaths import short_name
from insitu.analysis.class_costs import costs_at, estimate_all
from insitu.analysis.cost import measured_shares
from insitu.analysis.shares import RELEVANT, Estimate, find_unreliable
from insitu.entities import TIME_EXCLUSIVE, CallPath
from insitu.modeling.base import ModelSet
from insitu.modeling.classes.supplements import WHOLE_RUN
from insitu.modeling.horizon import HORIZON_FACTOR, unclear_at

SUM_OF_FUNCTIONS = CallPath(("(sum of functions)",))


@dataclass(frozen=True, slots=True)
class FunctionSum:
    """The predicted time of a mean rank at one coordinate, in seconds.

    Attributes:
        at: the coordinate.
        value: the sum of the exclusive times of all call paths with a model.
        low, high: bounds that hold with a probability of 95 %.
        unclear: why the sum is no prediction, "" if it is one.
    """

    at: tuple[float, ...]
    value: float
    low: float
    high: float
    unclear: str = ""


def sum_functions(models: ModelSet, at: Sequence[float]) -> FunctionSum | None:
    """Predict the time of the whole program; None if no exclusive time has a model.

    The distances of the bounds from the value are roots of sums of squares, as for independent
    errors. They also hold where 5 % of noise are common to all functions of a run, since each bound
    contains that noise (98 % of 60 programs, tests/evaluation/function_sum.py). The sum is unclear
    where the model of a call path that may matter is unreliable.
    """
    coordinate = tuple(map(float, at))
    costs = costs_at(models, TIME_EXCLUSIVE.name, coordinate)
    if not costs:
        return None

    unreliable = find_unreliable(costs, measured_shares(models))
    reliable = [estimate for path, estimate in costs.items() if path not in unreliable]
    value = sum(max(estimate.value, 0.0) for estimate in reliable)
    below = math.hypot(*(estimate.value - estimate.low for estimate in reliable))
    above = math.hypot(*(estimate.high - estimate.value for estimate in reliable))
    low, high = max(value - below, 0.0), value + above

    reason = ""
    if unreliable:
        worst = max(unreliable, key=lambda path: costs[path].value)
        reason = f"unclear: {short_name(worst.name)} has no reliable model there"
    elif not high <= HORIZON_FACTOR * low:
        reason = "unclear"
    return FunctionSum(coordinate, value, low, high, reason)


def predict_run_time(models: ModelSet, at: Sequence[float]) -> tuple[Estimate, str] | None:
    """The run time by the model of the whole run, else by the sum of functions, and why it is no
    prediction, such as `unclear beyond p=256`, or ""; None without a model of either."""
    coordinate = tuple(map(float, at))
    for series in models.every_model():
        if series.key.callpath == WHOLE_RUN:
            (estimate,) = estimate_all([series.model], coordinate)
            return estimate, unclear_at(series.model, at, (estimate.low, estimate.high))
    total = sum_functions(models, coordinate)
    return None if total is None else (Estimate(total.value, total.low, total.high), total.unclear)


def describe_rest(models: ModelSet) -> str:
    """A note if call paths without a model, which no sum contains, take a relevant time."""
    rest = sum(models.rest.values())
    if rest < RELEVANT:
        return ""
    return (
        f"{SUM_OF_FUNCTIONS}: call paths without a model took {rest:.0%} of the time of the largest"
        " run and are not in the sum"
    )
