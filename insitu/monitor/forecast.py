"""What the models of other runs predict for a run in progress, and where it goes another way."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling.base import Clusters, ModelSet
from insitu.monitor.cost import shares
from insitu.monitor.parts import Estimate
from insitu.monitor.summary import costs_at

MOST = 500  # call paths that are followed, the dearest
COUNTABLE = 10  # visits from which on they say how far a call path is
CHANCE = 0.05  # of runs like the others in which anything is marked at any time
ROUNDING = 1e-6  # relative, of counts that are known exactly

SLOWER, FASTER = "slower", "faster"
MORE, FEWER = "more", "fewer"  # visits
METRICS = (VISITS.name, TIME.name, TIME_EXCLUSIVE.name)

Key = tuple[str, str]  # call path, metric


class LivePath(NamedTuple):
    """A call path of a run in progress: means so far over those `ranks` that have entered it."""

    callpath: str
    visits: float
    seconds: float
    exclusive_s: float = math.nan
    ranks: float = math.inf

    def values(self) -> dict[str, float]:
        """By metric, in the order of METRICS."""
        return dict(zip(METRICS, self[1:4], strict=True))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a mean rank has when the run is over, by call path and metric; how many enter it."""

    values: Mapping[Key, Estimate] = field(default_factory=dict)
    ranks: Mapping[str, float] = field(default_factory=dict)


class Judgement(NamedTuple):
    """What is due by now, with bounds, and a word where a run is outside of these."""

    expected: Estimate
    verdict: str


@dataclass(frozen=True, slots=True)
class Course:
    """How far a run is, 0 to 1, NaN where nothing tells; what became of each forecast so far."""

    part: float
    judged: Mapping[Key, Judgement]


def forecast(models: ModelSet, run: RunKey) -> Forecast:
    """What the models say for a run, of its dearest call paths; empty where they cannot.

    Bounds are so wide that in one run of twenty like the others one of them is left at any time:
    CHANCE is divided by the number of bounds (Bonferroni), and by two since a sum that grows passes
    a bound on its way at most twice as often as it ends behind it (reflection principle, for noise
    of visits that is independent; noise of the whole run passes it at its end).
    """
    at = run.coordinate(models.parameters)
    if not models.models or not all(map(math.isfinite, at)):
        return Forecast()
    share = shares(models)
    dearest = set(sorted(share, key=lambda path: -share[path])[:MOST])
    keys = {(one.key.callpath, one.key.metric) for one in models.models}
    count = sum(path in dearest and metric in METRICS for path, metric in keys)
    level = 1 - CHANCE / (2 * max(count, 1))
    values = {
        (str(path), metric): found
        for metric in METRICS
        for path, found in costs_at(models, metric, at, dearest, level=level).items()
    }
    return Forecast(values, _entering(models.clusters, dearest, run.size))


def course(
    foreseen: Forecast, callpaths: Sequence[LivePath], *, size: int, has_ended: bool
) -> Course:
    """How far a run is, what its call paths should have taken by now, and which did not.

    Visits hardly vary, so those made so far say which part of a call path is done; that part of its
    time is due, give or take what the whole run may differ from its prediction. Where visits do not
    tell, a call path is marked only when it has had more than all that it may take: totals grow.

    Args:
        foreseen: of this run.
        callpaths: as far as they are known.
        size: ranks of the run.
        has_ended: no more is to come; only then may anything be too little of a whole.
    """
    parts: list[float] = []
    weights: list[float] = []
    judged: dict[Key, Judgement] = {}
    for one in callpaths:
        awaited = max(foreseen.ranks.get(one.callpath, size), 1.0)
        entered = min(one.ranks / awaited, 1.0)
        part = 1.0 if has_ended else _part(one, foreseen, entered)
        whole = foreseen.values.get((one.callpath, TIME.name))
        if whole is not None and not math.isnan(part):
            parts.append(part)
            weights.append(whole.value)
        for metric, value in one.values().items():
            whole = foreseen.values.get((one.callpath, metric))
            if whole is not None and not math.isnan(value):
                key = one.callpath, metric
                is_count = metric == VISITS.name
                due = _due(whole, math.nan if is_count and not has_ended else part)
                least = value * entered if math.isnan(part) or is_count else value
                judged[key] = Judgement(due, _verdict(least, due, is_count=is_count))
    return Course(1.0 if has_ended else _median(parts, weights), judged)


def _part(one: LivePath, foreseen: Forecast, entered: float) -> float:
    """Which part of its visits a call path has made; NaN where these are few or some ranks wait."""
    wanted = foreseen.values.get((one.callpath, VISITS.name))
    if wanted is None or entered < 1 or not one.visits >= COUNTABLE <= wanted.value:
        return math.nan
    return min(one.visits / wanted.value, 1.0)


def _due(whole: Estimate, part: float) -> Estimate:
    """What is due when so much of the visits is made; all of it may be had where that is NaN."""
    if math.isnan(part):
        return Estimate(whole.value, min(whole.low, 0.0), whole.high)
    due = part * whole.value
    low = max(due - (whole.value - whole.low), min(whole.low, 0.0))
    return Estimate(due, low, due + (whole.high - whole.value))


def _verdict(value: float, due: Estimate, *, is_count: bool) -> str:
    """A word where a value is outside; no word where nothing is known."""
    rounding = ROUNDING * abs(due.value) if is_count else 0.0
    if value > due.high + rounding:
        return MORE if is_count else SLOWER
    if value < due.low - rounding:
        return FEWER if is_count else FASTER
    return ""


def _entering(clusters: Iterable[Clusters], only: set[CallPath], size: int) -> dict[str, float]:
    """How many ranks enter each call path: always as many, or else the largest part of all."""
    seen: dict[str, list[tuple[int, int]]] = {}
    for one in clusters:
        if one.metric == VISITS.name and one.callpath in only:
            there = int(np.count_nonzero(one.labels >= 0))
            seen.setdefault(str(one.callpath), []).append((there, len(one.labels)))
    entering = {}
    for path, counts in seen.items():
        fixed = {there for there, _ in counts}
        largest = max(there / of for there, of in counts if of)
        entering[path] = float(min(fixed)) if len(fixed) == 1 else largest * size
    return entering


def _median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value below which half of the weight lies."""
    if not sum(weights) > 0:
        return math.nan
    order = np.argsort(values)
    heap = np.cumsum(np.array(weights)[order])
    return float(np.array(values)[order][int(np.searchsorted(heap, heap[-1] / 2))])
