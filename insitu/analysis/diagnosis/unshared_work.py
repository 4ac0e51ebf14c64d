"""Work that more ranks do not save, in a program that shares the rest of its work among ranks.

Either every rank repeats it, or one rank does it for all (the serial part of Amdahl's law).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text, least_work, lowest_price
from insitu.analysis.diagnosis.laws import RELATIVE_HEAP, find_laws, quantity_text
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.analysis.diagnosis.statements import WARNING, Statement
from insitu.entities import BYTES_ALLOCATED, RANKS, VISITS, CallPath, is_start_up
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity

LEAST_SCALES = 4
LEAST_SHARE = 0.1  # of the counted work of a rank at the largest scale
SHARED_WITHIN = 0.05  # relative range of the visits of all ranks together that are shared
FEWER = 0.75  # times the visits of the slowest rank at the smallest scale
LEAST_VISITS = 100.0  # fewer are steps of a loop, whose time shrinks with what they contain
STEADY_PRICE = 0.6  # time of a visit at the largest scale, against the median over scales
SHARED_ARRAYS = 1.3  # bytes of all ranks at the largest scale, against the smallest: ghost cells
SAME_ARRAYS = 0.01  # relative range of bytes that a function allocates at all scales
LEAST_ARRAYS = 1e6  # bytes that a function allocates: fewer are no data that work is about
LEAST_SHARED = 0.2  # of the counted work of a rank at the smallest scale


def find_unshared_work(
    measurements: Measurements, *, is_strong: bool = False
) -> Iterator[Statement]:
    """Functions that each rank, or one rank for all, visits equally often at all scales, while
    other visits are shared.

    The work is that of `least_work`.

    Args:
        measurements: all runs.
        is_strong: the user says that the total work stays, so other work is shared. Where no
            count shows that, only functions about the same arrays are named.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    visits: dict[CallPath, FloatArray] = {}
    work: dict[CallPath, FloatArray] = {}
    for path in measurements.callpaths:
        if path.parent is None or is_mpi(path) or is_start_up(path):
            continue
        visits[path] = measurements.series([path], VISITS.name).statistic(np.mean)
        work[path] = least_work(measurements, path)

    first, total = (float(sum(seconds[i] for seconds in work.values())) for i in (0, -1))
    shared = sum(
        float(work[path][0])
        for path, counts in visits.items()
        if _is_shared(measurements, path, counts) or _has_shared_arrays(measurements, path)
    )
    is_shared = shared >= LEAST_SHARED * first
    if total <= 0 or not (is_shared or is_strong):
        return
    if is_shared:
        yield from _serial_work(measurements, total)
    for path, counts in visits.items():
        is_same = measurements.series([path], VISITS.name).is_uniform and np.ptp(counts) == 0
        # Many visits may be steps of the very loops that share the work, by what they contain.
        is_same = is_same and (is_shared or _has_same_arrays(measurements, path))
        is_same = is_same and _is_repeated(measurements, path, counts)
        is_same = is_same and (counts[0] >= LEAST_VISITS or not _opens_files(measurements, path))
        share = float(work[path][-1]) / total
        is_steady = work[path][-1] >= STEADY_PRICE * float(np.median(work[path]))
        if is_same and is_steady and share >= LEAST_SHARE:
            seconds = float(work[path][-1])
            owner = measurements.owners[path]
            count = float(counts[0])
            yield _statement(measurements, path, count, share, seconds=seconds, owner=owner)


def _serial_work(measurements: Measurements, total: float) -> Iterator[Statement]:
    """Functions that only one rank visits, as often at all scales.

    Args:
        measurements: all runs.
        total: seconds of counted work of a mean rank at the largest scale.
    """
    alone = {}
    for path in measurements.callpaths:
        if path.parent is not None and not is_mpi(path) and not is_start_up(path):
            rank = find_only_rank(measurements.series([path], VISITS.name))
            if rank is not None:
                alone[path] = rank

    seconds_alone, unsaved = _price_alone(measurements, alone)
    # The mean over ranks has a part of the lone ranks' work already.
    fewer = 1 - 1 / float(measurements.p[-1])
    together = {
        rank: total + fewer * sum(seconds_alone[path] for path in alone if alone[path] == rank)
        for rank in alone.values()
    }
    by_cause: dict[tuple[CallPath, int], list[CallPath]] = {}
    for path in unsaved:
        owner = measurements.owners[path]
        while owner.parent is not None and alone.get(owner.parent) == alone[path]:
            owner = measurements.owners[owner.parent]
        by_cause.setdefault((owner, alone[path]), []).append(path)

    for (owner, rank), paths in by_cause.items():
        seconds = sum(seconds_alone[path] for path in paths)
        share = seconds / together[rank]
        if share < LEAST_SHARE:
            continue
        most = max(paths, key=lambda path: seconds_alone[path])
        count = float(measurements.series([most], VISITS.name).statistic(np.max)[0])
        statement = _statement(
            measurements, most, count, share, seconds=seconds, owner=owner, rank=rank
        )
        if len(paths) > 1:
            text = _functions_text(owner, share, seconds, rank, p=float(measurements.p[-1]))
            statement = replace(statement, text=text)
        yield statement


