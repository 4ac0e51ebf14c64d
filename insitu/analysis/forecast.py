"""What the models of other runs predict for a run in progress, and where the run differs."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from insitu import entities
from insitu.analysis.class_costs import costs_at
from insitu.analysis.cost import measured_shares
from insitu.analysis.shares import Estimate
from insitu.entities import (
    CYCLES,
    FILES_OWN,
    FILES_SHARED,
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
    is_start_up,
)
from insitu.modeling.base import ALL, Clusters, ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_without_evidence

MAX_PATHS = 500  # call paths that are followed, the most expensive ones
MAX_PATHS_OTHERS = 100  # of each metric besides visits and times, those with the largest values
MIN_VISITS = 10  # fewer do not show how far a call path is
CHANCE = 0.05  # of runs like the others, the share in which anything is marked at any time
ROUNDING = 1e-6  # relative, of counts that are predicted exactly
RELEVANT = 0.01  # of the largest value of a metric: smaller differences do not matter

SLOWER, FASTER = "slower", "faster"
MORE, LESS = "more", "less"  # for metrics that are not times
CORE_METRICS = (VISITS.name, TIME.name, TIME_EXCLUSIVE.name)
TIMES = frozenset(metric.name for metric in (TIME, TIME_EXCLUSIVE, TIME_WAITING, ITERATION_TIME))
SECONDS = frozenset(metric.name for metric in entities.METRICS if metric.unit == "s")
# These grow with visits; other counters may reach their final value with the first visit.
STEADY = frozenset(metric.name for metric in (TIME, TIME_EXCLUSIVE, INSTRUCTIONS, CYCLES))
# The variation of iteration times varies too much itself to be judged. Which ranks open a file is
# no amount: of one rank, each file is opened by all ranks. What MPI_Init and imports do besides
# taking time, such as reading the directories of the machine, is not what the program does.
UNJUDGED = frozenset(metric.name for metric in (ITERATION_VARIATION, FILES_SHARED, FILES_OWN))
PEAKS = frozenset((MEMORY_RSS_PEAK.name, HEAP_PEAK.name))  # gauges that never fall
GAUGES = frozenset(metric.name for metric in entities.METRICS if metric.kind is MetricKind.GAUGE)

PathMetric = tuple[str, str]  # call path, name of a metric


class LivePath(NamedTuple):
    """A call path of a run in progress: means so far over the `ranks` that have entered it.

    more: means of other metrics, by name.
    """

    callpath: str
    visits: float
    seconds: float
    exclusive_s: float = math.nan
    ranks: float = math.inf
    more: Mapping[str, float] = MappingProxyType({})

    def values(self) -> dict[str, float]:
        """Values by metric; CORE_METRICS come first, in their order."""
        return {
            VISITS.name: self.visits,
            TIME.name: self.seconds,
            TIME_EXCLUSIVE.name: self.exclusive_s,
            **self.more,
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a mean rank will have when the run is over.

    values: by call path and metric; ranks: how many enter each call path.
    """

    values: Mapping[PathMetric, Estimate] = field(default_factory=dict)
    ranks: Mapping[str, float] = field(default_factory=dict)


class Judgement(NamedTuple):
    """What is expected by now, with bounds, and a word where the run is outside of them."""

    expected: Estimate
    verdict: str


@dataclass(frozen=True, slots=True)
class ForecastComparison:
    """How a run compares with its forecast so far.

    progress: how far the run is, 0 to 1, NaN where nothing shows it; judgements: by call path and
    metric.
    """

    progress: float
    judgements: Mapping[PathMetric, Judgement]


def _differs_otherwise(models: ModelSet, run: RunKey) -> bool:
    """Whether a parameter that never varied, and no model has, has another value in this run."""
    others = [name for name, _ in run.parameters if name not in models.parameters]
    if not others:
        return False
    keys = {id(cluster.run): cluster.run for cluster in models.clusters}.values()
    for name in others:
        measured = {value for key in keys for value in key.coordinate([name])}
        known = {value for value in measured if math.isfinite(value)}
        if known and known.isdisjoint(run.coordinate([name])):
            return True
    return False


