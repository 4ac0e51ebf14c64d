"""Candidates for limits: windows that MPI allocates, which are larger on more ranks.

A window is held at least until the call that frees it, so that the size of each is held memory. How
many of them a rank holds at a time is unknown.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.growth import CountGrowth, find_growth
from insitu.analysis.diagnosis.limit import Limit, value_at
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries
from insitu.entities import VISITS, WINDOW_BYTES, CallPath

SHARED = "MPI_Win_allocate_shared"
LEAST_BYTES = 4096.0  # by which a window must grow over the measured scales, as the heap
ALL_AT_ONCE = "if all of them are held at once"
OF_A_NODE = "if that is so for all ranks, and not for those of a node"


def window_limits(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Windows whose size grows with p, or their number; at most one limit for each call path.

    The ranks of a shared window are on one node, and one of them often allocates the memory of all:
    there the mean over ranks counts, and growth may end with the ranks of a node.
    """
    if WINDOW_BYTES.name not in measurements.metrics:
        return
    for path in measurements.callpaths:
        total = measurements.series([path], WINDOW_BYTES.name)
        is_shared = path.name == SHARED
        if is_shared:
            total = _mean_of_ranks(total)
        largest = total.statistic(np.max)
        if float(np.ptp(largest)) < LEAST_BYTES:
            continue

        visits = measurements.series([path], VISITS.name)
        each = total / (_mean_of_ranks(visits) if is_shared else visits)
        growth = find_growth(measurements.p, each, target)
        condition = OF_A_NODE if is_shared else ""
        subject = "allocates a window of {}"
        if not _is_candidate(growth):
            growth = find_growth(measurements.p, total, target)
            condition = condition or ALL_AT_ONCE
            subject = "allocates windows of {} in all"
        if _is_candidate(growth):
            yield _window_limit(measurements, path, growth, target, (subject, condition))


def _is_candidate(growth: CountGrowth) -> bool:
    """Whether one rank or all ranks have more, not only those inside a growing grid."""
    return growth.is_growing and (growth.single is not None or growth.has_same_order)


def _mean_of_ranks(series: RankSeries) -> RankSeries:
    """The mean over ranks, as a series of one rank."""
    groups = (tuple(np.array([vector.mean()]) for vector in group) for group in series.vectors)
    return RankSeries(tuple(groups))


def _window_limit(
    measurements: Measurements,
    path: CallPath,
    growth: CountGrowth,
    target: float,
    texts: tuple[str, str],
) -> Limit:
    """The limit, with its subject and the condition under which it is one."""
    subject, condition = texts
    return Limit(
        kind="memory",
        path=measurements.owners[path],
        metric=WINDOW_BYTES.name,
        unit="B",
        growth=growth,
        cost=lambda ranks: value_at(growth, ranks, measurements.p, target),
        is_once=False,
        subject=subject,
        detail=path,
        rank=0 if growth.single == 0 else None,
        condition=condition,
    )
