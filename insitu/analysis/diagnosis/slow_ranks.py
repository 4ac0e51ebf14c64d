"""The same rank does more than the others at scale after scale.

Visits are exact, also where ranks share cores. Times are not; but that the same rank is the slowest
by chance in runs on 2, 3, 4, 6, 8 and 12 ranks has the probability 1 / 13,824.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text, lowest_price
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi, is_start_up
from insitu.analysis.diagnosis.statements import WARNING, Statement
from insitu.analysis.diagnosis.times import exclusive_times
from insitu.entities import RANKS, TIME_EXCLUSIVE, VISITS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity

LEAST_RATIO = 1.2  # of the largest rank to the mean
LEAST_SHARE = 0.05  # of the computing time of a rank, that the slowest rank takes longer
SAME_BY_CHANCE = 1e-3  # probability above which it is no evidence that the same rank is the slowest
COUNTED_SCALES = 3  # scales at which counts must have the same largest rank


def find_slow_ranks(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions whose work is larger on one rank, the same or the last one at all scales."""
    groups = measurements.groups
    if len(groups) < COUNTED_SCALES or measurements.p[-1] < COUNTED_SCALES:
        return

    computing = {}
    for owner, members in measurements.members.items():
        if measurements.has_samples and owner.parent is None:
            continue  # what samples do not explain, such as waiting for a core
        computing[owner] = [path for path in members if not is_mpi(path)]
    work = []
    for group in groups:
        totals = [
            sum(exclusive_times(run, paths).mean() for paths in computing.values()) for run in group
        ]
        work.append(float(np.median(totals)))
    if work[-1] <= 0:
        return

    for owner, paths in computing.items():
        times = _medians([[exclusive_times(run, paths) for run in group] for group in groups])
        visits = _medians([[run.vector(owner, VISITS.name) for run in group] for group in groups])
        counted = measurements.series([owner], VISITS.name)
        price = lowest_price(groups[-1], owner)
        if counted.is_repeatable(np.max) and _is_counted_alike(visits):
            excess = price * float(visits[-1].max() - visits[-1].mean())
            if excess >= LEAST_SHARE * _counted_work(measurements):
                statement = _statement(measurements, owner, visits, VISITS.name, excess)
                yield _with_severity(statement, excess, baseline)
                continue
        if _is_timed_alike(measurements.p, times, work):
            excess = float(times[-1].max() - times[-1].mean())
            statement = _statement(measurements, owner, times, TIME_EXCLUSIVE.name, excess)
            yield _with_severity(statement, excess, baseline)


def _medians(groups: Sequence[Sequence[FloatArray]]) -> list[FloatArray]:
    """For each scale the median over repetitions, (p,)."""
    return [np.median(np.array(vectors), axis=0) for vectors in groups]


def _counted_work(measurements: Measurements) -> float:
    """The computing time of a mean rank at the largest scale by the least time of each visit."""
    group = measurements.groups[-1]
    seconds = 0.0
    for path in measurements.callpaths:
        if path.parent is not None and not is_mpi(path) and not is_start_up(path):
            visits = float(np.median([run.vector(path, VISITS.name).mean() for run in group]))
            seconds += visits * lowest_price(group, path)
    return seconds


def _slowest(vector: FloatArray) -> int:
    """The only rank with the largest value, -1 if it is the last one, -2 if there are several."""
    top = int(np.argmax(vector))
    if int(np.sum(vector == vector[top])) > 1:
        return -2
    return -1 if top == len(vector) - 1 else top


def _is_counted_alike(visits: Sequence[FloatArray]) -> bool:
    """Whether one rank counts most at the largest scales, by more than a fifth at the largest."""
    largest = visits[-1]
    if largest.mean() <= 0 or largest.max() < LEAST_RATIO * largest.mean():
        return False
    ranks = {_slowest(vector) for vector in visits[-COUNTED_SCALES:]}
    return len(ranks) == 1 and -2 not in ranks


def _is_timed_alike(p: FloatArray, times: Sequence[FloatArray], work: Sequence[float]) -> bool:
    """Whether one rank is slowest by far at all scales."""
    if 1.0 / float(np.prod(p)) > SAME_BY_CHANCE:
        return False
    firsts, lasts = set[int](), set[int]()
    for vector, seconds in zip(times, work, strict=True):
        if len(vector) == 1:
            continue
        excess = float(vector.max() - vector.mean())
        if vector.max() < LEAST_RATIO * vector.mean() or excess < LEAST_SHARE * seconds:
            return False
        firsts.add(int(np.argmax(vector)))
        lasts.add(len(vector) - 1 - int(np.argmax(vector)))
    return len(firsts) == 1 or lasts == {0}


def _statement(
    measurements: Measurements,
    owner: CallPath,
    vectors: Sequence[FloatArray],
    metric: str,
    excess: float,
) -> Statement:
    largest = vectors[-1]
    ratio = float(largest.max() / largest.mean())
    slowest = int(np.argmax(largest))
    is_last = all(int(np.argmax(vector)) == len(vector) - 1 for vector in vectors[-2:])
    who = "last rank" if is_last else f"rank {slowest}"
    is_counted = metric == VISITS.name
    verb = "visits" if is_counted else "takes"
    much = "often" if is_counted else "long"
    text = (
        f"{who} {verb} {short_name(owner.name)} {ratio:.1f} times as {much} as the mean: load"
        f" balance {percent(1 / ratio)} at {at_text(RANKS, len(largest))}, {quantity(excess, 's')}"
    )
    if not is_counted:
        text += f"; the slowest at all {len(vectors)} scales"
    return Statement(
        kind="imbalance",
        status=WARNING,
        text=text,
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=who,
        metric=metric,
        unit="1" if is_counted else "s",
        now=float(largest.max()),
        seconds=excess,
    )


def _with_severity(statement: Statement, excess: float, baseline: Baseline) -> Statement:
    """It was observed, and is not carried to the target: a warning at most."""
    severity = min(excess / baseline.budget_s(baseline.p, is_once=False), 0.99)
    return replace(statement, severity=severity)
