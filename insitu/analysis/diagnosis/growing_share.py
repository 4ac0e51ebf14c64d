"""Functions whose share of the computing grows, where times themselves are not judged.

On shared cores a function takes longer because its rank waits for a processor, but so do all other
functions of that rank. A function that takes more and more of what they take together does more
work, also where nothing counts it, as in Python's own functions and in libraries. Shares are off by
up to a half, because a rank does not lose its core everywhere alike (docs/benchmarks/limits.md).
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements, is_mpi
from insitu.analysis.diagnosis.statements import NOT_JUDGED, UNCLEAR, Statement
from insitu.analysis.diagnosis.times import exclusive_times
from insitu.entities import (
    BLOCKED_TIME,
    RANKS,
    TIME_EXCLUSIVE,
    VISITS,
    CallPath,
    is_start_up,
)
from insitu.modeling.measurement import FloatArray
from insitu.units import percent

LEAST_SCALES = 4  # a line and its error
LEAST_SECONDS = 0.1  # that the function takes at the largest scale
LEAST_OTHERS_S = 0.02  # that the other functions take at each scale: less is no measure of anything
TOO_SHORT = 0.1  # of both of these times: less is not looked at
LEAST_SHARE = 0.1  # at the largest scale, of functions that ran too short to be judged
LEAST_RATIO = 3.0  # by which its time has grown, relative to that of the others
STILL_GROWING = 1.3  # the same, over the larger half of the scales: numbers of neighbours stop
WITHOUT_LARGEST = 1.5  # the same, up to the second largest scale: one run may be disturbed
LEAST_EXPONENT = 0.3  # of p, a standard error below the line
LARGEST_VISITS = 1.02  # times the smallest: more visits are more work, which has laws of its own
MOST_BLOCKED = 0.1  # of the computing: who sleeps or waits for files needs no processor


def find_growing_shares(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions that take an ever larger share of the computing of a rank, at constant visits.

    Only of programs whose work for each rank is meant to be constant, and whose functions were all
    timed: samples count processor time, which a parallel region that is timed cannot be compared
    with.
    """
    is_unjudged = measurements.has_crowded and baseline.scaling == "weak"
    is_unjudged = is_unjudged and not measurements.has_samples
    if not is_unjudged or len(measurements.p) < LEAST_SCALES or measurements.device_calls:
        return

    runs = [group[-1] for group in measurements.groups]
    times = {
        owner: [_computing(measurements, run, owner) for run in runs]
        for owner in measurements.members
    }
    totals = [np.sum([vectors[i] for vectors in times.values()], axis=0) for i in range(len(runs))]
    if any(_is_blocked(run, total) for run, total in zip(runs, totals, strict=True)):
        return

    for owner, vectors in times.items():
        if owner.parent is None:
            continue
        visits = measurements.series([owner], VISITS.name).statistic(np.max)
        if visits.min() <= 0 or visits.max() > LARGEST_VISITS * visits.min():
            continue
        pairs = zip(vectors, totals, strict=True)
        own = np.array([float(np.median(vector)) for vector in vectors])
        others = np.array([float(np.median(total - vector)) for vector, total in pairs])
        length = min(own[-1] / LEAST_SECONDS, others.min() / LEAST_OTHERS_S)
        if length < TOO_SHORT or own.min() <= 0 or not _is_growing(measurements.p, own / others):
            continue
        shares = own / (own + others)
        if length >= 1.0:
            yield _statement(measurements, owner, shares)
        elif shares[-1] >= LEAST_SHARE:
            yield _too_short(measurements, owner, shares)


def _computing(measurements: Measurements, run: MeasuredRun, owner: CallPath) -> FloatArray:
    """Seconds that each rank computes in a function and its library functions, (p,)."""
    calls = measurements.file_calls | measurements.device_calls
    paths = [
        path
        for path in measurements.members[owner]
        if not is_mpi(path) and path not in calls and not is_start_up(path)
    ]
    return exclusive_times(run, paths)


def _is_blocked(run: MeasuredRun, total: FloatArray) -> bool:
    """Whether ranks sleep or wait for files for much of the time that they seem to compute."""
    program = next(path for path in run.rows if path.parent is None)
    blocked = run.vector(program, BLOCKED_TIME.name)
    return float(np.median(blocked)) > MOST_BLOCKED * float(np.median(total))


def _is_growing(p: FloatArray, ratios: FloatArray) -> bool:
    """Whether the time of a function, relative to that of others, (n_scales,), grows with p."""
    middle = len(p) // 2
    has_grown = ratios[-1] >= LEAST_RATIO * ratios[0]
    has_grown = has_grown and ratios[-2] >= WITHOUT_LARGEST * ratios[0]
    if not has_grown or ratios[-1] < STILL_GROWING * ratios[middle]:
        return False
    log_p, log_ratios = np.log(p), np.log(ratios)
    slope, constant = np.polyfit(log_p, log_ratios, 1).tolist()
    residuals = log_ratios - (slope * log_p + constant)
    variance = float(residuals @ residuals) / (len(p) - 2)
    error = float(np.sqrt(variance / np.sum((log_p - log_p.mean()) ** 2)))
    return bool(slope - error > LEAST_EXPONENT)


def _statement(measurements: Measurements, owner: CallPath, shares: FloatArray) -> Statement:
    text = _text(measurements, shares)
    return Statement(
        kind="compute",
        status=UNCLEAR,
        text=f"{text} (ranks lacked cores: how long it would take is unknown)",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=TIME_EXCLUSIVE.name,
        severity=float(shares[-1]),
        run=f"{_at(measurements, -1)} on as many free cores",
    )


def _too_short(measurements: Measurements, owner: CallPath, shares: FloatArray) -> Statement:
    return Statement(
        kind="time",
        status=NOT_JUDGED,
        text=f"{_text(measurements, shares)}; too little time to tell",
        callpath=str(owner),
        where=measurements.where(owner),
        run=f"{_at(measurements, -1)} with more work in each rank",
    )


def _text(measurements: Measurements, shares: FloatArray) -> str:
    then = f"{percent(shares[-1])} at {_at(measurements, -1)}"
    text = f"takes {percent(shares[0])} of a rank's computing at {_at(measurements, 0)} and {then}"
    return f"{text}, while its visits do not grow"


def _at(measurements: Measurements, scale: int) -> str:
    return at_text(RANKS, float(measurements.p[scale]))
