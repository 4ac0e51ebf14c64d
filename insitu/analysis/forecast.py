"""What the models of other runs predict for a run in progress, and where it goes another way."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from insitu import entities
from insitu.analysis.cost import measured_shares
from insitu.analysis.shares import Estimate
from insitu.analysis.summary import costs_at
from insitu.entities import (
    CYCLES,
    HEAP_PEAK,
    INSTRUCTIONS,
    ITERATION_TIME,
    ITERATION_VARIATION,
    MEMORY_RSS_PEAK,
    TIME,
    TIME_EXCLUSIVE,
    TIME_WAITING,
    VISITS,
    CallPath,
    MetricKind,
    RunKey,
)
from insitu.modeling.base import Clusters, ModelSet
from insitu.modeling.classes.match import ALL

MOST = 500  # call paths that are followed, the dearest
MOST_OTHERS = 100  # of each metric besides visits and times, those that have most of it
COUNTABLE = 10  # visits from which on they say how far a call path is
CHANCE = 0.05  # of runs like the others in which anything is marked at any time
ROUNDING = 1e-6  # relative, of counts that are known exactly
RELEVANT = 0.01  # of what the call path has that has most: differing by less does not matter

SLOWER, FASTER = "slower", "faster"
MORE, FEWER = "more", "fewer"  # of what is no time
METRICS = (VISITS.name, TIME.name, TIME_EXCLUSIVE.name)  # that share one half of CHANCE
TIMES = frozenset(one.name for one in (TIME, TIME_EXCLUSIVE, TIME_WAITING, ITERATION_TIME))
# Grow with visits; other totals may all come with the first one.
STEADY = frozenset(one.name for one in (TIME, TIME_EXCLUSIVE, INSTRUCTIONS, CYCLES))
PEAKS = frozenset((MEMORY_RSS_PEAK.name, HEAP_PEAK.name))  # levels that never fall
LEVELS = frozenset(one.name for one in entities.METRICS if one.kind is MetricKind.GAUGE)

PathMetric = tuple[str, str]  # call path, metric


class LivePath(NamedTuple):
    """A call path of a run in progress: means so far over those `ranks` that have entered it.

    more: the same of other metrics, by their names.
    """

    callpath: str
    visits: float
    seconds: float
    exclusive_s: float = math.nan
    ranks: float = math.inf
    more: Mapping[str, float] = MappingProxyType({})

    def values(self) -> dict[str, float]:
        """By metric, those of METRICS first, in their order."""
        return {
            VISITS.name: self.visits,
            TIME.name: self.seconds,
            TIME_EXCLUSIVE.name: self.exclusive_s,
            **self.more,
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a mean rank has when the run is over, by call path and metric; how many enter it."""

    values: Mapping[PathMetric, Estimate] = field(default_factory=dict)
    ranks: Mapping[str, float] = field(default_factory=dict)


class Judgement(NamedTuple):
    """What is due by now, with bounds, and a word where a run is outside of these."""

    expected: Estimate
    verdict: str


@dataclass(frozen=True, slots=True)
class ForecastComparison:
    """How far a run is, 0 to 1, NaN where nothing tells; what became of each forecast so far."""

    part: float
    judged: Mapping[PathMetric, Judgement]


def make_forecast(models: ModelSet, run: RunKey) -> Forecast:
    """What the models say for a run, of its dearest call paths; empty where they cannot.

    Of bytes, messages and memory, of the call paths that have most of these. Where a class of ranks
    has no model yet, nothing is said of the mean; nor do laws of class sizes narrow its bounds.

    Bounds are so wide that in one run of twenty like the others one of them is left at any time:
    CHANCE is divided by the number of bounds (Bonferroni), and by two since a sum that grows passes
    a bound on its way at most twice as often as it ends behind it (reflection principle, for noise
    of visits that is independent; noise of the whole run passes it at its end). Visits and times
    have one half of CHANCE, all other metrics the other, so that many of these do not hide those.
    """
    at = run.coordinate(models.parameters)
    if not models.models or not all(map(math.isfinite, at)):
        return Forecast()
    share = measured_shares(models)
    dearest = set(sorted(share, key=lambda path: -share[path])[:MOST])
    followed = _followed(models, dearest)
    halves = [[name for name in followed if (name in METRICS) is first] for first in (True, False)]
    chance = CHANCE / max(sum(map(bool, halves)), 1)
    values = {}
    for half in halves:
        level = 1 - chance / (2 * max(sum(len(followed[name]) for name in half), 1))
        for name in half:
            found = costs_at(models, name, at, followed[name], level, of_any_sizes=True)
            values.update({(str(path), name): one for path, one in found.items()})
    every = dearest.union(*followed.values())
    return Forecast(values, _entering(models.clusters, every, run.size))


