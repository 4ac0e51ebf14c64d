"""What a campaign tells, in the order in which a person asks: growth, cost, ranks, trust."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.analysis.cost import cost_metric, measured_shares, metric_order, sort_by_cost
from insitu.analysis.shares import RELEVANT, CostShare, Estimate, predict_shares
from insitu.campaign.selection import select_runs
from insitu.design.proposals import Proposals
from insitu.entities import TIME_EXCLUSIVE, CallPath, Finding, Metric, RunRecord, number
from insitu.modeling.base import Clusters, Model, ModelSet, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.measurement import FloatArray, IntArray, SeriesKey

DOUBTFUL_FACTOR = 4.0  # times the largest scale measured: beyond, predictions are to be doubted
TARGET_FACTOR = 16.0  # the target where none is said, in multiples of the largest measured scale
FEW = 10  # lines of a table of the summary
CONFIDENCE = 0.95  # of bounds, where nobody says another
BANDS = 6  # call paths told apart in shares along the way to the target
BAND_POINTS = 24
SIDES = ("value", "low", "high")

Coordinate = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeriesGrowth:
    """A series at the largest measured coordinate and at the target."""

    series: SeriesModel
    share: float
    now: Estimate
    then: Estimate

    @property
    def factor(self) -> float:
        """How many times larger it is at the target; infinite from zero."""
        if self.now.value > 0:
            return self.then.value / self.now.value
        return math.inf if self.then.value > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Bands:
    """Shares of the cost along one parameter: at (n_points,), parts (n_names, n_points)."""

    names: tuple[str, ...]
    along: int
    at: FloatArray
    parts: FloatArray


@dataclass(frozen=True, slots=True)
class ClassLine:
    """A behaviour class of one metric of one call path; ranks_then is NaN without a law."""

    name: str
    ranks: int
    ranks_then: float
    growth: SeriesGrowth | None


@dataclass(frozen=True, slots=True)
class RankPartition:
    """A call path whose ranks part; labels: the class of each rank at the largest scale."""

    callpath: CallPath
    metric: Metric
    run: str
    labels: IntArray
    classes: tuple[ClassLine, ...]


@dataclass(frozen=True, slots=True)
class ExpectationLine:
    """An expectation and what became of it, in words; `sure`: of that, empty where none says it."""

    mark: str
    word: str
    subject: str
    series: str
    expected: str
    text: str
    sure: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything a report shows; `growing` and `others` are surest growth first; rest: ModelSet."""

    title: str
    parameters: tuple[str, ...]
    largest: Coordinate
    target: Coordinate
    cost: str
    runs: tuple[RunRecord, ...]
    series: tuple[SeriesGrowth, ...]
    growing: tuple[SeriesGrowth, ...]
    others: tuple[SeriesGrowth, ...]
    parts: tuple[CostShare, ...]
    bands: Bands | None
    partitions: tuple[RankPartition, ...]
    rest: Mapping[CallPath, float]
    findings: tuple[Finding, ...]
    expectations: tuple[ExpectationLine, ...] = ()
    proposals: Proposals | None = None

    @property
    def extrapolation_factor(self) -> float:
        """The target in multiples of the largest measured value, of the parameter farthest out."""
        pairs = zip(self.target, self.largest, strict=True)
        return max((t / m for t, m in pairs if m > 0), default=1.0)


def summarise(
    title: str,
    runs: Sequence[RunRecord],
    models: ModelSet,
    *,
    target: Coordinate | None = None,
    expectations: Sequence[ExpectationLine] = (),
    proposals: Proposals | None = None,
) -> Summary:
    """Put together what a report shows.

    Args:
        title: of the campaign.
        runs: those kept in the campaign.
        models: with at least one series.
        target: where to look ahead; without it the first parameter sixteen times its largest
            measured value, the others at theirs.
        expectations: if there are any.
        proposals: what to run next, where that is known.
    """
    largest = largest_coordinate(models) or (1.0,) * len(models.parameters)
    if target is None:
        target = default_target(models)
    share = measured_shares(models)
    cost = cost_metric(models)
    series = tuple(_growth(one, share, largest, target) for one in sort_by_cost(models, share))
    costs = costs_at(models, cost, target)
    parts = tuple(predict_shares(costs, cost, share))
    then = {
        part.callpath: part.now if part.is_guess else max(part.now, part.then.value)
        for part in parts
    }
    guesses = frozenset(part.callpath for part in parts if part.is_guess)
    _, left_out = select_runs(runs)
    of_runs = [finding for run in runs for finding in run.findings]
    return Summary(
        title,
        models.parameters,
        largest,
        target,
        cost,
        tuple(runs),
        series,
        _fastest(
            one
            for one in series
            if one.series.key.metric == cost and then.get(one.series.key.callpath, 0.0) >= RELEVANT
        ),
        _fastest(one for one in series if not one.series.key.metric.startswith("time")),
        parts,
        _bands(models, costs, target, cost, guesses),
        tuple(_partings(models, series, share, target))[:FEW],
        models.rest,
        tuple(dict.fromkeys([*of_runs, *left_out, *models.findings])),
        tuple(expectations),
        proposals,
    )


