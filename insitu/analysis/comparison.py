"""Two campaigns of a program compared: which times changed, and which counts grow differently.

A time changed if the bounds of the ratio of both exclude LEAST_CHANGE, and if the same ranks took
longer or shorter by these bounds at the largest common coordinate. Counts repeat exactly, so
any difference is a change, and so is another law. Memory that stays allocated nearly repeats: it
changed if it differs by that factor at the largest common coordinate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from insitu.analysis.diagnosis.laws import RELATIVE, find_laws
from insitu.entities import (
    BYTES_RECEIVED,
    BYTES_SENT,
    HEAP_GROWTH,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    RANKS,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
)
from insitu.modeling.base import ALL, MAXIMUM, ModelSet, SeriesModel
from insitu.modeling.classes.pairs import pair_series
from insitu.modeling.crowding import describe_crowding
from insitu.modeling.measurement import Coordinate, Experiment, FloatArray, SeriesKey

BoolArray = NDArray[np.bool_]

LEAST_CHANGE = 1.05  # factor from which a time counts as changed
LEAST_SECONDS = 1e-3  # per rank, in both campaigns; less is noise of timing
LEVEL = 0.95
LEAST_BYTES = 16 * 1024  # of memory that changed: libraries allocate buffers now and then
COUNTS = (VISITS, MESSAGES_SENT, MESSAGES_RECEIVED, BYTES_SENT, BYTES_RECEIVED, HEAP_GROWTH)
TIMING = ("MPI_Test", "MPI_Iprobe", "MPI_Improbe", "(thread)")  # visits that depend on timing
SLOWER, FASTER, CHANGED, NEW, GONE = "slower", "faster", "changed", "new", "gone"


@dataclass(frozen=True, slots=True)
class Change:
    """A series that differs between two campaigns.

    Attributes:
        status: "slower", "faster", "changed" (a count), "new" or "gone".
        before, after: values at the largest common coordinate: mean over ranks of a class for
            times, the largest rank for counts. NaN where the series is missing.
        ratio: of after to before, with its bounds `low` and `high`.
        law_before, law_after: as functions of the parameters; "" where there is none.
        has_other_law: whether a count has another law, or a time another leading term.
    """

    callpath: CallPath
    metric: str
    unit: str
    behaviour: str
    status: str
    before: float
    after: float
    low: float = math.nan
    high: float = math.nan
    law_before: str = ""
    law_after: str = ""
    has_other_law: bool = False

    @property
    def ratio(self) -> float:
        """After divided by before; NaN without either."""
        return self.after / self.before if self.before > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two campaigns at their largest common coordinate.

    Attributes:
        parameters, at: the coordinate.
        changes: the most consequential first: times by seconds, then counts.
        n_alike: how many series of both campaigns are alike.
        notes: what could not be compared, and why.
    """

    parameters: tuple[str, ...]
    at: Coordinate
    changes: tuple[Change, ...]
    n_alike: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedCampaign:
    """A campaign of a comparison: its runs and its models."""

    experiment: Experiment
    models: ModelSet


def compare_campaigns(before: ComparedCampaign, after: ComparedCampaign) -> Comparison | None:
    """Compare two campaigns; None if they have no coordinate in common.

    Args:
        before: the campaign to compare with.
        after: the campaign that is judged.
    """
    parameters = before.experiment.parameters
    common: set[Coordinate] = set()
    if parameters == after.experiment.parameters:
        common = set(before.experiment.coordinates()) & set(after.experiment.coordinates())
    if not common:
        return None

    at = max(common)
    notes = []
    reasons = [
        describe_crowding(compared.experiment, compared.experiment.unjudged_runs())
        for compared in (before, after)
    ]
    if any(reasons):
        listed = " and ".join(filter(None, dict.fromkeys(reasons)))
        notes.append(f"times are not compared: runs had {listed}")
        changes: list[Change] = []
        n_alike = 0
    else:
        changes, n_alike = _compare_times(before, after, at)

    counts, n_equal = _compare_counts(before.experiment, after.experiment, sorted(common))
    return Comparison(parameters, at, (*changes, *counts), n_alike + n_equal, tuple(notes))


def _compare_times(
    before: ComparedCampaign, after: ComparedCampaign, at: Coordinate
) -> tuple[list[Change], int]:
    """Changes of exclusive times by behaviour class, the largest difference first."""
    changes, n_alike = [], 0
    for earlier, later in _pair_times(before.models, after.models):
        change = _compare_time(earlier, later, at)
        if change is None or not _is_measured(change, before, after, at):
            n_alike += 1
        else:
            changes.append(change)

    changes.sort(key=lambda change: (-abs(change.after - change.before), str(change.callpath)))
    return changes, n_alike


