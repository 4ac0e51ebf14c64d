"""Several ranks that receive what all others send, and are no more of them on more ranks.

Four ranks that keep a table for all, say, to each of which every rank sends. Where each rank sends
to one of them only, its partner tells; see `fixed_servers`. Here the counts of the servers do.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.fixed_servers import LEAST_CLIENTS, LEAST_RANGE, is_sure_number
from insitu.analysis.diagnosis.growth import SINGLE_SHARE, CountGrowth, find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.machine import Machine, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.entities import BYTES_RECEIVED, MESSAGES_RECEIVED, CallPath
from insitu.modeling.measurement import FloatArray

LEAST_SCALES = 3  # through which a law in proportion to p passes


def find_fixed_receivers(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    named: Collection[CallPath] = (),
) -> Iterator[Limit]:
    """Calls by which a few ranks, whose number does not grow, receive ever more messages.

    Args:
        measurements: all runs.
        machine: what messages cost.
        target: number of ranks to look ahead to.
        named: call paths whose servers are known.
    """
    for owner, members in measurements.members.items():
        for path in members:
            if not is_mpi(path) or is_collective(path.name) or path in named:
                continue
            received = measurements.series([path], MESSAGES_RECEIVED.name)
            servers, first = _find_servers(measurements.p, received)
            if servers < 2:
                continue
            p = measurements.p[first:]
            growth = find_growth(p, RankSeries(received.vectors[first:]), target)
            if not _is_of_all(growth):
                continue
            limit = _limit(measurements, machine, target, owner=owner, path=path, growth=growth)
            is_sure = is_sure_number(n_scales=len(p), spread=float(p[-1] / p[0]))
            yield replace(
                limit,
                subject=f"as one of {servers} that serve all others receives {{}} messages",
                condition="" if is_sure else f"if there are never more than {servers} of them",
            )


def _find_servers(p: FloatArray, received: RankSeries) -> tuple[int, int]:
    """How many ranks receive at the last scales, and the first of these scales, by its index.

    Returns:
        0 servers if their number is not the same over enough scales, or if they have few clients.
    """
    servers, first = 0, len(p)
    for i in reversed(range(len(p))):
        numbers = {_count_servers(vector) for vector in received.vectors[i]}
        number = numbers.pop() if len(numbers) == 1 else 0
        if number == 0 or servers not in (0, number):
            break
        servers, first = number, i
    is_enough = len(p) - first >= LEAST_SCALES and p[-1] >= LEAST_RANGE * p[first]
    has_clients = is_enough and p[-1] >= (1 + LEAST_CLIENTS) * servers
    return (servers if has_clients else 0), first


def _count_servers(vector: FloatArray) -> int:
    """The ranks that receive about as much as any; 0 if others receive some as well."""
    servers = int(np.count_nonzero(vector > SINGLE_SHARE * vector.max()))
    return servers if servers == np.count_nonzero(vector) else 0


def _is_of_all(growth: CountGrowth) -> bool:
    """Whether what a server receives is in proportion to the number of all ranks."""
    law = growth.law
    is_linear = law is not None and law.term is not None and law.term.order == "p"
    return is_linear and growth.is_growing and growth.single is None


def _limit(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    owner: CallPath,
    path: CallPath,
    growth: CountGrowth,
) -> Limit:
    p = measurements.p
    in_bytes = measurements.series([path], BYTES_RECEIVED.name).statistic(np.max)
    size = float(in_bytes[-1]) / growth.now
    law = growth.law
    return Limit(
        kind="serial",
        path=owner,
        metric=MESSAGES_RECEIVED.name,
        unit="1",
        growth=replace(growth, law=replace(law, of=len(p))) if law is not None else growth,
        cost=cost_at_price(growth, machine.message_s(size), p, target),
        is_once=is_once(measurements, owner),
        subject="",
        detail=path,
    )
