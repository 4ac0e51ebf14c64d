"""Heap that a function allocates more of on more ranks, whether it frees it or not: its work grows.

The number of blocks and of bytes is exact on shared cores as well, where times mean little, and
shows work that makes no calls: strings that are joined, nodes that are added, results of operations
on arrays. Python takes objects of up to 512 bytes from its own arenas, and in unchanged compiled
programs, small blocks belong to no function.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.growth import find_growth, find_single_rank
from insitu.analysis.diagnosis.laws import RELATIVE, RELATIVE_HEAP
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries
from insitu.analysis.diagnosis.memory import median_rank, own_heap
from insitu.analysis.diagnosis.neighbours import follows_partners
from insitu.entities import ALLOCATIONS, BYTES_ALLOCATED, CallPath

LEAST_EXPONENT = 0.3  # of p, over both of the last steps: surfaces of grids stop growing


@dataclass(frozen=True, slots=True)
class _Amount:
    """What is counted of the heap.

    Attributes:
        metric, unit: the quantity.
        least: of it at the largest scale.
        price_s: seconds for each of its units, without what is done with it.
        tolerance: of its law, see `find_laws`.
        subject: for texts.
        is_of_bytes: whether memory that grows alike explains it, and it may grow without a law.
    """

    metric: str
    unit: str
    least: float
    price_s: float
    tolerance: float
    subject: str
    is_of_bytes: bool


AMOUNTS = (
    _Amount(  # a block of glibc is allocated and freed in 50 ns
        metric=ALLOCATIONS.name,
        unit="1",
        least=1000.0,
        price_s=5e-8,
        tolerance=RELATIVE,
        subject="allocates {} blocks of the heap",
        is_of_bytes=False,
    ),
    _Amount(  # which is written once, by 10 GB/s
        metric=BYTES_ALLOCATED.name,
        unit="B",
        least=1e7,
        price_s=1e-10,
        tolerance=RELATIVE_HEAP,
        subject="allocates {} of the heap in all its visits",
        is_of_bytes=True,
    ),
)


def growing_allocations(
    measurements: Measurements, known: Sequence[Limit], target: float
) -> Iterator[Limit]:
    """Functions whose blocks or bytes grow by an exact law, besides those known to grow alike.

    Bytes may grow without one, as those of particles within reach do. If they grow faster than the
    number of blocks, a block may have been enlarged again and again, and counted in full each time:
    then the number of blocks counts.
    """
    if ALLOCATIONS.name not in measurements.metrics:
        return
    orders: set[tuple[CallPath | None, str]] = set()
    others = [each for each in known if each.kind != "memory"]
    named = {path for of in others for path in (of.path, of.detail, *of.includes, *of.visited)}
    for each in known:
        law = each.growth.law
        if law is None or law.term is None:
            continue
        if each.kind == "memory" and not is_once(measurements, each.path):
            continue  # what each visit allocates takes time, too
        for path in (each.path, each.detail, *each.includes):
            orders.add((path, law.term.order))
    for owner, members in measurements.members.items():
        series = [own_heap(measurements, owner, members, of.metric) for of in AMOUNTS]
        medians = [median_rank(values) for values in series]
        limits = _allocation_limits(measurements, owner, series, medians, target)
        if not limits:
            largest = [_of_one_rank(measurements, values) for values in series]
            limits = _allocation_limits(measurements, owner, series, largest, target)
        candidates = []
        for limit in limits:
            is_of_blocks = limit.metric == ALLOCATIONS.name
            is_new = is_of_blocks or _order(limit) or owner not in named
            if (owner, _order(limit)) not in orders and is_new:
                candidates.append(limit)
        if candidates:
            yield max(candidates, key=lambda limit: limit.cost(target))


def _of_one_rank(measurements: Measurements, series: RankSeries) -> RankSeries:
    """The values of the rank that alone has large ones, as a series of one rank; 0 without any."""
    is_alone = find_single_rank(measurements.p, series) is not None
    groups = ((np.array([vector.max() * is_alone]) for vector in group) for group in series.vectors)
    return RankSeries(tuple(tuple(group) for group in groups))


def _allocation_limits(
    measurements: Measurements,
    owner: CallPath,
    series: Sequence[RankSeries],
    telling: Sequence[RankSeries],
    target: float,
) -> list[Limit]:
    """The limits of the blocks and of the bytes of a function, of the values that tell them."""
    is_enough = [
        float(values.statistic(np.max)[-1]) >= of.least
        for of, values in zip(AMOUNTS, telling, strict=True)
    ]
    if not any(is_enough):
        return []
    blocks, in_bytes = (
        _allocation_limit(measurements, owner, *each, target=target)
        for each in zip(AMOUNTS, series, telling, strict=True)
    )
    limits = [blocks] if blocks is not None and is_enough[0] else []
    is_alike = blocks is None or in_bytes is None or _order(blocks) == _order(in_bytes)
    if in_bytes is not None and is_enough[1] and is_alike:
        limits.append(in_bytes)
    return limits


def _order(limit: Limit) -> str:
    law = limit.growth.law
    return law.term.order if law is not None and law.term is not None else ""


def _allocation_limit(
    measurements: Measurements,
    owner: CallPath,
    amount: _Amount,
    series: RankSeries,
    telling: RankSeries,
    *,
    target: float,
) -> Limit | None:
    """The limit of a function that allocates more; None if there is none."""
    growth = find_growth(measurements.p, telling, target, tolerance=amount.tolerance)
    if not growth.is_growing:
        return None
    is_per_partner = False
    if growth.law is None:
        if not amount.is_of_bytes or growth.exponents[0] < LEAST_EXPONENT:
            return None
        if owner.parent is None:
            return None  # the heap of libraries that no function calls
        is_per_partner = follows_partners(measurements, telling.statistic(np.max))
    over_ranks = find_growth(measurements.p, series, target, tolerance=amount.tolerance)
    is_of_one = over_ranks.single is not None and growth.now == over_ranks.now
    growth = replace(growth, is_certain=over_ranks.is_certain)
    if is_of_one:
        growth = replace(growth, single=over_ranks.single, mean_now=over_ranks.mean_now)
    return Limit(
        kind="serial" if is_of_one else "compute",
        path=owner,
        metric=amount.metric,
        unit=amount.unit,
        growth=growth,
        cost=cost_at_price(growth, amount.price_s, measurements.p, target),
        is_once=is_once(measurements, owner),
        subject=amount.subject,
        is_lower_bound=True,
        is_per_partner=is_per_partner,
    )
