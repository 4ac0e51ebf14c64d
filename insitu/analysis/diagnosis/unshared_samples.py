"""Work of sampled functions that ranks share only in part: the rest is repeated by each.

A loop over all elements that skips those of others takes as long on any number of ranks. Samples
count processor time, which shared cores hardly change, but not visits: a rank's time falls as
a + b / p, where a is repeated by each rank and b is shared. Where ranks share the work of another
function, all of it may be repeated.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.entities import RANKS, TIME_EXCLUSIVE, CallPath, is_start_up
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

LEAST_SCALES = 4
LEAST_SAMPLES = 40.0  # in all ranks together: right within a third, at 2 sigma
LEAST_SHARED = 0.2  # of the sampled time of a rank at the smallest scale, in shared functions
MOST_ALONE = 0.4  # of the time of all ranks, on one of them: others share it
SHARED = 0.5  # times the time of a rank at the smallest scale: some of the work is shared
LEAST_REPEATED = 0.3  # of a rank's time at the largest scale, at least, that is repeated
LEAST_SHARE = 0.1  # of all sampled time at the largest scale
DEVIATION = 0.05  # of sampled times, besides chance: ranks that share a core lose its cache
SIGMAS = 2.0


def find_unshared_samples(measurements: Measurements) -> Iterator[Statement]:
    """Functions of which each rank repeats much of the work at the largest scale.

    How much, and why, is not certain: a surface that shrinks more slowly than a volume, or a cache
    that is used less well, look alike.
    """
    if len(measurements.p) < LEAST_SCALES or not measurements.has_samples:
        return
    interval_s = max(run.sampling_s for run in measurements.runs)
    times: dict[CallPath, FloatArray] = {}
    for owner, members in measurements.members.items():
        own = [path for path in members if not is_mpi(path) and not is_start_up(path)]
        is_work = own and all(map(measurements.is_sampled, own))
        if is_work and not measurements.polling.intersection(own):
            times[owner] = measurements.series(own, TIME_EXCLUSIVE.name).statistic(np.mean)

    first, total = (sum(float(seconds[i]) for seconds in times.values()) for i in (0, -1))
    shared = sum(
        float(seconds[0])
        for owner, seconds in times.items()
        if _is_shared(measurements, owner, seconds, interval_s)
    )
    has_shared = shared >= LEAST_SHARED * first and not measurements.has_late_samples
    for owner, seconds in times.items():
        repeated = _repeated(measurements.p, seconds, interval_s, has_shared=has_shared)
        is_large = seconds[-1] > 0 and seconds[-1] >= LEAST_SHARE * total
        if is_large and repeated >= LEAST_REPEATED * seconds[-1]:
            yield _statement(measurements, owner, seconds, repeated)


def _is_shared(
    measurements: Measurements, owner: CallPath, seconds: FloatArray, interval_s: float
) -> bool:
    """Whether the mean time of a rank, (n_scales,), certainly falls, and not for want of work on
    all ranks but one."""
    p = measurements.p
    if interval_s <= 0:
        return False
    doubt = SIGMAS * np.sqrt(interval_s * seconds / p)
    own = [path for path in measurements.members[owner] if measurements.is_sampled(path)]
    most = float(measurements.series(own, TIME_EXCLUSIVE.name).statistic(np.max)[-1])
    is_falling = seconds[-1] + doubt[-1] <= SHARED * (seconds[0] - doubt[0])
    return bool(is_falling and 0 < most <= MOST_ALONE * float(seconds[-1] * p[-1]))


def _repeated(p: FloatArray, seconds: FloatArray, interval_s: float, *, has_shared: bool) -> float:
    """The least time that each rank repeats, of the mean time of a rank, (n_scales,); 0: unknown.

    That of all ranks together is a p + b: least squares, weighted by chance and by deviations.
    Where all of a function seems to be repeated, other functions must show that work is shared.
    """
    together = seconds * p
    is_shared_in_part = seconds[-1] <= SHARED * seconds[0]
    known = together if is_shared_in_part else together[-1:]
    if interval_s <= 0 or np.any(known < LEAST_SAMPLES * interval_s):
        return 0.0
    if not (is_shared_in_part or has_shared):
        return 0.0
    variances = interval_s * np.maximum(together, interval_s) + (DEVIATION * together) ** 2
    design = np.stack([p, np.ones(len(p))], axis=1) / np.sqrt(variances)[:, None]
    covariance = np.linalg.inv(design.T @ design)
    a, b = covariance @ design.T @ (together / np.sqrt(variances))
    is_open = is_shared_in_part and b <= 0
    return 0.0 if is_open else float(a - SIGMAS * np.sqrt(covariance[0, 0]))


def _statement(
    measurements: Measurements, owner: CallPath, seconds: FloatArray, repeated: float
) -> Statement:
    """The statement about a function."""
    p = measurements.p
    first, last = (f"{quantity(float(seconds[i]), 's')} at {at_text(RANKS, p[i])}" for i in (0, -1))
    shared = quantity(float(seconds[0] * p[0] / p[-1]), "s")
    return Statement(
        kind="compute",
        status=UNCLEAR,
        text=f"takes {first} and {last} of a rank's processor time, not {shared} as shared work"
        f" would: each rank seems to repeat {quantity(repeated, 's')} or more of it",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=TIME_EXCLUSIVE.name,
        unit="s",
        now=float(seconds[-1]),
        severity=min(repeated / float(seconds[-1]), 0.99),
        seconds=repeated,
    )
