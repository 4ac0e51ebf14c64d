"""Files that ranks try to open again and again: lock files, and files that another rank makes."""

from collections.abc import Iterator, Sequence

import numpy as np

from insitu.analysis.diagnosis.blocking import MOST_CHANCE, chance_of_order
from insitu.analysis.diagnosis.budget import at_text, run_time
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.machine import BUDGET_SHARE
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.statements import UNCLEAR, WARNING_FROM, Statement
from insitu.entities import FILES_OPENED, RANKS, TIME_EXCLUSIVE, VISITS, CallPath, is_start_up
from insitu.modeling.measurement import FloatArray

OPENS = ("open", "fopen")
LEAST_SCALES = 4
LEAST_TRIES = 2.0  # for each file, at the largest scale
CLEAR_GROWTH = 1.5  # from the smallest to the largest scale


def find_retries(measurements: Measurements, known: Sequence[str | None]) -> Iterator[Statement]:
    """Functions that try to open a file the more often, the more ranks there are.

    How often depends on how fast the ranks are, so that it follows no law.

    Args:
        measurements: all runs.
        known: the call paths that a statement about waiting is about.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    for path in sorted(measurements.file_calls):
        if path.name not in OPENS or is_start_up(path):
            continue
        owner = measurements.owners[path]
        tries = measurements.series([path], VISITS.name).statistic(np.mean)
        files = measurements.series([path], FILES_OPENED.name).statistic(np.mean)
        if np.any(files <= 0) or str(owner) in known:
            continue
        for_each = tries / files
        is_more = for_each[-1] >= max(LEAST_TRIES, CLEAR_GROWTH * for_each[0])
        if (
            is_more
            and chance_of_order(for_each) <= MOST_CHANCE
            and _takes_time(measurements, owner)
        ):
            yield _statement(measurements, owner, for_each, float(files[-1]))


def _takes_time(measurements: Measurements, owner: CallPath) -> bool:
    """Whether a function, outside of what it calls, takes a rank as long as a limit may."""
    for run in measurements.groups[-1]:
        seconds = run.sum_over([owner], TIME_EXCLUSIVE.name)
        if seconds.mean() < BUDGET_SHARE * run_time(run):
            return False
    return True


def _statement(
    measurements: Measurements, owner: CallPath, for_each: FloatArray, files: float
) -> Statement:
    first, now = (quantity_text(float(round(for_each[i], 1)), "1") for i in (0, -1))
    scales = [at_text(RANKS, float(p)) for p in measurements.p[[0, -1]]]
    return Statement(
        kind="waiting",
        status=UNCLEAR,
        text=f"ranks try {now} times to open each of {quantity_text(files, '1')} files at"
        f" {scales[1]}, {first} times at {scales[0]}: they seem to wait for one another, as at a"
        " lock file",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=VISITS.name,
        unit="1",
        now=float(for_each[-1] * files),
        severity=WARNING_FROM,
    )
