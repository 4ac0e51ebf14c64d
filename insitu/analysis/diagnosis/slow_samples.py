"""A rank whose sampled functions take far more processor time than those of all others.

Samples count processor time, whether ranks share cores or not. On two scales, the same rank cannot
have many more of them than every other one by chance. Few samples are judged together: on three
scales, the same rank has most, and more than the others differ among themselves. On shared cores,
late samples of a short function may fall into the one after it (`Measurements.has_late_samples`).
So a statement gives samples, no load balance, and only the function with the largest difference
counts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import (
    POLLING,
    MeasuredRun,
    Measurements,
    is_mpi,
)
from insitu.analysis.diagnosis.slow_ranks import LEAST_SHARE, name_slowest
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.analysis.diagnosis.times import exclusive_times, imbalance_statement
from insitu.entities import RANKS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

N_SCALES = 2  # the largest ones, above two ranks
N_TOGETHER = 3  # likewise, of which few samples are judged together
LEAST_RATIO = 1.5  # of the slowest rank to the second
LEAST_SIGMA = 5.0  # by which their numbers of samples differ
SIGMA_TOGETHER = 4.0  # by which the slowest rank differs from the mean of the others
# Of the slowest rank at each scale: one or two that fall on the same rank three times are chance.
LEAST_TOGETHER = 5


@dataclass(frozen=True, slots=True)
class SampledScales:
    """What is sampled at some scales.

    Attributes:
        groups: the runs of each.
        times: for each function the processor time of each rank at each of them, (p,).
        work: of a mean rank in all functions, at each of them.
    """

    groups: list[tuple[MeasuredRun, ...]]
    times: Mapping[CallPath, list[FloatArray]]
    work: list[float]

    def last(self, count: int) -> "SampledScales":
        """The largest of them."""
        times = {owner: vectors[-count:] for owner, vectors in self.times.items()}
        return SampledScales(self.groups[-count:], times, self.work[-count:])


def find_slow_samples(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions in which one rank has more samples than all others at the largest scales."""
    are_sampled = [any(run.sampling_s > 0 for run in group) for group in measurements.groups]
    indices = [i for i, p in enumerate(measurements.p) if p > 2 and are_sampled[i]][-N_TOGETHER:]
    if len(indices) < N_SCALES:
        return
    scales = gather_scales(measurements, [measurements.groups[i] for i in indices])
    slowest: dict[str, Statement] = {}
    for statement in _find_slowest(measurements, baseline, scales.last(N_SCALES), _are_apart):
        slowest[str(statement.ranks)] = statement
    if len(indices) == N_TOGETHER:
        for statement in _find_slowest(measurements, baseline, scales, _differ_together):
            run = f"{at_text(RANKS, measurements.p[-1])} for longer"
            doubtful = replace(statement, status=UNCLEAR, run=run)
            slowest.setdefault(str(statement.ranks), doubtful)
    yield from slowest.values()


def gather_scales(
    measurements: Measurements, groups: list[tuple[MeasuredRun, ...]]
) -> SampledScales:
    """The processor time of the sampled functions that do not poll."""
    polling = [path for path in measurements.callpaths if path.name.startswith(POLLING)]
    times = {}
    work = np.zeros(len(groups))
    for owner, members in measurements.members.items():
        paths = [path for path in members if measurements.is_sampled(path)]
        if owner.parent is None or is_mpi(owner) or not paths:
            continue
        vectors = [_median(group, paths) for group in groups]
        work += [float(vector.mean()) for vector in vectors]
        if not any(path.is_within(owner) for path in polling):
            times[owner] = vectors
    return SampledScales(groups, times, work.tolist())


def _find_slowest(
    measurements: Measurements,
    baseline: Baseline,
    scales: SampledScales,
    are_different: Callable[[list[FloatArray], list[tuple[MeasuredRun, ...]]], bool],
) -> Iterator[Statement]:
    """For each rank, or rule for its number, the function in which it takes most more than others.

    Args:
        measurements: all runs.
        baseline: the budget of time.
        scales: the scales at which it must be the slowest.
        are_different: whether its times differ from those of others.
    """
    slowest: dict[str, Statement] = {}
    for owner, times in scales.times.items():
        who = name_slowest(times)
        excesses = [float(vector.max() - vector.mean()) for vector in times]
        pairs = zip(excesses, scales.work, strict=True)
        is_large = all(excess >= LEAST_SHARE * seconds > 0 for excess, seconds in pairs)
        if not (who and is_large and are_different(times, scales.groups)):
            continue
        statement = imbalance_statement(
            measurements, owner, times[-1], excesses[-1], baseline, is_counted=False, who=who
        )
        statement = replace(statement, text=_text(statement, times[-1], scales.groups))
        if who not in slowest or excesses[-1] > (slowest[who].seconds or 0.0):
            slowest[who] = statement
    yield from slowest.values()


def _text(statement: Statement, times: FloatArray, groups: list[tuple[MeasuredRun, ...]]) -> str:
    """What was counted, of the slowest rank and of the second."""
    interval = max(run.sampling_s for run in groups[-1])
    second, first = np.round(np.sort(times)[-2:] / interval).astype(int).tolist()
    *_, before, last = (at_text(RANKS, group[0].size) for group in groups)
    return (
        f"{statement.ranks} has {first:,} samples of {statement.short_name}, no other rank more"
        f" than {second:,}, at {last}, and is the slowest at {before}, too:"
        f" {quantity(statement.seconds or 0.0, 's')} more processor time than the mean"
    )


def _median(group: tuple[MeasuredRun, ...], paths: list[CallPath]) -> FloatArray:
    """The median over repetitions of the processor time of each rank, (p,)."""
    median: FloatArray = np.median([exclusive_times(run, paths) for run in group], axis=0)
    return median


def _are_apart(times: list[FloatArray], groups: list[tuple[MeasuredRun, ...]]) -> bool:
    """Whether one rank has more samples than any other at each scale, not by chance."""
    for vector, group in zip(times, groups, strict=True):
        interval = max(run.sampling_s for run in group)
        second, first = np.sort(vector)[-2:].tolist()
        if first < LEAST_RATIO * second:
            return False
        # Numbers of samples have a Poisson distribution at most.
        if first - second < LEAST_SIGMA * np.sqrt((first + second) * interval):
            return False
    return True


def _differ_together(times: list[FloatArray], groups: list[tuple[MeasuredRun, ...]]) -> bool:
    """Whether one rank has more samples than the mean of the others at all scales together.

    Late samples make the others differ by more than chance.
    """
    second, first = np.sort(times[-1])[-2:].tolist()
    if first < LEAST_RATIO * second:
        return False
    excess, variance = 0.0, 0.0
    for vector, group in zip(times, groups, strict=True):
        interval = max(run.sampling_s for run in group)
        if vector.max() < LEAST_TOGETHER * interval:
            return False
        others = np.delete(vector, int(np.argmax(vector)))
        by_chance = float(others.mean()) * interval
        excess += float(vector.max() - others.mean())
        variance += max(by_chance, float(others.var(ddof=1)))
    return bool(variance > 0 and excess >= SIGMA_TOGETHER * np.sqrt(variance))
