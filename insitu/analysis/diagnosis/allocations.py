"""Blocks of the heap that a function allocates more of on more ranks: its work grows.

Their number is exact on shared cores as well, where times mean little, and shows work that makes no
calls: strings that are joined, nodes that are added. Python takes objects of up to 512 bytes from
its own arenas, and in unchanged compiled programs, small blocks belong to no function.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.memory import median_rank, own_heap
from insitu.entities import ALLOCATIONS

BLOCK_S = 5e-8  # seconds to allocate and to free a block of glibc, without what is done with it
LEAST_BLOCKS = 1000.0  # at the largest scale


def growing_allocations(
    measurements: Measurements, known: Sequence[Limit], target: float
) -> Iterator[Limit]:
    """Functions whose blocks grow by an exact law, besides those that are known to grow alike."""
    if ALLOCATIONS.name not in measurements.metrics:
        return
    orders = {
        (path, limit.growth.law.term.order)
        for limit in known
        if limit.growth.law is not None and limit.growth.law.term is not None
        if limit.kind != "memory" or is_once(measurements, limit.path)
        for path in (limit.path, limit.detail, *limit.includes)
    }
    for owner, members in measurements.members.items():
        series = own_heap(measurements, owner, members, ALLOCATIONS.name)
        growth = find_growth(measurements.p, median_rank(series), target)
        law = growth.law
        if law is None or law.term is None or not growth.is_growing or growth.now < LEAST_BLOCKS:
            continue
        if (owner, law.term.order) in orders:
            continue
        over_ranks = find_growth(measurements.p, series, target)
        growth = replace(growth, is_certain=over_ranks.is_certain)
        yield Limit(
            kind="compute",
            path=owner,
            metric=ALLOCATIONS.name,
            unit="1",
            growth=growth,
            cost=cost_at_price(growth, BLOCK_S, measurements.p, target),
            is_once=is_once(measurements, owner),
            subject="allocates {} blocks of the heap",
            is_lower_bound=True,
        )
