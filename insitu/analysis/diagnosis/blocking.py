"""Ranks that are blocked for longer, the more ranks there are.

They take locks in turn, wait for the same files, or look again and again whether it is their turn.
This costs no processor time and no calls, and the time of a rank that is blocked hardly depends on
how many ranks share a core.
"""

from collections.abc import Iterator
from itertools import combinations
from math import factorial

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements, is_mpi
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING_FROM, Statement
from insitu.analysis.diagnosis.times import CLEAR_GROWTH, LEAST_SECONDS, exclusive_times
from insitu.entities import BLOCKED_TIME, RANKS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

ATTRIBUTED_SCALES = 3  # the largest, at which a function must explain the time
MOST_OTHER = 0.3  # of the blocked time: how far a function's own time may be from it on a rank
MOST_CHANCE = 0.01  # probability of so few inversions if the order of the scales did not matter


def find_blocking(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """The program, if its ranks are blocked outside MPI calls for longer with each scale.

    Nothing is said of the target: what they wait for is unknown, and may be the files of one node.
    """
    program = next((path for path in measurements.callpaths if path.parent is None), None)
    values = blocked_means(measurements)
    if program is None or values is None:
        return

    first, now = float(values[0]), float(values[-1])
    budget = baseline.budget_s(float(measurements.p[-1]), is_once=False)
    severity = (now - first) / budget
    is_clear = now >= CLEAR_GROWTH * first and now - first >= LEAST_SECONDS
    if severity < WARNING_FROM or not is_clear or chance_of_order(values) > MOST_CHANCE:
        return

    scales = [at_text(RANKS, float(p)) for p in measurements.p[[0, -1]]]
    blocked = find_blocked_function(measurements)
    path = blocked or program
    inside = f", most of it in {short_name(path.name)} on each rank" if blocked else ""
    yield Statement(
        kind="waiting",
        status=UNCLEAR,
        text=f"ranks are blocked outside MPI calls, as in locks, in files or asleep, for"
        f" {quantity(first, 's')} at {scales[0]} and {quantity(now, 's')} at {scales[1]}{inside}",
        callpath=str(path),
        where=measurements.where(path),
        ranks="all",
        metric=BLOCKED_TIME.name,
        unit="s",
        now=now,
        severity=severity,
        seconds=now - first,
    )


def find_blocked_function(measurements: Measurements) -> CallPath | None:
    """The function whose own time is that for which each rank is blocked, or somewhat more.

    Other functions take longer, too, where ranks share cores, but not in the same ranks.
    """
    closest = None
    least = MOST_OTHER
    runs = [run for group in measurements.groups[-ATTRIBUTED_SCALES:] for run in group]
    blocked_of_runs = [blocked_times(run) for run in runs]
    for owner, members in measurements.members.items():
        own = [path for path in members if not is_mpi(path)]
        if owner.parent is None or all(map(measurements.is_sampled, own)):
            continue
        others = []
        for run, blocked in zip(runs, blocked_of_runs, strict=True):
            other = np.abs(exclusive_times(run, own) - blocked)
            others.append(float(other.mean() / max(float(blocked.mean()), 1e-300)))
        if max(others) < least:
            closest, least = owner, max(others)
    return closest


def blocked_times(run: MeasuredRun) -> FloatArray:
    """For how long each rank is blocked, (p,)."""
    return run.sum_over([path for path in run.rows if path.parent is None], BLOCKED_TIME.name)


def blocked_means(measurements: Measurements) -> FloatArray | None:
    """The mean over the ranks of each scale, the median of its repetitions, (n_scales,).

    None unless it is known of all ranks.
    """
    means = []
    for group in measurements.groups:
        of_runs = []
        for run in group:
            seconds = blocked_times(run)
            if not np.all(seconds > 0):
                return None
            of_runs.append(float(seconds.mean()))
        means.append(float(np.median(of_runs)))
    return np.array(means) if means else None


def chance_of_order(values: FloatArray) -> float:
    """The probability that values in random order have as few inversions as these, or fewer.

    The distribution is that of Kendall's test [Kendall 1938]: the i-th value is smaller than
    0 to i - 1 of those before it, all equally likely.
    """
    inversions = sum(float(before) >= float(after) for before, after in combinations(values, 2))
    orders = np.ones(1)
    for i in range(2, len(values) + 1):
        orders = np.convolve(orders, np.ones(i))
    return float(orders[: inversions + 1].sum()) / factorial(len(values))
