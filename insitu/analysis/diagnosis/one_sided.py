"""One-sided calls that a rank serves one after the other, if all ranks address the same one.

Where ranks have several targets, only their number is known.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.limit import is_once
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.only_partners import ONE_AFTER_THE_OTHER, served_calls
from insitu.analysis.diagnosis.statements import NOT_JUDGED, WARNING_FROM, Statement
from insitu.entities import RANKS, VISITS, CallPath
from insitu.units import quantity

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
            is_serial = path.name in ONE_AFTER_THE_OTHER
            if is_serial and served_calls(measurements, path, VISITS.name) is None:
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
                text=f"ranks have several targets of {most.name}, or unknown ones; if all address"
                f" the same one, it serves {quantity_text(calls, '1')} calls, at least"
                f" {quantity(seconds, 's')} at {at_text(RANKS, target)}",
                callpath=str(owner),
                where=measurements.where(owner),
                metric=VISITS.name,
                unit="1",
                severity=severity,
            )
