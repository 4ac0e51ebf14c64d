"""The summary of a campaign: growth, cost, ranks and how far predictions are to be trusted."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.class_costs import (
    costs_along,
    costs_at,
    estimate_all,
    unclear_costs,
)
from insitu.analysis.cost import cost_metric, measured_shares, metric_order, sort_by_cost
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.memory import CONTAINED
from insitu.analysis.scaling import find_reach, measured_coordinates
from insitu.analysis.shares import (
    RELEVANT,
    CostShare,
    Estimate,
    find_unclear_shares,
    predict_shares,
    trust_level,
)
from insitu.campaign.selection import describe_run_findings, select_runs
from insitu.design.proposals import Proposals
from insitu.entities import (
    COMM_RANKS,
    HEAP_GROWTH,
    RANKS,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    Finding,
    Metric,
    RunRecord,
    is_start_up,
    number,
)
from insitu.modeling.base import Clusters, ModelSet, SeriesModel
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.horizon import unclear_at, unclear_without_evidence
from insitu.modeling.measurement import Coordinate, FloatArray, IntArray, SeriesKey
from insitu.modeling.predictions import predict_at
from insitu.modeling.target import default_target, points_along

SeriesIndex = dict[tuple[CallPath, str], list[SeriesModel]]  # by call path and metric

DOUBTFUL_FACTOR = 4.0  # times the largest measured scale: predictions beyond it are doubtful
MEANS_ONLY = "the runs have one value for all ranks: which of them differ is not known"
MAX_LINES = 10  # of a table of the summary
MAX_BANDS = 6  # call paths with a band of their own on the way to the target
BAND_POINTS = 24


@dataclass(frozen=True, slots=True)
class SeriesGrowth:
    """A series at the largest measured coordinate and at the target, by its model."""

    series: SeriesModel
    share: float
    now: float
    then: Estimate

    @property
    def factor(self) -> float:
        """How many times larger it is at the target; infinite from zero."""
        if self.now > 0:
            return self.then.value / self.now
        return math.inf if self.then.value > 0 else 1.0

    @property
    def trust(self) -> str:
        """How far the prediction is to be trusted; times of ranks that shared cores are not."""
        return "crowded" if self.series.crowding else trust_level(self.then)


@dataclass(frozen=True, slots=True)
class Bands:
    """Shares of the cost along one parameter.

    along: index of the parameter; at: (n_points,), its values; shares: (n_names, n_points).
    """

    names: tuple[str, ...]
    along: int
    at: FloatArray
    shares: FloatArray


@dataclass(frozen=True, slots=True)
class ClassLine:
    """A behaviour class of one metric of one call path.

    ranks: at the largest scale; ranks_then: at the target, NaN without a size law.
    """

    name: str
    ranks: int
    ranks_then: float
    growth: SeriesGrowth | None


@dataclass(frozen=True, slots=True)
class RankPartition:
    """A call path with several behaviour classes; labels: of each rank at the largest scale."""

    callpath: CallPath
    metric: Metric
    run: str
    labels: IntArray
    classes: tuple[ClassLine, ...]


@dataclass(frozen=True, slots=True)
class ExpectationLine:
    """An expectation and its verdict in words; `sure`: how probable the verdict is, or ""."""

    mark: str
    word: str
    subject: str
    series: str
    expected: str
    text: str
    sure: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything a report shows.

    cost: the metric that is the cost; series: the most expensive first; growing, others: series of
    the cost and of counts, bytes and memory that certainly grow, the fastest first; shares: at the
    target; unclear: why the cost of call paths is no prediction there; unclear_shares: the call
    paths whose share is none; rest: see ModelSet.
    """

    title: str
    parameters: tuple[str, ...]
    largest: Coordinate
    target: Coordinate
    cost: str
    runs: tuple[RunRecord, ...]
    series: tuple[SeriesGrowth, ...]
    growing: tuple[SeriesGrowth, ...]
    others: tuple[SeriesGrowth, ...]
    shares: tuple[CostShare, ...]
    unclear: Mapping[CallPath, str]
    unclear_shares: Container[CallPath]
    bands: Bands | None
    partitions: tuple[RankPartition, ...]
    rest: Mapping[CallPath, float]
    findings: tuple[Finding, ...]
    expectations: tuple[ExpectationLine, ...] = ()
    proposals: Proposals | None = None
    diagnosis: Diagnosis | None = None
    are_means: bool = False

    @property
    def extrapolation_factor(self) -> float:
        """The largest ratio of target to largest measured value over the parameters."""
        pairs = zip(self.target, self.largest, strict=True)
        return max((target / largest for target, largest in pairs if largest > 0), default=1.0)


