"""Communicators that are created again and again, which costs each rank a list of all ranks."""

import math
from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements
from insitu.entities import VISITS

# Each rank gathers the colour and the key of all ranks, and sorts those of its own colour
# (MPICH's src/mpi/comm/comm_split.c, Open MPI's ompi/communicator/comm.c).
GATHERING = ("MPI_Comm_split",)
ENTRY_BYTES = 8.0  # two integers
COMPARE_S = 5e-9  # for each comparison of a sort, of which there are log2(p) for each entry
LEAST_SCALES = 3
SEVERAL = 2.0  # calls of a rank; one is set-up


def find_gathering_creations(
    measurements: Measurements, machine: Machine, target: float
) -> Iterator[Limit]:
    """Functions that split communicators of all ranks, as often at all scales, in a loop."""
    p = measurements.p
    if len(p) < LEAST_SCALES:
        return
    for owner, members in measurements.members.items():
        calls = [path for path in members if path.name in GATHERING]
        visits = measurements.series(calls, VISITS.name).statistic(np.max)
        if not calls or visits[-1] < SEVERAL or np.ptp(visits) > 0:
            continue
        law = ExactLaw((LawFactor(0.0, float(visits[-1]), TERMS[0]),), len(p), len(p))

        def cost(ranks: float, law: ExactLaw = law) -> float:
            sorting = COMPARE_S * math.log2(max(ranks, 2.0))
            return law.at(ranks) * (ENTRY_BYTES / machine.bandwidth + sorting)

        yield Limit(
            kind="messages",
            path=owner,
            metric=VISITS.name,
            unit="1",
            growth=estimated_growth(law, p, low=law.at(target), high=law.at(target)),
            cost=cost,
            is_once=False,
            subject=f"receives {{}} colours and keys in {calls[0].name}",
            detail=calls[0],
            condition="if the library gathers those of all ranks, as MPICH and Open MPI do",
            is_lower_bound=True,
        )
