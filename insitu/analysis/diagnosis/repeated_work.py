"""Work that every rank repeats, in a program that shares the rest of its work among ranks."""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text, lowest_price
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi, is_start_up
from insitu.analysis.diagnosis.statements import WARNING, Statement
from insitu.entities import RANKS, VISITS, CallPath
from insitu.modeling.measurement import FloatArray
from insitu.units import percent, quantity

LEAST_SCALES = 4
LEAST_SHARE = 0.1  # of the counted work of a rank at the largest scale
SHARED_WITHIN = 0.05  # relative range of the visits of all ranks together that are shared
FEWER = 0.75  # times the visits of the slowest rank at the smallest scale
LEAST_VISITS = 100.0  # fewer are steps of a loop, whose time shrinks with what they contain
STEADY_PRICE = 0.6  # time of a visit at the largest scale, against the median over scales
LEAST_SHARED = 0.2  # of the counted work of a rank at the smallest scale


def find_repeated_work(measurements: Measurements) -> Iterator[Statement]:
    """Functions that each rank visits equally often at all scales, while other visits are shared.

    The work is visits times the least time of a visit at each scale, which hardly depends on how
    busy the cores are.
    """
    if len(measurements.p) < LEAST_SCALES:
        return
    visits: dict[CallPath, FloatArray] = {}
    work: dict[CallPath, FloatArray] = {}
    for path in measurements.callpaths:
        if path.parent is None or is_mpi(path) or is_start_up(path):
            continue
        series = measurements.series([path], VISITS.name)
        prices = np.array([lowest_price(group, path) for group in measurements.groups])
        visits[path] = series.statistic(np.mean)
        work[path] = visits[path] * prices

    first, total = (float(sum(seconds[i] for seconds in work.values())) for i in (0, -1))
    shared = sum(
        float(work[path][0])
        for path, counts in visits.items()
        if _is_shared(measurements, path, counts)
    )
    if total <= 0 or shared < LEAST_SHARED * first:
        return
    for path, counts in visits.items():
        is_same = measurements.series([path], VISITS.name).is_uniform and np.ptp(counts) == 0
        share = float(work[path][-1]) / total
        is_steady = work[path][-1] >= STEADY_PRICE * float(np.median(work[path]))
        if is_same and is_steady and counts[0] >= LEAST_VISITS and share >= LEAST_SHARE:
            seconds = float(work[path][-1])
            yield _statement(measurements, path, float(counts[0]), share, seconds)


def _is_shared(measurements: Measurements, path: CallPath, counts: FloatArray) -> bool:
    """Whether all ranks together make as many visits at all scales, and each rank fewer."""
    together = counts * measurements.p
    largest = measurements.series([path], VISITS.name).statistic(np.max)
    is_same = np.ptp(together) <= SHARED_WITHIN * together.max()
    return bool(counts[-1] >= 1 and is_same and largest[-1] <= FEWER * largest[0])


def _statement(
    measurements: Measurements, path: CallPath, count: float, share: float, seconds: float
) -> Statement:
    owner = measurements.owners[path]
    largest = float(measurements.p[-1])
    return Statement(
        kind="compute",
        status=WARNING,
        text=f"each rank visits {short_name(path.name)} {quantity_text(count, '1')} times at every"
        f" p, while other work is shared: {percent(share)} of the computing at"
        f" {at_text(RANKS, largest)}, {quantity(seconds, 's')} that more ranks do not save",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks="all",
        metric=VISITS.name,
        unit="1",
        law=quantity_text(count, "1"),
        now=count,
        then=count,
        severity=min(share, 0.99),
        seconds=seconds,
    )