def make_forecast(
    models: ModelSet, run: RunKey, *, measured: Mapping[PathMetric, float] | None = None
) -> Forecast:
    """Predict the metrics of a run.

    Visits and times are predicted for the most expensive call paths, other metrics for the call
    paths with the largest values, unless a model has no evidence for its growth. Where a class of
    ranks has no model yet, the model of the mean over all ranks predicts. Laws of class sizes do
    not narrow the bounds of a mean.

    The bounds are wide enough that of twenty runs like the others one leaves any of them at any
    time. CHANCE is divided by the number of bounds (Bonferroni), and by two because a sum that
    grows passes a bound on its way at most twice as often as it ends behind it (reflection
    principle, for independent noise of visits; noise of the whole run passes it at the end). Visits
    and times have one half of CHANCE and all other metrics the other, so that many of these do not
    hide those.

    Args:
        models: of other runs.
        run: its parameters are the coordinate of the prediction.
        measured: means of the run if it is complete. Where they hardly differ from the prediction,
            no bounds are computed.

    Returns:
        An empty forecast where the models cannot predict the run: it lacks one of their parameters,
        or is the first one with another value of a parameter that no model has.
    """
    at = run.coordinate(models.parameters)
    if not models.models or not all(map(math.isfinite, at)) or _differs_otherwise(models, run):
        return Forecast()

    share = measured_shares(models)
    expensive = set(sorted(share, key=lambda path: -share[path])[:MAX_PATHS])
    followed = _select_paths(models, expensive)
    for path, metric in _find_unclear(models, followed, at):
        followed[metric].discard(path)

    core = [name for name in followed if name in CORE_METRICS]
    others = [name for name in followed if name not in CORE_METRICS]
    halves = [names for names in (core, others) if names]
    chance = CHANCE / max(len(halves), 1)
    n_followed = {name: len(paths) for name, paths in followed.items()}
    all_paths = expensive.union(*followed.values())

    values: dict[PathMetric, Estimate] = {}
    bounded: Mapping[str, set[CallPath]] = followed
    by_metric = _divide_by_metric(models)
    if measured is not None:
        for name, paths in followed.items():
            costs = costs_at(by_metric[name], name, at, paths, of_any_sizes=True, has_bounds=False)
            values |= {(str(path), name): estimate for path, estimate in costs.items()}
        bounded = _select_relevant(values, followed, measured)

    for names in halves:
        # Bounds are as wide as if all call paths that are followed had some.
        bounds = 2 * max(sum(n_followed[name] for name in names), 1)
        level = 1 - chance / bounds
        for name in names:
            if not bounded[name]:
                continue
            costs = costs_at(by_metric[name], name, at, bounded[name], level, of_any_sizes=True)
            for path, estimate in costs.items():
                values[str(path), name] = estimate

    return Forecast(values, _count_entering(models.clusters, all_paths, run.size))


def _divide_by_metric(models: ModelSet) -> dict[str, ModelSet]:
    """The models and classes of each metric, each of which is looked at several times."""
    series: dict[str, list[SeriesModel]] = defaultdict(list)
    clusters: dict[str, list[Clusters]] = defaultdict(list)
    for model in models.models:
        series[model.key.metric].append(model)
    for entry in models.clusters:
        clusters[entry.metric].append(entry)
    return {
        name: replace(models, models=of_metric, clusters=clusters[name])
        for name, of_metric in series.items()
    }


