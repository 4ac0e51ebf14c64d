"""Serialised work: the ranks do it one after the other, while all others wait.

Such as that of a root which changes with each step, or with a resource that one rank uses at a
time. All ranks do as much in the end, so that no count tells it. Where ranks share cores, waiting
has many causes, but the last rank to finish common work delays the others by a part only of the
time that all ranks spend in it. Serialised work delays them by all of it. Of the programs of
`tests/evaluation/held_out.py` on 12 ranks and two cores: 0.95 and 1.04 times in two that work like
this, at most 0.36 in about 90 runs of others, unless one rank does it alone.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING_FROM, Statement
from insitu.analysis.diagnosis.times import CLEAR_GROWTH, LEAST_SECONDS
from insitu.entities import DELAY_COST, RANKS, TIME_EXCLUSIVE, CallPath, is_start_up
from insitu.units import percent, quantity

TELLING_SCALES = 3  # the largest, of more than two ranks
LEAST_RANKS = 8  # of the largest scale
LEAST_DELAY = 0.75  # of the time that all ranks spend in a function, for which each other one waits
LEAST_TAKING_PART = 0.5  # of the ranks
MOST_OF_ONE = 0.5  # of the time of all ranks: otherwise it is the work of one rank


def find_serialised_work(
    measurements: Measurements, baseline: Baseline, named: Collection[str | None]
) -> Iterator[Statement]:
    """Functions in which one rank at a time works, where waiting itself is not judged.

    Args:
        measurements: all runs.
        baseline: the budget.
        named: call paths of which this is known.
    """
    p = measurements.p
    is_telling = len(p) >= TELLING_SCALES and p[-TELLING_SCALES] > 2 and p[-1] >= LEAST_RANKS
    if not measurements.has_crowded or not is_telling:
        return
    last = slice(-TELLING_SCALES, None)
    for owner, members in measurements.members.items():
        if owner.parent is None or str(owner) in named or owner in measurements.polling:
            continue
        own = [path for path in members if not is_mpi(path) and not is_start_up(path)]
        times = measurements.series(own, TIME_EXCLUSIVE.name)
        seconds = times.statistic(np.sum)[last]
        delays = measurements.series(own, DELAY_COST.name).statistic(np.sum)[last]
        if seconds.min() <= 0 or seconds[-1] < LEAST_SECONDS:
            continue
        if seconds[-1] < CLEAR_GROWTH * seconds[0]:
            continue
        shares = delays / (seconds * (p[last] - 1.0))
        if shares.min() >= LEAST_DELAY and _take_part(times):
            statement = _statement(measurements, owner, float(seconds[-1]), float(shares.min()))
            severity = (statement.seconds or 0.0) / baseline.budget_s(float(p[-1]), is_once=False)
            if severity >= WARNING_FROM:
                yield replace(statement, severity=severity)


def _take_part(times: RankSeries) -> bool:
    """Whether about all ranks of the largest scale take part, and none does most of the work."""
    for vector in times.vectors[-1]:
        taking_part = np.count_nonzero(vector) / len(vector)
        if taking_part < LEAST_TAKING_PART or vector.max() > MOST_OF_ONE * vector.sum():
            return False
    return True


def _statement(
    measurements: Measurements, owner: CallPath, seconds: float, share: float
) -> Statement:
    """What the function takes at the largest scale, in all ranks one after the other."""
    ranks = float(measurements.p[-1])
    return Statement(
        kind="waiting",
        status=UNCLEAR,
        text=f"the ranks are in {short_name(owner.name)} one after the other: all others wait for"
        f" {percent(min(share, 1.0))} of the time of each at least, {quantity(seconds, 's')} of"
        f" all ranks at {at_text(RANKS, ranks)}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=DELAY_COST.name,
        unit="s",
        now=seconds,
        seconds=seconds,
    )