def _followed(models: ModelSet, dearest: set[CallPath]) -> dict[str, set[CallPath]]:
    """The call paths of each metric: the dearest, of what is no time those that have most of it."""
    most: dict[str, dict[CallPath, float]] = {}
    whole = _whole(models)
    for one in models.models:
        if (one.key.callpath, one.key.metric) not in whole:
            continue
        sizes, path = most.setdefault(one.key.metric, {}), one.key.callpath
        sizes[path] = max(float(np.nanmax(one.model.values, initial=0.0)), sizes.get(path, 0.0))
    return {
        name: {path for path in sizes if path in dearest}
        if name in METRICS
        else set(sorted(sizes, key=lambda path: -sizes[path])[:MOST_OTHERS])
        for name, sizes in sorted(most.items())
    }


def _whole(models: ModelSet) -> set[tuple[CallPath, str]]:
    """The metrics of call paths whose models are those of all ranks in all runs."""
    known: dict[tuple[CallPath, str], set[str]] = {}
    for one in models.models:
        if one.key.metric != ITERATION_VARIATION.name:  # says how much times vary, and varies more
            known.setdefault((one.key.callpath, one.key.metric), set()).add(one.key.behaviour)
    parted = {
        (one.callpath, one.metric)
        for one in models.clusters
        for names in (known.get((one.callpath, one.metric), set()),)
        if not ({ALL} if ALL in names else names) >= set(one.names)
    }
    return known.keys() - parted


def compare_with_forecast(
    foreseen: Forecast, callpaths: Sequence[LivePath], *, size: int, has_ended: bool
) -> ForecastComparison:
    """How far a run is, what its call paths should have taken by now, and which did not.

    Visits hardly vary, so those made so far say which part of a call path is done; that part of its
    time is due, give or take what the whole run may differ from its prediction. Where visits do not
    tell, a call path is marked only when it has had more than all that it may take: totals grow.
    So it is with bytes, messages and what is allocated, which may all come with the first visit,
    and with peaks of memory; what a level is that may fall is known at the end, and only too much
    of it is told.

    Args:
        foreseen: of this run.
        callpaths: as far as they are known.
        size: ranks of the run.
        has_ended: no more is to come; only then may anything be too little of a whole.
    """
    sizes = _sizes(foreseen)
    parts: list[float] = []
    weights: list[float] = []
    judged: dict[PathMetric, Judgement] = {}
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
            if whole is None or math.isnan(value):
                continue
            if metric in LEVELS - PEAKS and not has_ended:
                continue
            is_steady = metric in STEADY and not math.isnan(part)
            due = _due(whole, part if is_steady or has_ended else math.nan)
            least = value if is_steady else value * entered
            matters = abs(least - due.value) > RELEVANT * sizes[metric]
            verdict = _verdict(metric, least, due) if matters else ""
            judged[one.callpath, metric] = Judgement(due, verdict)
    return ForecastComparison(1.0 if has_ended else _median(parts, weights), judged)


def _sizes(foreseen: Forecast) -> dict[str, float]:
    """What is foreseen of the call path that has most of each metric; times are parts of one."""
    sizes: dict[str, float] = {}
    for (_, metric), whole in foreseen.values.items():
        name = TIME.name if metric in TIMES else metric
        sizes[name] = max(sizes.get(name, 0.0), abs(whole.value))
    return sizes | dict.fromkeys(TIMES, sizes.get(TIME.name, 0.0))


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


def _verdict(metric: str, value: float, due: Estimate) -> str:
    """A word where a value is outside; no word where nothing is known."""
    is_time = metric in TIMES
    rounding = 0.0 if is_time else ROUNDING * abs(due.value)
    if value > due.high + rounding:
        return SLOWER if is_time else MORE
    if value < due.low - rounding and metric not in LEVELS:
        return FASTER if is_time else FEWER
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