def coordinate_text(parameters: Sequence[str], at: Coordinate) -> str:
    """`p = 64, n = 256`."""
    return ", ".join(
        f"{name} = {number(value)}" for name, value in zip(parameters, at, strict=True)
    )


def default_target(models: ModelSet) -> Coordinate:
    """Where to look ahead if nobody says: the first parameter far out, the others at their most."""
    first, *others = largest_coordinate(models) or (1.0,) * len(models.parameters)
    return (TARGET_FACTOR * first, *others)


def largest_coordinate(models: ModelSet) -> Coordinate:
    """The largest measured value of each parameter; () where nothing was measured."""
    tables = [one.model.coordinates for one in models.models if len(one.model.coordinates)]
    if not tables:
        return ()
    return tuple(np.concatenate(tables).max(axis=0).tolist())


def estimate(model: Model, at: Coordinate, level: float = CONFIDENCE) -> Estimate:
    """What a model says at one point, with bounds that hold with this probability."""
    ((low, high),) = model.interval([at], level).tolist()
    return Estimate(float(model.predict([at])[0]), low, high)


def _growth(
    one: SeriesModel, share: Mapping[CallPath, float], largest: Coordinate, target: Coordinate
) -> SeriesGrowth:
    now, then = estimate(one.model, largest), estimate(one.model, target)
    return SeriesGrowth(one, share.get(one.key.callpath, 0.0), now, then)


def _fastest(series: Iterable[SeriesGrowth]) -> tuple[SeriesGrowth, ...]:
    """Those that surely grow, the fastest first: their lower bound lies above what is now."""
    growing = [
        one
        for one in series
        if one.factor > 1 and not (one.then.low <= one.now.value) and one.then.value > 0
    ]
    growing.sort(key=lambda one: (-one.factor, -one.share, one.series.key))
    return tuple(growing[:FEW])


def _bands(
    models: ModelSet,
    costs: Mapping[CallPath, Estimate],
    target: Coordinate,
    cost: str,
    guesses: Container[CallPath],
) -> Bands | None:
    """Shares of the sum of exclusive times on the way to the target; None for other metrics."""
    along, start = _way(models, target)
    if cost != TIME_EXCLUSIVE.name or not 0 < start < target[along]:
        return None
    at = np.geomspace(start, target[along], BAND_POINTS)
    points = np.tile(np.array(target), (BAND_POINTS, 1))
    points[:, along] = at
    values = costs_along(models, cost, points)
    values = {path: found for path, found in values.items() if path not in guesses}
    if not values:
        return None
    dearest = sorted(values, key=lambda path: (-max(values[path][-1], costs[path].value), path))
    rows = [values[path] for path in dearest[:BANDS]]
    names = [str(path) for path in dearest[:BANDS]]
    if len(dearest) > BANDS:
        rows.append(np.sum([values[path] for path in dearest[BANDS:]], axis=0))
        names.append(f"{len(dearest) - BANDS} others")
    table = np.maximum(np.array(rows), 0.0)
    total = table.sum(axis=0)
    return Bands(tuple(names), along, at, table / np.where(total > 0, total, 1.0))


def _way(models: ModelSet, target: Coordinate) -> tuple[int, float]:
    """The parameter in which the target is farthest out, and its smallest measured value."""
    table = np.concatenate([one.model.coordinates for one in models.models])
    along = int(np.argmax(np.array(target) / np.maximum(table.max(axis=0), 1e-300)))
    return along, float(table[:, along].min())