def _select_relevant(
    predicted: Mapping[PathMetric, Estimate],
    followed: Mapping[str, set[CallPath]],
    measured: Mapping[PathMetric, float],
) -> dict[str, set[CallPath]]:
    """The call paths whose measured mean differs enough from the prediction to be judged."""
    largest = _largest_values(Forecast(predicted))
    relevant: dict[str, set[CallPath]] = {}
    for name, paths in followed.items():
        relevant[name] = set()
        for path in paths:
            key = (str(path), name)
            value, estimate = measured.get(key, math.nan), predicted.get(key)
            if estimate is not None and _is_relevant(value, estimate, largest[name]):
                relevant[name].add(path)
    return relevant


def _is_relevant(value: float, expected: Estimate, largest: float) -> bool:
    """Whether a difference matters beside the largest value of the metric."""
    return abs(value - expected.value) > RELEVANT * largest


def _select_paths(models: ModelSet, expensive: set[CallPath]) -> dict[str, set[CallPath]]:
    """The call paths that are followed, by metric: the expensive, or those with most of it."""
    complete = _find_complete(models)
    largest: dict[str, dict[CallPath, float]] = defaultdict(dict)
    for series in models.models:
        path, metric = series.key.callpath, series.key.metric
        if (path, metric) in complete:
            is_core = metric in CORE_METRICS  # the expensive call paths are followed
            value = 0.0 if is_core else float(np.nanmax(series.model.values, initial=0.0))
            largest[metric][path] = max(value, largest[metric].get(path, 0.0))

    followed = {}
    for metric, values in sorted(largest.items()):
        if metric in CORE_METRICS:
            followed[metric] = values.keys() & expensive
        else:
            descending = sorted(values, key=lambda path: -values[path])
            followed[metric] = set(descending[:MAX_PATHS_OTHERS])

    return followed


def _find_unclear(
    models: ModelSet, followed: Mapping[str, set[CallPath]], at: Sequence[float]
) -> set[tuple[CallPath, str]]:
    """The metrics of followed call paths that some model predicts without evidence.

    A growth that one value alone shows, for example: its bounds are those of a steep law.
    """
    unclear = set()
    for series in models.models:
        path, metric = series.key.callpath, series.key.metric
        if path in followed.get(metric, ()) and unclear_without_evidence(series.model, at):
            unclear.add((path, metric))
    return unclear


def _find_complete(models: ModelSet) -> set[tuple[CallPath, str]]:
    """The metrics of call paths whose models cover all ranks in all runs."""
    modelled: dict[tuple[CallPath, str], set[str]] = defaultdict(set)
    for series in models.models:
        is_count = series.key.metric not in TIMES
        if series.key.metric not in UNJUDGED and not (
            is_count and is_start_up(series.key.callpath)
        ):
            modelled[series.key.callpath, series.key.metric].add(series.key.behaviour)

    complete = set(modelled)
    for clusters in models.clusters:
        key = (clusters.callpath, clusters.metric)
        classes = modelled.get(key, set())
        if ALL not in classes and not classes >= set(clusters.names):
            complete.discard(key)
    return complete


def compare_with_forecast(
    forecast: Forecast, callpaths: Sequence[LivePath], *, size: int, has_ended: bool
) -> ForecastComparison:
    """Estimate how far a run is, and judge what its call paths have so far.

    Visits hardly vary, so the visits so far show which share of a call path is done. The same share
    of its time is expected, give or take what the whole run may differ from its prediction. Where
    visits show nothing, a call path is marked only when it has more than it may have in the end,
    because counters grow. The same holds for bytes, messages and allocations, which may all come
    with the first visit, and for peaks of memory. Other gauges may fall again: they are judged at
    the end, and only marked when they are too large.

    Args:
        forecast: of this run.
        callpaths: as far as they are known.
        size: number of ranks of the run.
        has_ended: whether no more is to come; only then can a total be too small.
    """
    largest = _largest_values(forecast)
    shares: list[float] = []
    weights: list[float] = []
    judgements: dict[PathMetric, Judgement] = {}

    for path in callpaths:
        expected_ranks = max(forecast.ranks.get(path.callpath, size), 1.0)
        entered = min(path.ranks / expected_ranks, 1.0)
        done = 1.0 if has_ended else _share_done(path, forecast, entered)

        time = forecast.values.get((path.callpath, TIME.name))
        if time is not None and not math.isnan(done):
            shares.append(done)
            weights.append(time.value)

        for metric, value in path.values().items():
            total = forecast.values.get((path.callpath, metric))
            if total is None or math.isnan(value):
                continue
            if metric in GAUGES - PEAKS and not has_ended:
                continue

            is_steady = metric in STEADY and not math.isnan(done)
            expected = _expected_so_far(total, done if is_steady or has_ended else math.nan)
            # Ranks that have not entered the call path yet may have nothing.
            mean = value if is_steady else value * entered
            is_relevant = _is_relevant(mean, expected, largest[metric])
            verdict = _verdict(metric, mean, expected) if is_relevant else ""
            judgements[path.callpath, metric] = Judgement(expected, verdict)

    progress = 1.0 if has_ended else _weighted_median(shares, weights)
    return ForecastComparison(progress, judgements)


