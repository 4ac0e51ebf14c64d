"""Several ranks serve all others, and are no more of them on more ranks.

Two ranks that write the output of all, say. A single one is found by its own counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit, is_once
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries
from insitu.analysis.diagnosis.only_partners import (
    PartnerKind,
    find_answer,
    kind_of,
    served_calls,
)
from insitu.entities import CallPath
from insitu.modeling.measurement import FloatArray

LEAST_RANGE = 2.0  # of numbers of ranks, over which there are as many servers
LEAST_CLIENTS = 2.0  # of each server: pairs of ranks are none
CERTAIN_SCALES = 4  # the root of p has one value, rounded, at fewer of them
CERTAIN_RANGE = 4.0  # of numbers of ranks, over which the root of p doubles, and three scales do


@dataclass(frozen=True, slots=True)
class _Service:
    """What the last scales have in common.

    n_servers: ranks that serve others. calls: of each client. is_own: whether servers are clients
    as well. n_scales: how many scales. spread: the largest number of ranks over the smallest.
    """

    n_servers: int
    calls: float
    is_own: bool
    n_scales: int
    spread: float = 1.0

    @property
    def is_sure(self) -> bool:
        """Whether hardly any number of servers that grows is the same at all of these scales."""
        return is_sure_number(n_scales=self.n_scales, spread=self.spread)


def is_sure_number(*, n_scales: int, spread: float) -> bool:
    """Whether hardly any number that grows is the same at so many scales.

    Args:
        n_scales: how many.
        spread: the largest number of ranks over the smallest.
    """
    return n_scales >= CERTAIN_SCALES - int(spread >= CERTAIN_RANGE)


def find_fixed_servers(
    measurements: Measurements, machine: Machine, target: float
) -> Iterator[Limit]:
    """Calls by which every rank addresses one of a few, whose number does not grow."""
    for owner, members in measurements.members.items():
        for path in members:
            kind = kind_of(path)
            served = served_calls(measurements, path, kind.metric) if kind else None
            if kind is None or served is None:
                continue
            calls = measurements.series([path], kind.metric)
            service = _find_service(measurements.p, served, calls)
            if service is None:
                continue
            limit = _limit(measurements, machine, target, path=path, kind=kind, service=service)
            answer = find_answer(measurements, served, kind.answer)
            if answer is not None:
                server = measurements.owners[answer]
                included = (owner, path, server)
                limit = replace(
                    limit, path=server, metric=kind.answer, detail=answer, includes=included
                )
            yield limit


def _find_service(p: FloatArray, served: RankSeries, calls: RankSeries) -> _Service | None:
    """What the last scales have in common, if that is the same few servers for all other ranks.

    Args:
        p: (n_scales,), ascending.
        served: the calls by the rank that they address.
        calls: the same by the rank that makes them.
    """
    found: list[_Service] = []
    first = float(p[-1])
    for ranks, by_server, by_client in zip(
        reversed(p.tolist()), reversed(served.vectors), reversed(calls.vectors), strict=True
    ):
        service = _service_at(by_server, by_client)
        if service is None or (found and service != found[0]):
            break
        found.append(service)
        first = ranks

    if not found or p[-1] < LEAST_RANGE * first:
        return None
    service = replace(found[0], n_scales=len(found), spread=float(p[-1]) / first)
    has_clients = p[-1] >= (1 + LEAST_CLIENTS) * service.n_servers
    return service if has_clients and service.n_servers > 1 else None


def _service_at(served: Sequence[FloatArray], calls: Sequence[FloatArray]) -> _Service | None:
    """The same of one scale, whose repetitions must agree; all clients make as many calls."""
    numbers = {int(np.count_nonzero(vector)) for vector in served}
    each = np.concatenate(calls)
    each = each[each > 0]
    n_clients = {int(np.count_nonzero(vector)) for vector in calls}
    if len(numbers) != 1 or len(n_clients) != 1 or not each.size or np.ptp(each) > 0:
        return None

    n_servers, ranks = numbers.pop(), len(calls[0])
    clients = n_clients.pop()
    if clients not in (ranks, ranks - n_servers):
        return None
    return _Service(n_servers, float(each[0]), clients == ranks, 0)


def _limit(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    path: CallPath,
    kind: PartnerKind,
    service: _Service,
) -> Limit:
    """The calls of each server, which are those of all clients, divided among the servers."""
    p, servers = measurements.p, service.n_servers
    constant = 0.0 if service.is_own else -service.calls
    factor = LawFactor(constant, service.calls / servers, TERMS[0])
    law = ExactLaw((factor,), service.n_scales, len(p))
    size = 0.0
    for metric in kind.bytes_metrics:
        vector = measurements.series([path], metric).vectors[-1][0]
        size += float(vector.max()) / service.calls

    growth = estimated_growth(law, p, low=law.at(target), high=law.at(target))
    mean = growth.now * servers / float(p[-1])
    owner = measurements.owners[path]
    subject = kind.subject.format(name=path.name)
    return Limit(
        kind="serial",
        path=owner,
        metric=kind.metric,
        unit="1",
        growth=replace(growth, mean_now=mean),
        cost=lambda ranks: law.at(ranks) * machine.message_s(size),
        is_once=is_once(measurements, owner),
        subject=f"as one of {servers} that serve all others {subject}",
        detail=path,
        condition="" if service.is_sure else f"if there are never more than {servers} of them",
    )
