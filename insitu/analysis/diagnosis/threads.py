"""Threads that a function starts more of on more ranks, such as one for each other rank."""

from collections.abc import Iterator

from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.measurements import THREAD, Measurements
from insitu.entities import VISITS

START_S = 1e-5  # seconds to start a thread and to wait for its end, on Linux at least


def started_threads(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Functions of which each rank starts more threads, with the threads of library functions.

    A container that grows while it starts a thread is a caller of its own.
    """
    for owner, members in measurements.members.items():
        threads = [path for path in members if path.name == THREAD]
        if not threads:
            continue
        series = measurements.series(threads, VISITS.name)
        growth = find_growth(measurements.p, series, target)
        if growth.law is not None and growth.is_growing and growth.has_same_order:
            yield Limit(
                kind="compute",
                path=owner,
                metric=VISITS.name,
                unit="1",
                growth=growth,
                cost=cost_at_price(growth, START_S, measurements.p, target),
                is_once=is_once(measurements, owner),
                subject="starts {} threads",
                detail=threads[0],
                includes=tuple(threads[1:]),
                is_lower_bound=True,
            )
