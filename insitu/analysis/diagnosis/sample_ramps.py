"""Sampled functions whose work rises or falls from rank to rank.

As where each rank counts what all before it have, or takes consecutive rows of a triangle. One rank
is hardly slower than the next one, so that none of them has certainly more samples than another;
all ranks and scales together show it. On shared cores, late samples of a short function may fall
into the one after it (`Measurements.has_late_samples`), so that this is a doubt.
"""

from collections.abc import Iterator, Sequence

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements
from insitu.analysis.diagnosis.ramps import LEAST_RANKS, LEAST_SCALES, Ramp, find_ramp
from insitu.analysis.diagnosis.skewed_blocks import find_skewed_blocks
from insitu.analysis.diagnosis.slow_ranks import LAST_RANK, LEAST_SHARE
from insitu.analysis.diagnosis.slow_samples import gather_scales
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.entities import RANKS, TIME_EXCLUSIVE, CallPath, number
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity


def find_uneven_parts(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions whose work is in one part of the ranks, or else grows from rank to rank."""
    blocks = list(find_skewed_blocks(measurements, baseline))
    yield from blocks
    named = {entry.callpath for entry in blocks}
    for ramp in find_sampled_ramps(measurements, baseline):
        if ramp.callpath not in named:
            yield ramp


def find_sampled_ramps(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions that take ever more, or ever less, processor time from rank to rank."""
    are_sampled = [any(run.sampling_s > 0 for run in group) for group in measurements.groups]
    indices = [i for i, p in enumerate(measurements.p) if p >= LEAST_RANKS and are_sampled[i]]
    if len(indices) < LEAST_SCALES:
        return
    scales = gather_scales(measurements, [measurements.groups[i] for i in indices])
    for owner, times in scales.times.items():
        pairs = zip(times, scales.groups, strict=True)
        samples = [vector / _interval_s(group) for vector, group in pairs]
        ramp = find_ramp(samples)
        if ramp is None:
            continue
        excess = abs(ramp.slope) / 2 * float(times[-1].mean())
        if excess >= LEAST_SHARE * scales.work[-1]:
            yield _statement(measurements, baseline, owner, samples, ramp, excess=excess)


def _interval_s(group: tuple[MeasuredRun, ...]) -> float:
    return max(run.sampling_s for run in group)


def _statement(
    measurements: Measurements,
    baseline: Baseline,
    owner: CallPath,
    samples: Sequence[FloatArray],
    ramp: Ramp,
    *,
    excess: float,
) -> Statement:
    p = [len(vector) for vector in samples]
    first = round(sum(float(vector[: len(vector) // 2].sum()) for vector in samples))
    second = round(sum(float(vector[-(len(vector) // 2) :].sum()) for vector in samples))
    who = LAST_RANK if ramp.slope > 0 else "rank 0"
    name = short_name(owner.name)
    end = "the last rank" if who == LAST_RANK else who
    balance = percent(1 / (1 + abs(ramp.slope) / 2))
    return Statement(
        kind="imbalance",
        status=UNCLEAR,
        text=f"the first half of the ranks has {first:,} samples of {name} and the second half"
        f" {second:,}, on {number(p[0])} to {number(p[-1])} ranks together: a load balance of about"
        f" {balance}, {quantity(excess, 's')} more processor time than the mean on {end}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=who,
        metric=TIME_EXCLUSIVE.name,
        unit="s",
        severity=min(excess / baseline.budget_s(baseline.p, is_once=False), 0.99),
        seconds=excess,
        run=f"{at_text(RANKS, float(p[-1]))} for longer",
    )
