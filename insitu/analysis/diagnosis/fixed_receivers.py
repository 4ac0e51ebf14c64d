"""Several ranks that receive what all others send, and are no more of them on more ranks.

Four ranks that keep a table for all, say, to each of which every rank sends, or the roots of a
gather in each of two coupled models, which exchange what they have gathered. Where each rank sends
to one of them only, its partner tells; see `fixed_servers`. Here the counts of the servers do.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.fixed_servers import LEAST_CLIENTS, LEAST_RANGE, is_sure_number
from insitu.analysis.diagnosis.growth import SINGLE_SHARE, CountGrowth, find_growth
from insitu.analysis.diagnosis.limit import Limit, cost_at_price, is_once
from insitu.analysis.diagnosis.machine import Machine, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.entities import BYTES_RECEIVED, BYTES_SENT, MESSAGES_RECEIVED, CallPath, Metric
from insitu.modeling.measurement import FloatArray

LEAST_SCALES = 3  # through which a law in proportion to p passes


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What servers have of a call: its metric, what they do with it, and whether of all calls."""

    metric: Metric
    subject: str
    is_of_collectives: bool = True


# The first one that servers alone have, and in proportion to p, is named.
QUANTITIES = (
    _Quantity(MESSAGES_RECEIVED, "receives {} messages", is_of_collectives=False),
    _Quantity(BYTES_RECEIVED, "receives {}"),
    _Quantity(BYTES_SENT, "sends {}"),
)


def find_fixed_receivers(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    named: Collection[CallPath] = (),
) -> Iterator[Limit]:
    """Calls by which a few ranks, whose number does not grow, receive or send ever more.

    Args:
        measurements: all runs.
        machine: what messages cost.
        target: number of ranks to look ahead to.
        named: call paths whose servers are known.
    """
    for owner, members in measurements.members.items():
        calls = [path for path in members if is_mpi(path) and path not in named]
        served: dict[_Quantity, list[CallPath]] = {}
        for path in calls:
            for quantity in QUANTITIES:
                if is_collective(path.name) and not quantity.is_of_collectives:
                    continue
                if _find_growth(measurements, [path], quantity, target) is not None:
                    served.setdefault(quantity, []).append(path)
                    break
        for quantity, paths in served.items():
            together = _find_limit(measurements, machine, target, paths, quantity, owner=owner)
            if together is not None:
                yield together
                continue
            for path in paths:
                limit = _find_limit(measurements, machine, target, [path], quantity, owner=owner)
                if limit is not None:
                    yield limit


@dataclass(frozen=True, slots=True)
class _ServedGrowth:
    """How many servers there are, at which scales (n_scales,), and how what they have grows.

    is_mean: whether that is the mean over servers, as only this has a law.
    """

    servers: int
    p: FloatArray
    growth: CountGrowth
    is_mean: bool


def _find_growth(
    measurements: Measurements, paths: Sequence[CallPath], quantity: _Quantity, target: float
) -> _ServedGrowth | None:
    """The growth of one quantity of some calls together, if a few ranks have it."""
    moved = measurements.series(paths, quantity.metric.name)
    servers, first = _find_servers(measurements.p, moved)
    if servers < 2:
        return None
    p = measurements.p[first:]
    growth = find_growth(p, RankSeries(moved.vectors[first:]), target)
    is_mean = growth.law is None
    if is_mean:
        of_all = float(moved.statistic(np.mean)[-1])
        growth = find_growth(p, _shares_of_servers(moved, servers, first), target)
        growth = replace(growth, mean_now=of_all)
    law = growth.law
    if law is None or not _is_of_all(growth):
        return None
    growth = replace(growth, law=replace(law, of=len(measurements.p)))
    return _ServedGrowth(servers, p, growth, is_mean=is_mean)


def _find_limit(
    measurements: Measurements,
    machine: Machine,
    target: float,
    paths: Sequence[CallPath],
    quantity: _Quantity,
    *,
    owner: CallPath,
) -> Limit | None:
    """The limit of one quantity of some calls of a function together."""
    found = _find_growth(measurements, paths, quantity, target)
    if found is None:
        return None
    p, growth, servers = found.p, found.growth, found.servers
    price = 1 / machine.bandwidth
    if quantity.metric == MESSAGES_RECEIVED:
        in_bytes = measurements.series(paths, BYTES_RECEIVED.name).statistic(np.max)
        price = machine.message_s(float(in_bytes[-1]) / growth.now)
    in_mean = " in the mean" if found.is_mean else ""
    is_sure = is_sure_number(n_scales=len(p), spread=float(p[-1] / p[0]))
    return Limit(
        kind="serial",
        path=owner,
        metric=quantity.metric.name,
        unit=quantity.metric.unit,
        growth=growth,
        cost=cost_at_price(growth, price, p, target),
        is_once=is_once(measurements, owner),
        subject=f"as one of {servers} that serve all others {quantity.subject}{in_mean}",
        detail=paths[0],
        includes=tuple(paths[1:]),
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


def _shares_of_servers(moved: RankSeries, servers: int, first: int) -> RankSeries:
    """What a server has in the mean, as the value of every rank: where keys are hashed, only the
    sum over servers repeats."""
    means = []
    for group in moved.vectors[first:]:
        means.append(tuple(np.full(len(vector), vector.sum() / servers) for vector in group))
    return RankSeries(tuple(means))


def _count_servers(vector: FloatArray) -> int:
    """The ranks that receive about as much as any; 0 if others receive some as well."""
    servers = int(np.count_nonzero(vector > SINGLE_SHARE * vector.max()))
    return servers if servers == np.count_nonzero(vector) else 0


def _is_of_all(growth: CountGrowth) -> bool:
    """Whether what a server receives is in proportion to the number of all ranks."""
    law = growth.law
    is_linear = law is not None and law.term is not None and law.term.order == "p"
    return is_linear and growth.is_growing and growth.single is None