def _pair_times(
    models_before: ModelSet, models_after: ModelSet
) -> list[tuple[SeriesModel, SeriesModel]]:
    """Pairs of series of exclusive times of the same ranks.

    Where one campaign has classes and the other has none, as after a successful optimisation
    [CLU §V-B], all ranks of the other are alike, so each class is compared with them.
    """
    before, after = _times(models_before), _times(models_after)
    counterparts = pair_series(models_before, models_after)
    same_ranks = {key: counterparts[key] for key in before if counterparts.get(key) in after}
    pairs = [(before[key], after[other]) for key, other in same_ranks.items()]
    single = [(before, after, key) for key in before if key not in same_ranks]
    single += [(after, before, key) for key in after.keys() - set(same_ranks.values())]
    for of_key, without, key in single:
        if key.behaviour in (ALL, MAXIMUM):
            continue
        has_classes = any(
            other.callpath == key.callpath and other.behaviour not in (ALL, MAXIMUM)
            for other in without
        )
        all_ranks = without.get(replace(key, behaviour=ALL))
        if all_ranks is None or has_classes:
            continue
        pairs.append((of_key[key], all_ranks) if of_key is before else (all_ranks, of_key[key]))
    return pairs


def _times(models: ModelSet) -> dict[SeriesKey, SeriesModel]:
    return {
        series.key: series
        for series in models.models
        if series.key.metric == TIME_EXCLUSIVE.name and not series.key.callpath.name.startswith("(")
    }


def _compare_time(before: SeriesModel, after: SeriesModel, at: Coordinate) -> Change | None:
    values, bounds = [], []
    for series in (before, after):
        values.append(float(series.model.predict([at])[0]))
        bounds.append(series.model.interval([at], LEVEL)[0].tolist())

    is_positive = min(*bounds[0], *bounds[1]) > 0 and np.isfinite(bounds).all()
    if max(values) < LEAST_SECONDS or not is_positive:
        return None

    low, high = bounds[1][0] / bounds[0][1], bounds[1][1] / bounds[0][0]
    if low <= LEAST_CHANGE and high >= 1 / LEAST_CHANGE:
        return None
    return Change(
        callpath=before.key.callpath,
        metric=before.key.metric,
        unit=before.metric.unit,
        behaviour=_class_of(before, after),
        status=SLOWER if low > LEAST_CHANGE else FASTER,
        before=values[0],
        after=values[1],
        low=low,
        high=high,
        law_before=str(before.model),
        law_after=str(after.model),
        has_other_law=before.model.leading(at) != after.model.leading(at),
    )


def _is_measured(
    change: Change, before: ComparedCampaign, after: ComparedCampaign, at: Coordinate
) -> bool:
    """Whether the ranks of a class took at least as much longer or shorter as their models say.

    Models may disagree although the values do not: where ranks are a class in one campaign only,
    or where no law fits well. Of two repetitions, one may be disturbed, which takes longer: the
    shortest of each campaign differ, too. True if it is unknown which ranks they are.
    """
    ranks = _ranks_of(change, before, at)
    if ranks is None:
        ranks = _ranks_of(change, after, at)
    if ranks is None:
        return True
    earlier, later = (_mean_times(campaign, change, at, ranks) for campaign in (before, after))
    if not earlier or not later or min(*earlier, *later) <= 0:
        return True

    ratio = float(np.median(later) / np.median(earlier))
    of_shortest = min(later) / min(earlier)
    if change.status == SLOWER:
        return ratio >= change.low and of_shortest >= LEAST_CHANGE
    return ratio <= change.high and of_shortest <= 1 / LEAST_CHANGE


def _ranks_of(change: Change, campaign: ComparedCampaign, at: Coordinate) -> BoolArray | None:
    """Which ranks are in the class of a change at a coordinate, None if that is unknown."""
    for entry in campaign.models.clusters:
        if (entry.callpath, entry.metric) != (change.callpath, change.metric):
            continue
        is_here = entry.run.coordinate(campaign.models.parameters) == at
        if is_here and change.behaviour == ALL:
            return np.ones(len(entry.labels), dtype=bool)
        if is_here and change.behaviour in entry.names:
            return np.asarray(entry.labels == entry.names.index(change.behaviour))
    return None


def _mean_times(
    campaign: ComparedCampaign, change: Change, at: Coordinate, ranks: BoolArray
) -> list[float]:
    """The mean over ranks in each repetition; none where one of them is unknown."""
    means = []
    for key, table in campaign.experiment.runs:
        values = table.values.get(change.metric)
        is_here = key.coordinate(campaign.experiment.parameters) == at
        if values is None or not is_here or change.callpath not in table.callpaths:
            continue
        of_ranks = values[table.callpaths.index(change.callpath)]
        is_measured = ranks & np.isfinite(of_ranks) if len(ranks) == len(of_ranks) else ranks[:0]
        if not is_measured.any():
            return []
        means.append(float(np.mean(of_ranks[is_measured])))
    return means