def _price_alone(
    measurements: Measurements, alone: dict[CallPath, int]
) -> tuple[dict[CallPath, float], list[CallPath]]:
    """Seconds of each function at the largest scale, and the functions that repeat their work."""
    seconds_alone: dict[CallPath, float] = {}
    unsaved = []
    for path in alone:
        counts = measurements.series([path], VISITS.name).statistic(np.max)
        prices = [lowest_price(group, path) for group in measurements.groups]
        seconds_alone[path] = float(counts[-1]) * prices[-1]
        # One rank that shares its core has no steady prices: the least of the smaller scales.
        is_steady = prices[-1] >= STEADY_PRICE * min(prices[: len(prices) // 2])
        is_repeated = np.ptp(counts) == 0 and _is_repeated(measurements, path, counts)
        if is_repeated and is_steady:
            unsaved.append(path)
    return seconds_alone, unsaved


def _functions_text(owner: CallPath, share: float, seconds: float, rank: int, *, p: float) -> str:
    """The sentence about several functions that one rank visits for the same caller."""
    return (
        f"rank {rank} alone does the work of {short_name(owner.name)}, as much at every p, while"
        f" other work is shared: {percent(share)} of its computing at {at_text(RANKS, p)},"
        f" {quantity(seconds, 's')} that more ranks do not save"
    )


def find_only_rank(series: RankSeries) -> int | None:
    """The only rank that has values, the same at all scales; None if there is none."""
    ranks = set()
    for group in series.vectors:
        for vector in group:
            ranks.update(np.flatnonzero(vector).tolist() or [-1])
    return ranks.pop() if len(ranks) == 1 and -1 not in ranks else None


def _is_shared(measurements: Measurements, path: CallPath, counts: FloatArray) -> bool:
    """Whether all ranks together make as many visits at all scales, and each rank fewer."""
    together = counts * measurements.p
    largest = measurements.series([path], VISITS.name).statistic(np.max)
    is_same = np.ptp(together) <= SHARED_WITHIN * together.max()
    return bool(counts[-1] >= 1 and is_same and largest[-1] <= FEWER * largest[0])


def _has_shared_arrays(measurements: Measurements, path: CallPath) -> bool:
    """Whether all ranks together allocate as much in a function at all scales, besides a part that
    each of them has, and each rank less, in as many visits: its arrays are shared."""
    allocated = measurements.series([path], BYTES_ALLOCATED.name)
    together, largest = allocated.statistic(np.sum), allocated.statistic(np.max)
    visits = measurements.series([path], VISITS.name)
    is_large = bool(np.all(largest >= LEAST_ARRAYS)) and visits.is_uniform
    if not is_large or largest[-1] > FEWER * largest[0]:
        return False
    if together.max() <= SHARED_ARRAYS * together[0]:
        return True
    laws = find_laws(measurements.p, largest, RELATIVE_HEAP)
    factor = laws[0].single_factor if laws else None
    if factor is None or factor.term is None or factor.term.name != "p^(-1)":
        return False
    return factor.constant <= (1 - FEWER) * float(largest[0])


def _is_repeated(measurements: Measurements, path: CallPath, counts: FloatArray) -> bool:
    """Whether as many visits, (n_scales,), are as much work: few about the same arrays, or many,
    unless their arrays are ever smaller."""
    if counts[0] >= LEAST_VISITS:
        return not _has_smaller_arrays(measurements, path)
    return _has_same_arrays(measurements, path)


def _has_smaller_arrays(measurements: Measurements, path: CallPath) -> bool:
    """Whether a function allocates less at each larger scale: its work is about a share of data.

    Where ranks share cores, or for a few elements only, its time does not show that.
    """
    means = measurements.series([path], BYTES_ALLOCATED.name).statistic(np.mean)
    is_smaller = bool(np.all(np.diff(means) < 0)) and means[-1] <= FEWER * means[0]
    return is_smaller and bool(means[0] >= LEAST_ARRAYS and means[-1] > 0)


def _opens_files(measurements: Measurements, path: CallPath) -> bool:
    """Whether a function opens files, as the import of a module does when it is first used."""
    return any(call.is_within(path) for call in measurements.file_calls)


def _has_same_arrays(measurements: Measurements, path: CallPath) -> bool:
    """Whether a function allocates as much at all scales: its work is about the same data."""
    largest = measurements.series([path], BYTES_ALLOCATED.name).statistic(np.max)
    return bool(largest.min() >= LEAST_ARRAYS and np.ptp(largest) <= SAME_ARRAYS * largest.max())


def _times(count: float) -> str:
    return "once" if count == 1.0 else f"{quantity_text(count, '1')} times"


def _statement(
    measurements: Measurements,
    path: CallPath,
    count: float,
    share: float,
    *,
    seconds: float,
    owner: CallPath,
    rank: int | None = None,
) -> Statement:
    """The statement about the work of all ranks, or of one."""
    largest = float(measurements.p[-1])
    actor = "each rank" if rank is None else f"rank {rank} alone"
    whose = "the" if rank is None else "its"
    return Statement(
        kind="compute" if rank is None else "serial",
        status=WARNING,
        text=f"{actor} visits {short_name(path.name)} {_times(count)} at every p, while other work"
        f" is shared: {percent(share)} of {whose} computing at {at_text(RANKS, largest)},"
        f" {quantity(seconds, 's')} that more ranks do not save",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all" if rank is None else f"rank {rank}",
        metric=VISITS.name,
        unit="1",
        law=quantity_text(count, "1"),
        now=count,
        then=count,
        severity=min(share, 0.99),
        seconds=seconds,
    )