def summarise(
    title: str,
    runs: Sequence[RunRecord],
    models: ModelSet,
    *,
    target: Coordinate | None = None,
    expectations: Sequence[ExpectationLine] = (),
    proposals: Proposals | None = None,
    diagnosis: Diagnosis | None = None,
) -> Summary:
    """Collect what a report shows.

    Args:
        title: of the campaign.
        runs: those stored in the campaign.
        models: of the runs; none if there are too few runs.
        target: coordinate of the predictions; by default that of `default_target`.
        expectations: verdicts, if there are any.
        proposals: what to run next, if that is known.
        diagnosis: what limits the program, the head of the report.
    """
    complete, not_joined = select_runs(runs)
    largest = largest_measured(models, complete)
    if target is None:
        target = default_target(models.parameters, largest, {}, measured_coordinates(models))

    share = measured_shares(models)
    cost = cost_metric(models)
    series = _estimate_growth(sort_by_cost(models.models, share), share, largest, target)
    lasting = [
        growth for growth in series if _is_in_largest(growth.series, models.parameters, largest)
    ]
    by_path = _index(models)
    # The ranks of communicators grow with p in every program.
    others = [
        growth
        for growth in lasting
        if growth.series.metric.unit != "s"
        and growth.series.key.metric != COMM_RANKS.name
        and not _is_freed(growth.series, by_path)
    ]

    costs = costs_at(models, cost, target)
    shares = tuple(predict_shares(costs, cost, share))
    unclear = unclear_costs(models, cost, costs, target)

    findings = dict.fromkeys([*describe_run_findings(runs), *not_joined, *models.findings])

    return Summary(
        title=title,
        parameters=models.parameters,
        largest=largest,
        target=target,
        cost=cost,
        runs=tuple(runs),
        series=series,
        growing=_fastest(_relevant(lasting, cost, shares), target),
        others=_fastest(others, target),
        shares=shares,
        unclear=unclear,
        unclear_shares=find_unclear_shares(shares, unclear, cost),
        bands=_make_bands(models, costs, target, cost),
        partitions=tuple(_partitions(models, series, share, target)),
        rest=models.rest,
        findings=tuple(findings),
        expectations=tuple(expectations),
        proposals=proposals,
        diagnosis=diagnosis,
        are_means=are_means_of_ranks(models.clusters),
    )


def are_means_of_ranks(clusters: Iterable[Clusters]) -> bool:
    """Whether no run of several ranks has a value for each, as in imports of other tools."""
    is_mean_known = [len(entry.labels) == 1 for entry in clusters if entry.run.size > 1]
    return bool(is_mean_known) and all(is_mean_known)


def coordinate_text(parameters: Sequence[str], at: Coordinate) -> str:
    """`p = 64, n = 256`."""
    return ", ".join(f"{name} = {number(x)}" for name, x in zip(parameters, at, strict=True))


def target_of_models(models: ModelSet, chosen: Mapping[str, float]) -> Coordinate:
    """The default target of a campaign by its models; see `default_target`."""
    largest = largest_coordinate(models) or (1.0,) * len(models.parameters)
    return default_target(models.parameters, largest, chosen, measured_coordinates(models))


def largest_measured(models: ModelSet, runs: Sequence[RunRecord]) -> Coordinate:
    """The largest value of each parameter of the models; of the runs where there are no models."""
    if not runs or models.models:
        return largest_coordinate(models) or (1.0,) * len(models.parameters)
    coordinates = np.array([run.key.coordinate(models.parameters) for run in runs])
    return tuple(np.nanmax(coordinates, axis=0).tolist())


