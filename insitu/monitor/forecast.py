"""What the models of other runs predict for a run in progress, and where it goes another way."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.entities import TIME, VISITS, RunKey
from insitu.modeling.base import ModelSet
from insitu.monitor.cost import shares
from insitu.monitor.summary import Estimate, costs_at

MOST = 500  # call paths that are followed, the dearest
COUNTABLE = 10  # visits from which on they say how far a call path is

SLOWER, FASTER = "slower", "faster"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a mean rank has when the run is over, by call path: visits, and inclusive seconds."""

    visits: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Course:
    """How far a run is, 0 to 1, NaN where nothing tells; what was to be expected by now.

    expected: seconds of a mean rank by call path, with 95 % bounds; a bound of 0 below says that
    nobody can tell yet whether a call path is fast.
    """

    part: float
    expected: Mapping[str, Estimate]


def forecast(models: ModelSet, run: RunKey) -> Forecast:
    """What the models say for a run, of its dearest call paths; empty where they cannot."""
    at = run.coordinate(models.parameters)
    if not models.models or not all(map(math.isfinite, at)):
        return Forecast()
    share = shares(models)
    dearest = set(sorted(share, key=lambda path: -share[path])[:MOST])
    return Forecast(
        {str(path): one.value for path, one in costs_at(models, VISITS.name, at, dearest).items()},
        {str(path): one for path, one in costs_at(models, TIME.name, at, dearest).items()},
    )


def course(
    foreseen: Forecast, callpaths: Sequence[tuple[str, float, float]], *, has_ended: bool
) -> Course:
    """How far a run is, and what its call paths should have taken by now.

    Visits hardly vary, so those made so far say which part of a call path is done, and that part
    of its time is due; where a call path is visited too rarely for that, all of it is allowed.

    Args:
        foreseen: of this run.
        callpaths: (path, visits, seconds) so far, means over ranks.
        has_ended: no more is to come.
    """
    parts: list[float] = []
    weights: list[float] = []
    expected: dict[str, Estimate] = {}
    for path, visits, _ in callpaths:
        whole = foreseen.seconds.get(path)
        if whole is None:
            continue
        wanted = foreseen.visits.get(path, math.nan)
        if has_ended:
            expected[path] = whole
        elif visits >= COUNTABLE <= wanted:
            part = min(visits / wanted, 1.0)
            parts.append(part)
            weights.append(whole.value)
            expected[path] = Estimate(part * whole.value, part * whole.low, part * whole.high)
        else:
            expected[path] = Estimate(whole.value, 0.0, whole.high)
    return Course(1.0 if has_ended else _median(parts, weights), expected)


def verdict(seconds: float, expected: Estimate) -> str:
    """`slower` or `faster` than the models allow, else empty."""
    if seconds > expected.high:
        return SLOWER
    return FASTER if seconds < expected.low else ""


def _median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value below which half of the weight lies."""
    if not sum(weights) > 0:
        return math.nan
    order = np.argsort(values)
    heap = np.cumsum(np.array(weights)[order])
    return float(np.array(values)[order][int(np.searchsorted(heap, heap[-1] / 2))])
