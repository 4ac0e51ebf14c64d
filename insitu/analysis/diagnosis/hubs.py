"""A rank that exchanges messages with every other rank, while the others have a few partners.

That is the hub of an irregular graph, such as the owner of a vertex that many edges meet at. In a
grid of ranks, those that touch all others are several, as long as there are any.
"""

from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.growth import (
    LEAST_UNIFORM,
    SINGLE_SHARE,
    CountGrowth,
    find_growth,
)
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.entities import BYTES_SENT, MESSAGES_SENT, PARTNERS, CallPath

LEAST_RANKS = 8  # of the largest run: fewer all touch each other
LEAST_SCALES = 3  # above one rank
CERTAIN_RANKS = 12  # a part of a domain in the middle of that many others is hardly the only one
IN_THE_MIDDLE = "unless its part of a domain lies in the middle of all others"


def find_hubs(measurements: Measurements, machine: Machine, target: float) -> Iterator[Limit]:
    """Calls by which one rank sends messages to all others, at all scales."""
    for owner, members in measurements.members.items():
        for path in members:
            growth = _find_hub(measurements, path, target) if is_mpi(path) else None
            if growth is not None:
                yield _limit(measurements, machine, target, owner, path=path, growth=growth)


def _find_hub(measurements: Measurements, path: CallPath, target: float) -> CountGrowth | None:
    """How the messages of the hub grow; None if no rank is one, or others are found to be."""
    p = measurements.p
    several = p > 1
    if several.sum() < LEAST_SCALES or p[-1] < LEAST_RANKS:
        return None
    partners = measurements.series([path], PARTNERS.name)
    if np.any(partners.statistic(np.max)[several] != p[several] - 1):
        return None
    messages = measurements.series([path], MESSAGES_SENT.name)
    for series in (partners, messages):
        last = series.vectors[-1][0]
        if np.count_nonzero(last > SINGLE_SHARE * last.max()) != 1:
            return None

    growth = find_growth(p, messages, target)
    is_found = growth.single is not None or growth.has_same_order
    return growth if growth.law is not None and growth.is_growing and not is_found else None


def _limit(
    measurements: Measurements,
    machine: Machine,
    target: float,
    owner: CallPath,
    *,
    path: CallPath,
    growth: CountGrowth,
) -> Limit:
    p = measurements.p
    sent = measurements.series([path], BYTES_SENT.name).statistic(np.max)
    size = float(sent[-1]) / growth.now
    is_certain = p[-1] >= CERTAIN_RANKS and len(p) >= LEAST_UNIFORM
    return Limit(
        kind="serial",
        path=owner,
        metric=MESSAGES_SENT.name,
        unit="1",
        growth=growth,
        cost=cost_at_price(growth, machine.message_s(size), p, target),
        is_once=is_once(measurements, owner),
        subject="sends {} messages to all others, which send to a few",
        detail=path,
        condition="" if is_certain else IN_THE_MIDDLE,
    )