def _largest_values(forecast: Forecast) -> dict[str, float]:
    """The largest prediction of each metric; all seconds are compared with the inclusive time."""
    largest: dict[str, float] = {}
    for (_, metric), estimate in forecast.values.items():
        name = TIME.name if metric in SECONDS else metric
        largest[name] = max(largest.get(name, 0.0), abs(estimate.value))
    return largest | dict.fromkeys(SECONDS, largest.get(TIME.name, 0.0))


def _share_done(path: LivePath, forecast: Forecast, entered: float) -> float:
    """The share of its visits that a call path has made; NaN if these are few or ranks wait."""
    total = forecast.values.get((path.callpath, VISITS.name))
    if total is None or entered < 1:
        return math.nan

    has_enough = path.visits >= MIN_VISITS and total.value >= MIN_VISITS
    return min(path.visits / total.value, 1.0) if has_enough else math.nan


def _expected_so_far(total: Estimate, done: float) -> Estimate:
    """What is expected when so much of the visits is done; anything up to the total for NaN."""
    if math.isnan(done):
        return Estimate(total.value, min(total.low, 0.0), total.high)

    value = done * total.value
    low = max(value - (total.value - total.low), min(total.low, 0.0))
    return Estimate(value, low, value + (total.high - total.value))


def _verdict(metric: str, value: float, expected: Estimate) -> str:
    """A word for a value outside of the bounds; "" for others, and where bounds are unknown."""
    is_time = metric in TIMES
    rounding = 0.0 if is_time else ROUNDING * abs(expected.value)

    if value > expected.high + rounding:
        return SLOWER if is_time else MORE
    if value < expected.low - rounding and metric not in GAUGES:
        return FASTER if is_time else LESS
    return ""


def _count_entering(
    clusters: Iterable[Clusters], paths: set[CallPath], size: int
) -> dict[str, float]:
    """How many ranks enter each call path of a run of this size.

    The number that is the same in all runs, or else the largest share of the ranks of a run.
    """
    counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run_clusters in clusters:
        if run_clusters.metric == VISITS.name and run_clusters.callpath in paths:
            labels = run_clusters.labels
            entered = int(np.count_nonzero(labels >= 0))
            counts[str(run_clusters.callpath)].append((entered, len(labels)))

    entering = {}
    for path, runs in counts.items():
        numbers = {entered for entered, _ in runs}
        largest_share = max(entered / ranks for entered, ranks in runs if ranks)
        is_constant = len(numbers) == 1
        entering[path] = float(min(numbers)) if is_constant else largest_share * size

    return entering


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value below which half of the weight lies; NaN without any weight."""
    if not sum(weights) > 0:
        return math.nan

    order = np.argsort(values)
    cumulative = np.cumsum(np.array(weights)[order])
    median = int(np.searchsorted(cumulative, cumulative[-1] / 2))
    return float(np.array(values)[order][median])