def _groups(
    models: ModelSet, cost: str, only: Container[CallPath] | None = None
) -> dict[CallPath, list[SeriesModel]]:
    """The series that make up the cost of each call path: one of all ranks, else its classes."""
    groups: dict[CallPath, list[SeriesModel]] = {}
    for one in models.models:
        if one.key.metric == cost and (only is None or one.key.callpath in only):
            groups.setdefault(one.key.callpath, []).append(one)
    return {
        path: [one for one in group if one.key.behaviour == ALL] or group
        for path, group in groups.items()
    }


def costs_at(
    models: ModelSet,
    metric: str,
    at: Coordinate,
    only: Container[CallPath] | None = None,
    level: float = CONFIDENCE,
    *,
    of_any_sizes: bool = False,
) -> dict[CallPath, Estimate]:
    """A metric of call paths at one point, of a mean rank: classes weigh by their ranks.

    Args:
        models: of the campaign.
        metric: its name.
        at: a coordinate.
        only: the call paths that are asked for; all of them otherwise.
        level: the probability with which bounds hold.
        of_any_sizes: whether they hold for any numbers of ranks in the classes.
    """
    groups = _groups(models, metric, only)
    is_parted = any(len(group) > 1 for group in groups.values())
    laws = size_laws(models.clusters, models.parameters) if is_parted else {}
    point = np.array([at])
    answer = {}
    for path, group in groups.items():
        found = [estimate(one.model, at, level) for one in group]
        sides = ([np.array([getattr(one, side)]) for one in found] for side in SIDES)
        mean = Estimate(*(float(_weighted(group, laws, point, one)[0]) for one in sides))
        if of_any_sizes:
            low, high = min(one.low for one in found), max(one.high for one in found)
            mean = Estimate(mean.value, low, high)
        answer[path] = mean
    return answer


def costs_along(models: ModelSet, metric: str, points: FloatArray) -> dict[CallPath, FloatArray]:
    """The same at many points (n_points, n_parameters), without bounds: (n_points,) each."""
    laws = size_laws(models.clusters, models.parameters)
    return {
        path: _weighted(group, laws, points, [one.model.predict(points) for one in group])
        for path, group in _groups(models, metric).items()
    }


def _weighted(
    group: Sequence[SeriesModel],
    laws: Mapping[SeriesKey, Model],
    points: FloatArray,
    values: Sequence[FloatArray],
) -> FloatArray:
    """The mean over ranks of what classes have at points; all alike where no law tells sizes."""
    if len(group) == 1:
        return values[0]
    unknown = np.full(len(points), np.nan)
    ranks = np.array(
        [laws[one.key].predict(points) if one.key in laws else unknown for one in group]
    )
    ranks = np.maximum(ranks, 0.0)
    ranks[:, np.isnan(ranks).any(axis=0) | (ranks.sum(axis=0) <= 0)] = 1.0
    return np.asarray((ranks * np.array(values)).sum(axis=0) / ranks.sum(axis=0))


def _partings(
    models: ModelSet,
    series: Sequence[SeriesGrowth],
    share: Mapping[CallPath, float],
    at: Coordinate,
) -> Iterable[RankPartition]:
    """Per call path whose ranks part the dearest metric, at its largest scale."""
    found = {one.series.key: one for one in series}
    metrics = {one.series.key.metric: one.series.metric for one in series}
    latest: dict[tuple[CallPath, str], Clusters] = {}
    for one in models.clusters:
        if len(one.names) > 1 and one.metric in metrics:
            known = latest.setdefault((one.callpath, one.metric), one)
            if one.run.parameters > known.run.parameters:
                latest[one.callpath, one.metric] = one
    laws = size_laws(models.clusters, models.parameters)
    order = sorted(
        latest.values(), key=lambda one: (-share.get(one.callpath, 0.0), metric_order(one.metric))
    )
    seen: set[CallPath] = set()
    for one in order:
        if one.callpath in seen:
            continue
        seen.add(one.callpath)
        counts = np.bincount(one.labels[one.labels >= 0], minlength=len(one.names)).tolist()
        lines = []
        for name, count in zip(one.names, counts, strict=True):
            key = SeriesKey(one.callpath, one.metric, name)
            then = float(laws[key].predict([at])[0]) if key in laws else math.nan
            lines.append(ClassLine(name, count, then, found.get(key)))
        run = str(one.run).removesuffix(f"#{one.run.repetition}")
        yield RankPartition(one.callpath, metrics[one.metric], run, one.labels, tuple(lines))