def largest_coordinate(models: ModelSet) -> Coordinate:
    """The largest measured value of each parameter; () where nothing was measured."""
    table = measured_coordinates(models)
    return tuple(table.max(axis=0).tolist()) if len(table) else ()


def _estimate_growth(
    models: Sequence[SeriesModel],
    share: Mapping[CallPath, float],
    largest: Coordinate,
    target: Coordinate,
) -> tuple[SeriesGrowth, ...]:
    """What each series is at the largest coordinate, and at the target."""
    distinct = {id(entry.model): entry.model for entry in models}
    values = dict(zip(distinct, predict_at(list(distinct.values()), largest), strict=True))
    now = [float(values[id(entry.model)]) for entry in models]
    then = estimate_all([entry.model for entry in models], target)
    return tuple(
        SeriesGrowth(series, share.get(series.key.callpath, 0.0), of_now, of_then)
        for series, of_now, of_then in zip(models, now, then, strict=True)
    )


def _is_in_largest(series: SeriesModel, parameters: Sequence[str], largest: Coordinate) -> bool:
    """Whether a series was measured at the largest number of ranks.

    A class without ranks there, as on grids of another shape, may have none beyond either.
    """
    if RANKS not in parameters:
        return True
    column = parameters.index(RANKS)
    return bool(series.model.coordinates[:, column].max(initial=0.0) >= largest[column])


def _index(models: ModelSet) -> SeriesIndex:
    """The models and supplements of the heap and of visits, by call path and metric."""
    index: SeriesIndex = {}
    for series in (*models.models, *models.supplements):
        if series.key.metric in (HEAP_GROWTH.name, VISITS.name):
            index.setdefault((series.key.callpath, series.key.metric), []).append(series)
    return index


def _is_freed(series: SeriesModel, by_path: SeriesIndex) -> bool:
    """Whether what a function leaves behind on the heap is freed by its caller.

    Then the growth of the caller does not contain that of the function. The program itself frees
    everything at its end: what it calls once is held until then.
    """
    key, caller = series.key, series.key.callpath.parent
    if key.metric != HEAP_GROWTH.name or caller is None:
        return False
    if caller.parent is None:
        visits = _models_like(by_path, replace(key, metric=VISITS.name))
        return any(float(np.nanmax(entry.model.values)) > 1 for entry in visits)

    growth = float(np.ptp(series.model.values))
    of_caller = _models_like(by_path, replace(key, callpath=caller))
    return all(float(np.ptp(entry.model.values)) < CONTAINED * growth for entry in of_caller)


def _models_like(by_path: SeriesIndex, key: SeriesKey) -> list[SeriesModel]:
    """The models of a metric of a call path: of the class if it has one there, else of all."""
    series = by_path.get((key.callpath, key.metric), [])
    return [entry for entry in series if entry.key.behaviour == key.behaviour] or series


def _relevant(
    series: Iterable[SeriesGrowth], cost: str, shares: Iterable[CostShare]
) -> list[SeriesGrowth]:
    """Series of the cost whose call path has a relevant share, now or at the target."""
    largest_share = {}
    for share in shares:
        reliable = share.now if share.is_guess else max(share.now, share.then.value)
        largest_share[share.callpath] = reliable

    relevant = []
    for growth in series:
        key = growth.series.key
        if key.metric == cost and largest_share.get(key.callpath, 0.0) >= RELEVANT:
            relevant.append(growth)
    return relevant


def _fastest(series: Iterable[SeriesGrowth], target: Coordinate) -> tuple[SeriesGrowth, ...]:
    """Series that certainly grow, the fastest first: their lower bound lies above today's value.

    Those whose prediction is unclear come last, behind them start-up. Where ranks shared cores,
    times do not show it, and a model without evidence is none of growth.
    """
    growing = []
    for growth in series:
        may_stay = growth.then.low <= growth.now
        is_growing = growth.factor > 1 and not may_stay and growth.then.value > 0
        if not is_growing or growth.series.crowding:
            continue
        if not unclear_without_evidence(growth.series.model, target):
            bounds = (growth.then.low, growth.then.high)
            is_unclear = bool(unclear_at(growth.series.model, target, bounds))
            key = growth.series.key
            order = (is_start_up(key.callpath), is_unclear, -growth.factor, -growth.share, key)
            growing.append((*order, growth))

    growing.sort(key=lambda entry: entry[:-1])
    return tuple(growth for *_, growth in growing[:MAX_LINES])


