"""A rank whose sampled functions take far more processor time than those of all others.

Samples count processor time, whether ranks share cores or not. On two scales, the same rank cannot
have many more of them than every other one by chance. On shared cores, late samples of a short
function may fall into the one after it (`Measurements.has_late_samples`). So a statement gives
samples, no load balance, and only the function with the largest difference counts.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import (
    POLLING,
    MeasuredRun,
    Measurements,
    is_mpi,
)
from insitu.analysis.diagnosis.slow_ranks import LEAST_SHARE, name_slowest
from insitu.analysis.diagnosis.statements import Statement
from insitu.analysis.diagnosis.times import exclusive_times, imbalance_statement
from insitu.entities import RANKS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

N_SCALES = 2  # the largest ones, above two ranks
LEAST_RATIO = 1.5  # of the slowest rank to the second
LEAST_SIGMA = 5.0  # by which their numbers of samples differ


def find_slow_samples(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions in which one rank has more samples than all others at the two largest scales."""
    scales = [i for i, p in enumerate(measurements.p) if p > 2][-N_SCALES:]
    if len(scales) < N_SCALES:
        return
    groups = [measurements.groups[i] for i in scales]
    sampled = {
        owner: [path for path in members if measurements.is_sampled(path)]
        for owner, members in measurements.members.items()
        if owner.parent is not None and not is_mpi(owner)
    }
    medians = {
        owner: [_median(group, paths) for group in groups]
        for owner, paths in sampled.items()
        if paths
    }
    work = [
        sum(float(vector.mean()) for vector in at) for at in zip(*medians.values(), strict=True)
    ]
    polling = [path for path in measurements.callpaths if path.name.startswith(POLLING)]
    slowest: dict[str, Statement] = {}
    for owner, times in medians.items():
        if any(path.is_within(owner) for path in polling):
            continue
        who = name_slowest(times)
        excesses = [float(vector.max() - vector.mean()) for vector in times]
        pairs = zip(excesses, work, strict=True)
        is_large = all(excess >= LEAST_SHARE * seconds > 0 for excess, seconds in pairs)
        are_apart = all(map(_is_apart, times, groups))
        if not (who and is_large and are_apart):
            continue
        statement = imbalance_statement(
            measurements, owner, times[-1], excesses[-1], baseline, is_counted=False, who=who
        )
        statement = replace(statement, text=_text(statement, times[-1], groups))
        if who not in slowest or excesses[-1] > (slowest[who].seconds or 0.0):
            slowest[who] = statement
    yield from slowest.values()


def _text(statement: Statement, times: FloatArray, groups: list[tuple[MeasuredRun, ...]]) -> str:
    """What was counted, of the slowest rank and of the second."""
    interval = max(run.sampling_s for run in groups[-1])
    second, first = np.round(np.sort(times)[-2:] / interval).astype(int).tolist()
    before, last = (at_text(RANKS, group[0].size) for group in groups)
    return (
        f"{statement.ranks} has {first:,} samples of {statement.short_name}, no other rank more"
        f" than {second:,}, at {last}, and is the slowest at {before}, too:"
        f" {quantity(statement.seconds or 0.0, 's')} more processor time than the mean"
    )


def _median(group: tuple[MeasuredRun, ...], paths: list[CallPath]) -> FloatArray:
    """The median over repetitions of the processor time of each rank, (p,)."""
    median: FloatArray = np.median([exclusive_times(run, paths) for run in group], axis=0)
    return median


def _is_apart(times: FloatArray, group: tuple[MeasuredRun, ...]) -> bool:
    """Whether one rank has more samples than any other, not by chance."""
    interval = max(run.sampling_s for run in group)
    second, first = np.sort(times)[-2:].tolist()
    if interval <= 0 or first < LEAST_RATIO * second:
        return False
    # Numbers of samples have a Poisson distribution at most.
    return bool(first - second >= LEAST_SIGMA * np.sqrt((first + second) * interval))
