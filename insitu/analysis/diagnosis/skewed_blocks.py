"""Work that a domain has in a part of it, while each rank owns a block of the same size.

Which blocks are expensive follows from the domain: the work of a rank is that of two ranks in a run
with twice as many. Where ranks share work as they have time, or the scheduler prefers some, that is
not so. Both samples of processor time and measured times are compared; of the latter on shared
cores, the statement is unclear.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import Baseline, at_text
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.slow_ranks import LEAST_SHARE
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.analysis.diagnosis.times import (
    LEAST_SECONDS,
    exclusive_times,
    imbalance_statement,
)
from insitu.entities import RANKS
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity

LEAST_RANKS = 3  # of a run that is compared: any two halves look alike
LEAST_RATIO = 1.5  # of the slowest rank to the mean, at the largest scale
LEAST_TOTAL_RATIO = 1.2  # the same of all functions together, which may balance each other
LEAST_SKEW = 0.25  # share of the work that would have to move to other ranks
LARGEST_MISMATCH = 0.4  # of that: how much of the work is elsewhere in a run with more ranks
LEAST_SAMPLES = 20.0  # of a function in a run
CERTAIN_PAIRS = 2  # of runs that agree
MOST_OF_WORK = 0.8  # by this share of the work, the ranks that have most are named


def find_skewed_blocks(measurements: Measurements, baseline: Baseline) -> Iterator[Statement]:
    """Functions whose work is distributed over the ranks alike, as by the place in a domain."""
    pairs = _pairs(measurements.p)
    if not pairs:
        return

    times = {}
    for owner, members in measurements.members.items():
        if owner.parent is None or any(path in measurements.polling for path in members):
            continue
        paths = [path for path in members if not is_mpi(path)]
        times[owner] = [
            np.median([exclusive_times(run, paths) for run in group], axis=0)
            for group in measurements.groups
        ]
    if not times:
        return
    total = np.sum([vectors[-1] for vectors in times.values()], axis=0)
    if total.mean() <= 0 or total.max() < LEAST_TOTAL_RATIO * total.mean():
        return

    interval = max(run.sampling_s for run in measurements.runs)
    for owner, vectors in times.items():
        last = vectors[-1]
        excess = float(last.max() - last.mean())
        if last.max() < LEAST_RATIO * last.mean() or excess < LEAST_SHARE * total.mean():
            continue
        if excess < LEAST_SECONDS:
            continue
        is_sampled = measurements.is_sampled(owner)
        least = LEAST_SAMPLES * interval if is_sampled else 0.0
        n_alike = _count_alike(pairs, vectors, least)
        if n_alike < len(pairs):
            continue
        busy, share = _list_busy(last)
        if busy.startswith("rank "):  # which rules of their own are about
            continue
        statement = imbalance_statement(
            measurements, owner, last, excess, baseline, is_counted=False, who=busy
        )
        others = ", ".join(str(number) for number in _compared(measurements.p, pairs))
        text = f"{busy} have {percent(share)} of"
        text += f" {short_name(owner.name)}: load balance {percent(last.mean() / last.max())} at"
        text += f" {at_text(RANKS, len(last))}, {quantity(excess, 's')}; the same part of the ranks"
        statement = replace(statement, text=f"{text} has it at p = {others}")
        is_certain = n_alike >= CERTAIN_PAIRS and (is_sampled or not measurements.has_crowded)
        if not is_certain:
            more = at_text(RANKS, 2 * float(measurements.p[-1]))
            statement = replace(statement, status=UNCLEAR, run=more)
        yield statement


def _pairs(p: FloatArray) -> list[tuple[int, int]]:
    """The scales, by their index, of which the second has a multiple of the ranks of the first."""
    ranks = p.astype(int).tolist()
    return [
        (i, j)
        for i, fewer in enumerate(ranks)
        for j, more in enumerate(ranks)
        if LEAST_RANKS <= fewer < more and more % fewer == 0
    ]


def _count_alike(
    pairs: Sequence[tuple[int, int]], vectors: Sequence[FloatArray], least: float
) -> int:
    """How many pairs of runs have their work in the same blocks, which are few.

    Args:
        pairs: of indices of scales.
        vectors: seconds of all ranks at each scale, (p,).
        least: seconds that a run must have in all.
    """
    count = 0
    for few, many in pairs:
        before, after = vectors[few], vectors[many]
        if min(before.sum(), after.sum()) <= least:
            continue
        merged = after.reshape(len(before), -1).sum(axis=1)
        skew = min(_distance(before, np.ones(len(before))), _distance(after, np.ones(len(after))))
        if skew >= LEAST_SKEW and _distance(before, merged) <= LARGEST_MISMATCH * skew:
            count += 1
    return count


def _distance(first: FloatArray, second: FloatArray) -> float:
    """The share of all work that is on other ranks: half of the sum of absolute differences."""
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def _list_busy(vector: FloatArray) -> tuple[str, float]:
    """`ranks 3, 4`: the fewest that together have most of the work, and their share of it."""
    order = np.argsort(-vector, kind="stable")
    shares = np.cumsum(vector[order]) / vector.sum()
    n_busy = int(np.searchsorted(shares, MOST_OF_WORK)) + 1
    busy = np.sort(order[:n_busy]).tolist()
    noun = "rank" if n_busy == 1 else "ranks"
    return f"{noun} {', '.join(map(str, busy))}", float(shares[n_busy - 1])


def _compared(p: FloatArray, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The numbers of ranks that were compared, without the largest."""
    return sorted({int(p[i]) for pair in pairs for i in pair if i < len(p) - 1})
