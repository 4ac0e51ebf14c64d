"""Ranks that are blocked for longer, the more ranks there are.

They take locks in turn, wait for the same files, or look again and again whether it is their turn.
This costs no processor time and no calls, and the time of a rank that is blocked hardly depends on
how many ranks share a core.
"""

from collections.abc import Iterator
from itertools import combinations
from math import factorial

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING_FROM, Statement
from insitu.analysis.diagnosis.times import CLEAR_GROWTH, LEAST_SECONDS
from insitu.entities import BLOCKED_TIME, RANKS
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

MOST_CHANCE = 0.01  # probability of so few inversions if the order of the scales did not matter


def find_blocking(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """The program, if its ranks are blocked outside MPI calls for longer with each scale.

    Nothing is said of the target: what they wait for is unknown, and may be the files of one node.
    """
    program = next((path for path in measurements.callpaths if path.parent is None), None)
    values = _means(measurements)
    if program is None or values is None:
        return

    first, now = float(values[0]), float(values[-1])
    budget = baseline.budget_s(float(measurements.p[-1]), is_once=False)
    severity = (now - first) / budget
    is_clear = now >= CLEAR_GROWTH * first and now - first >= LEAST_SECONDS
    if severity < WARNING_FROM or not is_clear or _chance(values) > MOST_CHANCE:
        return

    scales = [at_text(RANKS, float(p)) for p in measurements.p[[0, -1]]]
    yield Statement(
        kind="waiting",
        status=UNCLEAR,
        text=f"ranks are blocked outside MPI calls, as in locks, in files or asleep, for"
        f" {quantity(first, 's')} at {scales[0]} and {quantity(now, 's')} at {scales[1]}",
        callpath=str(program),
        where=measurements.where(program),
        ranks="all",
        metric=BLOCKED_TIME.name,
        unit="s",
        now=now,
        severity=severity,
        seconds=now - first,
    )


def _means(measurements: Measurements) -> FloatArray | None:
    """The mean over the ranks of each scale, the median of its repetitions, (n_scales,).

    None unless it is known of all ranks.
    """
    programs = [path for path in measurements.callpaths if path.parent is None]
    means = []
    for group in measurements.groups:
        of_runs = []
        for run in group:
            seconds = run.sum_over(programs, BLOCKED_TIME.name)
            if not np.all(seconds > 0):
                return None
            of_runs.append(float(seconds.mean()))
        means.append(float(np.median(of_runs)))
    return np.array(means) if means else None


def _chance(values: FloatArray) -> float:
    """The probability that values in random order have as few inversions as these, or fewer.

    The distribution is that of Kendall's test [Kendall 1938]: the i-th value is smaller than
    0 to i - 1 of those before it, all equally likely.
    """
    inversions = sum(float(before) >= float(after) for before, after in combinations(values, 2))
    orders = np.ones(1)
    for i in range(2, len(values) + 1):
        orders = np.convolve(orders, np.ones(i))
    return float(orders[: inversions + 1].sum()) / factorial(len(values))