def _class_of(before: SeriesModel, after: SeriesModel) -> str:
    """The class of the ranks of both, which one of them may not distinguish from all."""
    names = (before.key.behaviour, after.key.behaviour)
    return names[0] if names[0] != ALL else names[1]


def _compare_counts(
    before: Experiment, after: Experiment, common: Sequence[Coordinate]
) -> tuple[list[Change], int]:
    """Counts that differ at a common coordinate, those that grow most first, and then memory.

    A call path that has a count in one campaign only is new or gone if the other has no such call
    path at all.
    """
    changes, n_alike = [], 0
    paths_before, paths_after = (_callpaths(experiment) for experiment in (before, after))
    for metric in COUNTS:
        earlier, later = (_largest(experiment, metric.name) for experiment in (before, after))
        for path in sorted(earlier.keys() | later.keys()):
            if path.name.startswith(TIMING):
                continue
            old, new = earlier.get(path, {}), later.get(path, {})
            pairs = [(old.get(at, math.nan), new.get(at, math.nan)) for at in common]
            if metric is HEAP_GROWTH:
                is_alike = _is_equal_memory(*pairs[-1])
            else:
                is_alike = all(_is_equal(*pair) for pair in pairs)
            if is_alike:
                n_alike += 1
                continue
            is_new, is_gone = path not in paths_before, path not in paths_after
            status = NEW if is_new else GONE if is_gone else CHANGED
            laws = [_law(before.parameters, values, metric.unit) for values in (old, new)]
            last = pairs[-1]
            changes.append(
                Change(
                    path,
                    metric.name,
                    metric.unit,
                    "",
                    status,
                    *last,
                    law_before=laws[0],
                    law_after=laws[1],
                    has_other_law=status == CHANGED and laws[0] != laws[1],
                )
            )

    changes = [change for change in changes if not _is_memory_of_callee(change, changes)]
    changes.sort(key=_count_order)
    return changes, n_alike


def _callpaths(experiment: Experiment) -> set[CallPath]:
    return {path for _, table in experiment.runs for path in table.callpaths}


def _is_memory_of_callee(change: Change, changes: Sequence[Change]) -> bool:
    """Whether the memory of a call path, which includes that of its callees, is one of theirs."""
    if change.metric != HEAP_GROWTH.name:
        return False
    callees = [other for other in changes if other.callpath.parent == change.callpath]
    own = _difference(change)
    return any(
        other.metric == change.metric and abs(own - _difference(other)) < LEAST_BYTES
        for other in callees
    )


def _difference(change: Change) -> float:
    """What a value grew by; what is missing is 0."""
    before, after = np.nan_to_num([change.before, change.after]).tolist()
    return float(after - before)


def _is_equal(before: float, after: float) -> bool:
    is_missing = math.isnan(before) and math.isnan(after)
    return is_missing or math.isclose(before, after, rel_tol=RELATIVE)


def _is_equal_memory(before: float, after: float) -> bool:
    """Whether memory is the same but for what varies from run to run; what is missing is 0."""
    smaller, larger = sorted(np.nan_to_num([before, after]).tolist())
    return bool(larger - smaller < LEAST_BYTES or larger < LEAST_CHANGE * smaller)


def _count_order(change: Change) -> tuple[bool, bool, float, str]:
    """Other laws first, then the largest ratio in either direction; memory after all counts."""
    ratio = change.ratio
    size = abs(math.log(ratio)) if ratio > 0 and math.isfinite(ratio) else math.inf
    is_memory = change.metric == HEAP_GROWTH.name
    return is_memory, not change.has_other_law, -size, str(change.callpath)


def _largest(experiment: Experiment, metric: str) -> Mapping[CallPath, Mapping[Coordinate, float]]:
    """The largest rank of each call path at each coordinate: the median over repetitions."""
    values: dict[CallPath, dict[Coordinate, list[float]]] = {}
    for key, table in experiment.runs:
        rows: FloatArray | None = table.values.get(metric)
        if rows is None:
            continue
        at = key.coordinate(experiment.parameters)
        for path, row in zip(table.callpaths, rows, strict=True):
            largest = float(np.max(np.nan_to_num(row), initial=0.0))
            if largest > 0:
                values.setdefault(path, {}).setdefault(at, []).append(largest)

    medians: dict[CallPath, dict[Coordinate, float]] = {}
    for path, by_coordinate in values.items():
        medians[path] = {at: float(np.median(listed)) for at, listed in by_coordinate.items()}
    return medians


def _law(parameters: Sequence[str], values: Mapping[Coordinate, float], unit: str) -> str:
    """The exact law of a count over the number of ranks; "" where there is none."""
    if tuple(parameters) != (RANKS,) or not values:
        return ""
    scales = sorted(values)
    p = np.array([at[0] for at in scales])
    laws = find_laws(p, np.array([values[at] for at in scales]))
    return laws[0].text(unit) if laws else ""
