"""Collective calls of some of the ranks that wait for one another, through all ranks.

The longest chain of such calls is measured, as that of messages is; see `chains`. Rows and columns
of a grid make a chain of two calls in each step, on any number of ranks.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.chains import LEAST_LENGTH, LEAST_RANKS, work_between
from insitu.analysis.diagnosis.growth import find_growth
from insitu.analysis.diagnosis.limit import Limit, is_once
from insitu.analysis.diagnosis.machine import Machine, collective_steps, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.entities import MESSAGE_CHAIN, VISITS, CallPath
from insitu.units import quantity

LEAST_SCALES = 4  # of three ranks or more, through all of which the law passes
PAIR = 2.0


def find_call_chains(
    measurements: Measurements, machine: Machine, target: float
) -> Iterator[Limit]:
    """Collective calls whose longest chain has ever more of them for each that a rank makes."""
    for owner, members in measurements.members.items():
        for path in members:
            if is_mpi(path) and is_collective(path.name):
                limit = _call_chain(measurements, machine, target, path=path)
                if limit is not None:
                    yield replace(limit, path=owner, is_once=is_once(measurements, owner))


def _call_chain(
    measurements: Measurements, machine: Machine, target: float, *, path: CallPath
) -> Limit | None:
    first = int(np.sum(measurements.p < LEAST_RANKS))
    p = measurements.p[first:]
    lengths = measurements.series([path], MESSAGE_CHAIN.name)
    if len(p) < LEAST_SCALES or not lengths.statistic(np.max)[first:].all():
        return None
    growth = find_growth(p, RankSeries(lengths.vectors[first:]), target)
    law = growth.law
    if law is None or not growth.is_growing or law.points < len(p):
        return None
    most = float(measurements.series([path], VISITS.name).statistic(np.max)[-1])
    if law.at(target) <= LEAST_LENGTH * most or growth.now <= LEAST_LENGTH * most:
        return None

    work = work_between(measurements, [path], is_strong=False)
    step = machine.latency_s * collective_steps(path.name, PAIR) + work
    after = f"at least {quantity(work, 's')} " if work > machine.latency_s else ""
    return Limit(
        kind="serial",
        path=path,
        metric=MESSAGE_CHAIN.name,
        unit="1",
        growth=replace(growth, law=replace(law, of=len(measurements.p)), single=None),
        cost=lambda ranks: step * law.at(ranks),
        is_once=False,
        subject=f"waits for {{}} calls of {path.name}, each begun {after}after the one before",
        detail=path,
        is_lower_bound=True,
    )