def _make_bands(
    models: ModelSet,
    costs: Mapping[CallPath, Estimate],
    target: Coordinate,
    cost: str,
) -> Bands | None:
    """Shares of the sum of exclusive times on the way to the target; None for other metrics.

    They end where it is unclear what takes the time.
    """
    if not models.models:
        return None
    along, start = _farthest_parameter(models, target)
    if cost != TIME_EXCLUSIVE.name or not 0 < start < target[along]:
        return None

    reach, unreliable = find_reach(models, cost, np.array(target), along)
    if reach <= start:
        return None

    at = np.geomspace(start, reach, BAND_POINTS)
    points = points_along(np.array(target), along, at, measured_coordinates(models))
    values = costs_along(models, cost, points)
    values = {path: y for path, y in values.items() if path not in unreliable}
    if not values:
        return None

    expensive = sorted(values, key=lambda path: (-max(values[path][-1], costs[path].value), path))
    rows = [values[path] for path in expensive[:MAX_BANDS]]
    names = [str(path) for path in expensive[:MAX_BANDS]]
    rest = expensive[MAX_BANDS:]
    if rest:
        rows.append(np.sum([values[path] for path in rest], axis=0))
        names.append(f"{len(rest)} others")

    table = np.maximum(np.array(rows), 0.0)
    total = table.sum(axis=0)
    return Bands(tuple(names), along, at, shares=table / np.where(total > 0, total, 1.0))


def _farthest_parameter(models: ModelSet, target: Coordinate) -> tuple[int, float]:
    """The parameter with the largest ratio of target to measured, and its smallest value."""
    table = np.concatenate([series.model.coordinates for series in models.models])
    along = int(np.argmax(np.array(target) / np.maximum(table.max(axis=0), 1e-300)))
    return along, float(table[:, along].min())


def _partitions(
    models: ModelSet,
    series: Sequence[SeriesGrowth],
    share: Mapping[CallPath, float],
    at: Coordinate,
) -> Iterator[RankPartition]:
    """Of the most expensive call paths the classes of the first metric that has several, at the
    largest scale."""
    growth_by_key = {growth.series.key: growth for growth in series}
    metrics = {growth.series.key.metric: growth.series.metric for growth in series}
    latest = _latest_clusters(models.clusters, metrics)
    latest.sort(key=lambda entry: (-share.get(entry.callpath, 0.0), metric_order(entry.metric)))

    first: dict[CallPath, Clusters] = {}
    for clusters in latest:
        first.setdefault(clusters.callpath, clusters)
    shown = list(first.values())[:MAX_LINES]
    names = {(clusters.callpath, clusters.metric) for clusters in shown}
    of_shown = [entry for entry in models.clusters if (entry.callpath, entry.metric) in names]
    laws = size_laws(of_shown, models.parameters)

    for clusters in shown:
        counts = np.bincount(clusters.labels[clusters.labels >= 0], minlength=len(clusters.names))
        lines = []
        for name, count in zip(clusters.names, counts.tolist(), strict=True):
            key = SeriesKey(clusters.callpath, clusters.metric, name)
            then = float(laws[key].predict([at])[0]) if key in laws else math.nan
            lines.append(ClassLine(name, count, then, growth_by_key.get(key)))

        yield RankPartition(
            callpath=clusters.callpath,
            metric=metrics[clusters.metric],
            run=str(clusters.run).removesuffix(f"#{clusters.run.repetition}"),
            labels=clusters.labels,
            classes=tuple(lines),
        )


def _latest_clusters(clusters: Iterable[Clusters], metrics: Container[str]) -> list[Clusters]:
    """Per call path and metric the clusters of the run with the largest parameters."""
    latest: dict[tuple[CallPath, str], Clusters] = {}
    for candidate in clusters:
        if len(candidate.names) > 1 and candidate.metric in metrics:
            key = (candidate.callpath, candidate.metric)
            known = latest.setdefault(key, candidate)
            if candidate.run.parameters > known.run.parameters:
                latest[key] = candidate
    return list(latest.values())
