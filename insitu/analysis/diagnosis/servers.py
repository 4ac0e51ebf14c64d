"""Ranks that serve all others: one, a few, or the hub of a graph; at all scales or from one on."""

from collections.abc import Iterable

from insitu.analysis.diagnosis.appearing_funnels import find_appearing_funnels
from insitu.analysis.diagnosis.fixed_receivers import find_fixed_receivers
from insitu.analysis.diagnosis.fixed_servers import find_fixed_servers
from insitu.analysis.diagnosis.hubs import find_hubs
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.analysis.diagnosis.only_partners import find_serving_ranks


def server_limits(measurements: Measurements, machine: Machine, target: float) -> list[Limit]:
    """The calls by which ranks serve ever more others, each of them once."""
    limits = list(find_fixed_servers(measurements, machine, target))
    serving = {limit.path for limit in limits}
    for limit in find_serving_ranks(measurements, machine, target):
        if limit.path not in serving:
            limits.append(limit)
    named = {limit.detail for limit in limits if limit.detail is not None}
    limits += find_fixed_receivers(measurements, machine, target, named=named)
    limits += find_hubs(measurements, machine, target)
    limits += find_appearing_funnels(measurements, machine, target)
    return limits


def without_served(limits: Iterable[Limit], served: Iterable[Limit]) -> list[Limit]:
    """Limits without those that have no law, of calls by which a few ranks serve by a law."""
    known = {(limit.detail, limit.metric) for limit in served if limit.is_exact}
    return [
        limit
        for limit in limits
        if limit.growth.law is not None or (limit.detail, limit.metric) not in known
    ]
