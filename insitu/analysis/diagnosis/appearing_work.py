"""Work that small runs do not have: sampled functions with few samples there, and functions that
only the largest run visits.

Work that grows as p^2 or faster is a part of a sampling interval at first. Without a value there,
no model has enough points, and its law is not known. Nor is that of work that begins when some
buffer, table or tolerance no longer suffices.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text, least_work, sampled_work
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.measurements import THREAD, Measurements, is_mpi
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.analysis.diagnosis.times import SAME_IN_ALL, find_growing_times, has_more_samples
from insitu.entities import RANKS, TIME_EXCLUSIVE, VISITS, CallPath, is_start_up
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray
from insitu.modeling.sampling import MIN_SAMPLES
from insitu.units import percent, quantity

LEAST_SCALES = 4
LEAST_SAMPLES = 40.0  # in all ranks of the larger half of the scales
LEAST_SHARE = 0.1  # of all sampled time at the largest scale, or of all counted work
LEAST_VISITS = 100.0  # fewer are no loop that began


def find_growing_work(
    measurements: Measurements, models: ModelSet, baseline: Baseline, target: float
) -> Iterator[Statement]:
    """Functions whose modelled time grows, and those of which small runs have no sample."""
    named = set()
    for statement in find_growing_times(measurements, models, baseline, target):
        named.add(statement.callpath)
        yield statement
    for statement in _find_appearing_work(measurements, baseline):
        if statement.callpath not in named:
            yield statement
    yield from _find_appearing_visits(measurements)


def _find_appearing_visits(measurements: Measurements) -> Iterator[Statement]:
    """Functions that only the largest scale visits, many times, and that take much of its work.

    Of functions that call each other, the outermost is named.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    seconds: dict[CallPath, float] = {}
    appearing: dict[CallPath, float] = {}  # visits of the slowest rank
    for path in measurements.callpaths:
        if path.parent is None or is_mpi(path) or is_start_up(path):
            continue
        seconds[path] = float(least_work(measurements, path)[-1])
        visits = measurements.series([path], VISITS.name).statistic(np.max)
        if not visits[:-1].any() and visits[-1] >= LEAST_VISITS:
            appearing[path] = float(visits[-1])

    total = sum(seconds.values())
    for path, count in appearing.items():
        is_inner = any(path != outer and path.is_within(outer) for outer in appearing)
        inside = sum(spent for at, spent in seconds.items() if at.is_within(path))
        if not is_inner and total > 0 and inside >= LEAST_SHARE * total:
            yield _statement_of_visits(measurements, path, count, inside, inside / total)


def _statement_of_visits(
    measurements: Measurements, path: CallPath, count: float, seconds: float, share: float
) -> Statement:
    largest, before = (float(measurements.p[i]) for i in (-1, -2))
    owner = measurements.owners[path]
    return Statement(
        kind="compute",
        status=UNCLEAR,
        text=f"visits {short_name(path.name)} {quantity_text(count, '1')} times at"
        f" {at_text(RANKS, largest)}, {percent(share)} of a rank's computing, and never up to"
        f" {at_text(RANKS, before)}: how fast it grows is unknown",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=VISITS.name,
        unit="1",
        now=count,
        severity=min(share, 0.99),
        seconds=seconds,
        run=next_scale(measurements.p, 2.0),
    )


def _find_appearing_work(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions with hardly a sample in the smaller half of the scales, and more than chance gives
    in the larger half: in all ranks together where these share the work, else in each."""
    p = measurements.p
    if len(p) < LEAST_SCALES or not measurements.has_samples or baseline.scaling == "mixed":
        return
    interval_s = max(run.sampling_s for run in measurements.runs)
    ranks = np.ones(len(p)) if baseline.scaling == "strong" else p
    of_all = sampled_work(measurements)
    if of_all is None:
        return
    in_all = of_all / ranks
    larger = len(p) // 2
    for owner, members in measurements.members.items():
        own = _sampled(measurements, members)
        if not own:
            continue
        together = measurements.series(own, TIME_EXCLUSIVE.name).statistic(np.sum)
        if together[:larger].any() or together[larger:].sum() < LEAST_SAMPLES * interval_s:
            continue
        work = together / ranks
        is_largest = work[-1] == work.max() and work[-1] >= LEAST_SHARE * in_all[-1]
        # Otherwise these may be the samples of another function, which ran before.
        is_more = in_all[-1] - in_all[:larger].max() >= SAME_IN_ALL * work[-1]
        hidden = _hidden_samples(measurements, owner, interval_s)
        hidden[larger:] = 0.0
        is_more = is_more and work[-1] - (hidden / ranks).max() >= SAME_IN_ALL * work[-1]
        is_more = is_more and has_more_samples(measurements, own, ranks / p, hidden)
        if is_largest and is_more:
            share = float(work[-1] / in_all[-1])
            yield _statement(measurements, owner, float(together[-1] / p[-1]), share)


def _hidden_samples(measurements: Measurements, owner: CallPath, interval_s: float) -> FloatArray:
    """How much of a function may stand below its callers at each scale, in seconds, (n_scales,).

    Where it has few samples in all ranks of a run, these count for its callers, which may poll.
    """
    callers = [CallPath(owner.frames[:end]) for end in range(2, len(owner.frames))]
    sampled = [path for path in callers if measurements.is_sampled(path)]
    of_callers = measurements.series(sampled, TIME_EXCLUSIVE.name).statistic(np.sum)
    return np.minimum(of_callers, (MIN_SAMPLES - 1) * interval_s)


def _sampled(measurements: Measurements, members: list[CallPath]) -> list[CallPath]:
    """The call paths of a function whose samples are its work; none if it polls or has visits.

    Helper threads have as many samples as they get time on shared cores.
    """
    own = [path for path in members if not is_mpi(path) and not is_start_up(path)]
    is_of_thread = any(frame.startswith(THREAD) for path in own for frame in path.frames)
    is_polling = bool(measurements.polling.intersection(own))
    if is_of_thread or is_polling or not all(map(measurements.is_sampled, own)):
        return []
    return own


def _statement(
    measurements: Measurements, owner: CallPath, seconds: float, share: float
) -> Statement:
    p = measurements.p
    largest, last = at_text(RANKS, float(p[-1])), at_text(RANKS, float(p[len(p) // 2 - 1]))
    return Statement(
        kind="compute",
        status=UNCLEAR,
        text=f"takes {quantity(seconds, 's')} of a rank's processor time at {largest},"
        f" {percent(share)} of all, and fewer than {MIN_SAMPLES} samples of all ranks up to {last}:"
        " how fast it grows is unknown",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=TIME_EXCLUSIVE.name,
        unit="s",
        now=seconds,
        severity=min(share, 0.99),
        run=f"{largest} with more work in each rank",
    )
