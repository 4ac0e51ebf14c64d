"""Chains: a message that passes through all ranks one after the other."""

import numpy as np

from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.entities import (
    BYTES_SENT,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

BLOCKING = {"MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Recv", "MPI_Mrecv"}
LEAST_RANKS = 3  # two ranks are no chain
LEAST_SCALES = 3


def find_chain(
    measurements: Measurements, machine: Machine, owner: CallPath, target: float
) -> Limit | None:
    """The chain in which a function sends, None if it does not.

    In a chain the first rank receives nothing, the last sends nothing, and all others receive and
    send alike, by blocking calls. The counts do not tell whether ranks receive first, so that the
    limit is conditional. Passes may overlap: its cost is that of one pass.
    """
    calls = [path for path in measurements.members[owner] if is_mpi(path)]
    sent = measurements.series(calls, MESSAGES_SENT.name)
    received = measurements.series(calls, MESSAGES_RECEIVED.name)
    active = [path for path in calls if _moves_messages(measurements, path)]
    p = measurements.p
    is_long = int(np.sum(p >= LEAST_RANKS)) >= LEAST_SCALES
    if not is_long or any(path.name.removeprefix("P") not in BLOCKING for path in active):
        return None

    end = _last_rank(p, received, sent)
    if end is None:
        return None
    passes = float(sent.statistic(np.max)[-1])
    size = float(measurements.series(calls, BYTES_SENT.name).statistic(np.max)[-1]) / passes
    step = machine.latency_s + size / machine.bandwidth
    law = ExactLaw((LawFactor(-1.0, 1.0, TERMS[0]),), len(p), len(p))
    return Limit(
        kind="serial",
        path=owner,
        metric=MESSAGES_SENT.name,
        unit="1",
        growth=estimated_growth(law, p, low=law.at(target), high=law.at(target), single=end),
        cost=lambda ranks: law.at(ranks) * step,
        is_once=float(measurements.series([owner], VISITS.name).statistic(np.max)[-1]) == 1.0,
        subject="waits for {} messages one after the other",
        condition="if ranks receive before they send",
    )


def _moves_messages(measurements: Measurements, path: CallPath) -> bool:
    for metric in (MESSAGES_SENT.name, MESSAGES_RECEIVED.name):
        if measurements.series([path], metric).statistic(np.max).any():
            return True
    return False


def _last_rank(p: FloatArray, received: RankSeries, sent: RankSeries) -> int | None:
    """The rank at the end of the chain, -1 for the last; None if any run has no chain."""
    ends = set()
    for i, ranks in enumerate(p.astype(int).tolist()):
        if ranks < LEAST_RANKS:
            continue
        for get, put in zip(received.vectors[i], sent.vectors[i], strict=True):
            first, last = np.flatnonzero(get == 0), np.flatnonzero(put == 0)
            if len(first) != 1 or len(last) != 1 or first[0] == last[0]:
                return None
            if np.ptp(np.delete(get, first)) or np.ptp(np.delete(put, last)):
                return None
            end = int(last[0])
            ends.add(-1 if end == ranks - 1 else end)
    return ends.pop() if len(ends) == 1 else None
