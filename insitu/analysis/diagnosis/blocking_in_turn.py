"""Ranks that are blocked at different times, so that all others wait for each of them in turn.

Each writes a journal or sleeps as long and as often on any number of ranks, but not in the same
step as the others: on p ranks, a step is delayed p times as often. The waiting itself also has
other causes where ranks share cores. What a blocked function causes does not: it needs no core.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.blocking import (
    MOST_CHANCE,
    blocked_means,
    blocked_times,
    chance_of_order,
    find_blocked_function,
)
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING_FROM, Statement
from insitu.analysis.diagnosis.times import CLEAR_GROWTH, LEAST_SECONDS, exclusive_times
from insitu.entities import DELAY_COST, RANKS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

LEAST_DELAY = 2.0  # times as long as each rank is blocked: together, it would be once at most


def find_blocking_in_turn(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """The function in which each rank is blocked, if others wait for it the longer, the more ranks
    there are. Nothing is said of the target: the steps in which nobody is blocked run out.
    """
    p = measurements.p
    blocked = blocked_means(measurements)
    path = find_blocked_function(measurements)
    is_unjudged = measurements.has_crowded and len(p) and p[0] > 1
    if path is None or blocked is None or not is_unjudged:
        return
    if blocked.max() >= CLEAR_GROWTH * blocked.min():
        return  # each of them is blocked for longer

    delays = _delays(measurements, path)
    first, now = float(delays[0]), float(delays[-1])
    severity = (now - first) / baseline.budget_s(float(p[-1]), is_once=False)
    is_clear = now >= CLEAR_GROWTH * first and now - first >= LEAST_SECONDS
    longest = LEAST_DELAY * float(blocked[-1]) + _late_wake_ups(measurements, path)
    is_clear = is_clear and now >= longest
    if severity < WARNING_FROM or not is_clear or chance_of_order(delays) > MOST_CHANCE:
        return

    scales = [at_text(RANKS, float(ranks)) for ranks in p[[0, -1]]]
    yield Statement(
        kind="waiting",
        status=UNCLEAR,
        text=f"each rank is blocked for {quantity(float(blocked[-1]), 's')} in"
        f" {short_name(path.name)} at any scale, but not when others are: those wait for"
        f" {quantity(first, 's')} at {scales[0]} and {quantity(now, 's')} at {scales[1]}",
        callpath=str(path),
        where=measurements.where(path),
        ranks="all",
        metric=DELAY_COST.name,
        unit="s",
        now=now,
        severity=severity,
        seconds=now - first,
    )


def _late_wake_ups(measurements: Measurements, path: CallPath) -> float:
    """Seconds for which ranks at the largest scale got no core after they had been blocked.

    Others wait for that, too: for each of the ranks, if no two of them are late at a time.
    """
    own = [member for member in measurements.members[path] if not is_mpi(member)]
    late = []
    for run in measurements.groups[-1]:
        seconds = exclusive_times(run, own) - blocked_times(run)
        late.append(float(np.maximum(seconds, 0.0).sum()))
    return max(late)


def _delays(measurements: Measurements, path: CallPath) -> FloatArray:
    """For how long a rank waits for others in a function, (n_scales,): mean over the ranks.

    That of a single rank, in turn, for which all others wait, does not depend on their number.
    """
    own = [member for member in measurements.members[path] if not is_mpi(member)]
    together = measurements.series(own, DELAY_COST.name).statistic(np.sum)
    return together / np.maximum(measurements.p - 1.0, 1.0)
