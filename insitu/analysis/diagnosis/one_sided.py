"""One-sided calls that a rank serves one after the other, if all ranks address the same one.

Locks of a window and atomic operations, such as those of a counter on rank 0, wait for one another
at their target. The counts of the ranks that make them are the same whatever their targets are,
and these are not measured.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.limit import is_once
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import NOT_JUDGED, WARNING_FROM, Statement
from insitu.entities import RANKS, VISITS, CallPath
from insitu.units import quantity

ONE_AFTER_THE_OTHER = frozenset(
    (
        *("MPI_Win_lock", "MPI_Fetch_and_op", "MPI_Compare_and_swap"),
        *("MPI_Accumulate", "MPI_Raccumulate", "MPI_Get_accumulate", "MPI_Rget_accumulate"),
    )
)
LEAST_SCALES = 3


def find_unknown_targets(
    measurements: Measurements, machine: Machine, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Functions whose one-sided calls would cost too much if one rank were the target of all.

    Each rank is taken to make as many calls at the target as at the largest scale.
    """
    if len(measurements.p) < LEAST_SCALES:
        return

    for owner, members in measurements.members.items():
        counts: dict[CallPath, float] = {}
        for path in members:
            if path.name.removeprefix("P") in ONE_AFTER_THE_OTHER:
                visits = measurements.series([path], VISITS.name)
                counts[path] = float(visits.statistic(np.mean)[-1])
        if not counts:
            continue

        most = max(counts, key=lambda path: counts[path])
        calls = counts[most] * target
        seconds = calls * machine.latency_s
        severity = seconds / baseline.budget_s(target, is_once=is_once(measurements, owner))
        if severity >= WARNING_FROM:
            yield Statement(
                kind="serial",
                status=NOT_JUDGED,
                text=f"the targets of {most.name} are not measured; if all ranks address the same"
                f" one, it serves {quantity_text(calls, '1')} calls, at least"
                f" {quantity(seconds, 's')} at {at_text(RANKS, target)}",
                callpath=str(owner),
                where=measurements.where(owner),
                metric=VISITS.name,
                unit="1",
                severity=severity,
            )
