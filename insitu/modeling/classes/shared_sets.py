"""Sets of ranks in no order that several call paths share, from the times of all of them together.

Slow nodes, or ranks with a finer mesh, are sets without any regularity. Where classes are less than
about three standard deviations apart, a single series leaves the class of many ranks open. The call
paths of a program often share such a set, and the same ranks often belong to it in every run. Both
are hypotheses about which observations have one membership: a rank in a run, over all call paths;
or a rank in all runs. Expectation maximisation finds the memberships under each, and the
description length of memberships and values decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.modeling.classes.candidates import HALF_LOG_2PI, OUTLIER_DENSITY, OUTLIER_SHARE
from insitu.modeling.classes.common_factor import find_groups
from insitu.modeling.measurement import FloatArray, IntArray

MIN_AGREEMENT = 0.25  # adjusted Rand index from which on two partitions may be one set
MAX_SERIES = 128  # with several classes that are compared with each other
MAX_STARTS = 4  # series whose own classes the search begins with
MAX_VALUES = 100_000  # of all series that are put together, but for two series
MAX_COMPARED = 48  # series that a common set is looked for in
MAX_POOLED = 12  # series whose values are put together; the others take the result over
ROUNDS = 12  # of expectation and maximisation
PRIOR_RANKS = 3.0  # that the distance of a class counts in a run, from all runs of its series
WORTH = 6.0  # nats by which a hypothesis must be better than memberships of their own
EQUAL = 0.999  # correlation of the values of two series from which on these are the same


@dataclass(frozen=True, slots=True)
class FreeSeries:
    """A series whose classes were found in its own times only.

    logs: logarithms of the values of all runs, one run after the other, (n,); labels: (n,), its
    classes; floor: least spread of ranks; smooth_criterion: Bayesian information criterion, without
    the bases of runs, of the description without groups that its one class rests on, if any.
    """

    logs: FloatArray
    labels: IntArray
    floor: float
    smooth_criterion: float = np.inf

    @property
    def is_smooth(self) -> bool:
        """Whether its ranks differ without groups, as far as it shows alone."""
        return bool(np.isfinite(self.smooth_criterion))


@dataclass(frozen=True, slots=True)
class _Fit:
    """The class of each value, (n,), and what it costs to describe the series by them, in nats.

    lengths: of the values, (n_series,); membership: of the classes.
    """

    labels: IntArray
    lengths: FloatArray
    membership: float

    @property
    def total(self) -> float:
        """The description length of everything."""
        return float(self.lengths.sum()) + self.membership


def share_sets(series: Sequence[FreeSeries], run: IntArray, rank: IntArray) -> list[IntArray]:
    """The classes of each series, (n,) labels, those of a shared set where that explains more.

    Labels of a series that shares none are the same object as before. A series whose ranks are all
    alike, or differ without groups, takes a set over if it explains its values. Two classes may
    also be seen in the values of several series together only.

    Args:
        series: over the same runs and ranks.
        run, rank: of each value, (n,).
    """
    labels = [item.labels for item in series]
    divided = [index for index, item in enumerate(series) if item.labels.any()]
    others = [index for index, item in enumerate(series) if not item.labels.any()]
    rest, others = divided[:MAX_SERIES], [*others, *divided[MAX_SERIES:]]

    sets: list[IntArray] = []
    everything = [series[index] for index in (*rest, *others)]
    # A gradient that several series have would be all that these have in common.
    common = _find_common_set([item for item in everything if not item.is_smooth], run, rank)
    if common is None and any(item.is_smooth for item in everything):
        common = _find_common_set(everything, run, rank)
    if common is not None:
        sets.append(common)
        for index in rest:
            if _explains(common, series[index], run):
                labels[index] = common
        rest = [index for index in rest if labels[index] is not common]

    while rest:
        members = [rest[0]]
        for index in rest[1:]:
            if _agreement(series[rest[0]].labels, series[index].labels) >= MIN_AGREEMENT:
                members.append(index)
        rest = [index for index in rest if index not in members]

        shared = _pool([series[index] for index in members], run, rank)
        if shared is not None:
            sets.append(shared)
            for index in members:
                labels[index] = shared

    for index in others if sets else ():
        lowest = _own_length(series[index], run) - WORTH
        for shared in sets:
            length = _length_by(shared, series[index], run)
            if length < lowest:
                labels[index], lowest = shared, length
    return labels


def _find_common_set(
    series: Sequence[FreeSeries], run: IntArray, rank: IntArray
) -> IntArray | None:
    """Two classes that only the times of several series together show, (n,); None without them."""
    members = _limit_series(series[:MAX_COMPARED], run)
    groups = find_groups([item.logs for item in members], run)
    for _ in range(2):  # the second time, of those that share them
        if groups is None or len(members) < 2:
            return None
        own = [item.labels for item in members if item.labels.any()]
        groups = _pool(members, run, rank, [groups, *own[:MAX_STARTS]])
        if groups is not None:
            members = [item for item in members if _explains(groups, item, run)]
    return groups


def _explains(labels: IntArray, item: FreeSeries, run: IntArray) -> bool:
    """Whether a series is described more briefly by these classes than by its own."""
    return _length_by(labels, item, run) < _own_length(item, run) - WORTH


def _length_by(labels: IntArray, item: FreeSeries, run: IntArray) -> float:
    """The description length of a series by classes that others have paid for, in nats."""
    return float(_fit([item], labels, run, np.arange(len(run)), rounds=0).lengths[0])


def _own_length(item: FreeSeries, run: IntArray) -> float:
    """The description length of a series by itself: by its classes, or without groups."""
    by_classes = _fit([item], item.labels, run, np.arange(len(run)), rounds=0).total
    n_runs = int(run.max()) + 1
    return min(by_classes, (item.smooth_criterion + n_runs * float(np.log(len(run)))) / 2)


def _limit_series(series: Sequence[FreeSeries], run: IntArray) -> list[FreeSeries]:
    """Series whose values are put together: distinct ones, not more than memory allows."""
    return _distinct(series)[: max(2, min(MAX_POOLED, MAX_VALUES // len(run)))]


def _pool(
    series: Sequence[FreeSeries],
    run: IntArray,
    rank: IntArray,
    starts: Sequence[IntArray] = (),
) -> IntArray | None:
    """The classes of series that may share a set, (n,); None where each has its own.

    Args:
        series: that may share it.
        run, rank: of each value, (n,).
        starts: classes the search begins with; default: those of the first series.
    """
    distinct = _limit_series(series, run)
    starts = starts or [item.labels for item in distinct[:MAX_STARTS]]
    own_units = np.arange(len(run))
    cost = 0.0
    for item in distinct:
        fitted = _fit([item], item.labels, run, own_units, rounds=ROUNDS)
        cost += min(fitted.total, _own_length(item, run))

    best: IntArray | None = None
    units = [rank] if len(distinct) == 1 else [own_units, rank]
    for unit in units:
        for start in starts:
            fit = _fit(distinct, start, run, unit, rounds=ROUNDS)
            if fit.total < cost - WORTH and len(np.unique(fit.labels)) > 1:
                best, cost = fit.labels, fit.total + WORTH
    return best


def _distinct(series: Sequence[FreeSeries]) -> list[FreeSeries]:
    """The series without those that vary as another one does, such as that of a caller."""
    distinct: list[FreeSeries] = []
    directions: list[FloatArray] = []
    for item in series:
        centred = item.logs - item.logs.mean()
        direction = centred / max(float(np.sqrt(centred @ centred)), 1e-300)
        if all(direction @ other < EQUAL for other in directions):
            distinct.append(item)
            directions.append(direction)
    return distinct


def _fit(
    series: Sequence[FreeSeries], start: IntArray, run: IntArray, unit: IntArray, *, rounds: int
) -> _Fit:
    """Fit classes with one membership per unit to all series.

    Args:
        series: whose ranks have the same classes.
        start: the class of each value to begin with, (n,).
        run: of each value, (n,).
        unit: of each value, (n,); values of one unit are in one class.
        rounds: of expectation and maximisation; 0 keeps the start.
    """
    n_units, n_classes = int(unit.max()) + 1, int(start.max()) + 1
    votes = np.bincount(unit * n_classes + start, minlength=n_units * n_classes)
    label = votes.reshape(n_units, n_classes).argmax(axis=1)

    for _ in range(max(rounds, 1)):
        share = (np.bincount(label, minlength=n_classes) + 0.5) / (n_units + 0.5 * n_classes)
        score = np.zeros((n_units, n_classes))
        lengths = np.zeros(len(series))
        for index, item in enumerate(series):
            density, n_parameters = _densities(item, label[unit], run, n_classes)
            np.add.at(score, unit, density)
            chosen = density[np.arange(len(run)), label[unit]]
            lengths[index] = n_parameters / 2 * np.log(len(run)) - chosen.sum()
        membership = float(-np.log(share[label]).sum())
        if not rounds:
            break
        moved = (score + np.log(share)).argmax(axis=1)
        if np.array_equal(moved, label):
            break
        label = moved
    return _Fit(label[unit], lengths, membership)


def _densities(
    item: FreeSeries, label: IntArray, run: IntArray, n_classes: int
) -> tuple[FloatArray, int]:
    """Log-density of each value in each class, (n, n_classes), and the number of parameters.

    The centre of a class in a run lies at its distance over all runs, as far as its own ranks do
    not show another.
    """
    n_runs = int(run.max()) + 1
    cell = run * n_classes + label
    limit = 6.0 * item.floor
    centre = np.zeros((n_runs, n_classes))
    y = item.logs
    for _ in range(2):  # the second time, outliers are drawn near
        count = np.bincount(cell, minlength=n_runs * n_classes).reshape(n_runs, n_classes)
        total = np.bincount(cell, y, minlength=n_runs * n_classes).reshape(n_runs, n_classes)
        mean = total / np.maximum(count, 1)
        centre = _shrink(mean, count)
        error = item.logs - centre.ravel()[cell]
        limit = 3.0 * max(item.floor, 1.5 * float(np.median(abs(error))))
        y = centre.ravel()[cell] + np.clip(error, -limit, limit)

    clipped = np.clip(item.logs - centre.ravel()[cell], -limit, limit)
    spread = max(item.floor, float(np.sqrt((clipped**2).mean())))
    distance = item.logs[:, None] - centre[run]
    normal = np.log((1 - OUTLIER_SHARE) / spread) - HALF_LOG_2PI - (distance / spread) ** 2 / 2
    return np.logaddexp(normal, OUTLIER_DENSITY), n_runs + n_classes


def _shrink(mean: FloatArray, count: IntArray) -> FloatArray:
    """Centres of classes in each run: (n_runs, n_classes), from means and numbers of ranks."""
    weight = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    offset = np.zeros(mean.shape[1])
    base = (weight * mean).sum(axis=1)
    for _ in range(5):
        base = (weight * (mean - offset)).sum(axis=1)
        above = mean - base[:, None]
        offset = (count * above).sum(axis=0) / np.maximum(count.sum(axis=0), 1)
    own = (count * (mean - base[:, None]) + PRIOR_RANKS * offset) / (count + PRIOR_RANKS)
    shrunk: FloatArray = base[:, None] + own
    return shrunk


def _agreement(first: IntArray, second: IntArray) -> float:
    """Adjusted Rand index of two partitions [L. Hubert and P. Arabie, J. Classif. 2 (1985)]."""
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1)

    def pairs(counts: FloatArray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    together = pairs(table)
    rows, columns = pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = rows * columns / max(pairs(np.array([float(len(first))])), 1.0)
    highest = (rows + columns) / 2
    return (together - expected) / (highest - expected) if highest > expected else 1.0
