"""Library functions of Python that do more inside, in as many visits, the more ranks there are.

A copy of a structure that has a part for each rank is one visit of `copy.deepcopy`, and so is a
pattern that is compiled of the names of all ranks. What library functions call has no rows of its
own, but is counted.
"""

from collections.abc import Iterator

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import lowest_price
from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.entities import LIBRARY_CALLS, VISITS, is_start_up


def growing_library_calls(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Library functions inside which all ranks, or one, make more calls, by an exact law.

    Not of those that are visited more often, which are found by their visits.
    """
    if LIBRARY_CALLS.name not in measurements.metrics:
        return
    for path in measurements.callpaths:
        if is_start_up(path):
            continue
        calls = measurements.series([path], LIBRARY_CALLS.name)
        visits = measurements.series([path], VISITS.name)
        growth = find_growth(measurements.p, calls, target)
        is_alike = growth.has_same_order or growth.single is not None
        if growth.law is None or not growth.is_growing or not is_alike:
            continue
        if find_growth(measurements.p, visits, target).is_growing:
            continue
        owner = measurements.owners[path]
        price = lowest_price(measurements.runs, path, per=LIBRARY_CALLS.name)
        yield Limit(
            kind="compute" if growth.single is None else "serial",
            path=owner,
            metric=LIBRARY_CALLS.name,
            unit="1",
            growth=growth,
            cost=cost_at_price(growth, price, measurements.p, target),
            is_once=is_once(measurements, owner),
            subject=f"makes {{}} calls inside {short_name(path.name)}",
            detail=path,
        )
