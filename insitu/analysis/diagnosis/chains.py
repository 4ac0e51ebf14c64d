"""Chains: a message that passes through all ranks one after the other."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import at_text, find_scaling
from insitu.analysis.diagnosis.growth import (
    CountGrowth,
    estimated_growth,
    find_growth,
    is_shared_dynamically,
    last_steps,
    without_two_ranks,
)
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit, is_once, value_at
from insitu.analysis.diagnosis.machine import Machine, is_collective
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements, RankSeries, is_mpi
from insitu.entities import (
    BYTES_RECEIVED,
    BYTES_SENT,
    MESSAGE_CHAIN,
    MESSAGE_CHAIN_TIME,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    RANKS,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray
from insitu.units import quantity

BLOCKING = {"MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Recv", "MPI_Mrecv"}
MATCHED_BY = dict.fromkeys(("MPI_Mrecv", "MPI_Imrecv"), ("MPI_Mprobe", "MPI_Improbe"))
ORDERED = ("MPI_File_write_ordered", "MPI_File_read_ordered")
LEAST_RANKS = 3  # two ranks are no chain
LEAST_SCALES = 3
TELLING = 8  # ranks from which two scales suffice: in grids of two or three axes, some have more
LEAST_EXACT = 5  # scales on which a law holds, to compare the chain with the exchange at the target
# An exchange along an axis of a grid is a chain of up to two messages for each that a rank receives
# or sends, whatever the number of ranks.
LEAST_LENGTH = 2.0
LEAST_RATIO, OUTGROWN = 1.5, 1.1  # such messages at the largest scale, and from step to step


def find_chain(
    measurements: Measurements, machine: Machine, owner: CallPath, target: float
) -> Limit | None:
    """The chain of messages in which a function takes part and that grows, None if there is none.

    The longest chain of a run is measured where all of its messages are known. Elsewhere the counts
    of messages show chains in one direction.
    """
    calls = [path for path in measurements.members[owner] if is_mpi(path)]
    ordered = _ordered_chain(measurements, machine, owner, calls, target=target)
    if ordered is not None:
        return ordered
    if _has_known_chain(measurements, calls):
        return _measured_chain(measurements, machine, owner, calls, target=target)
    return _counted_chain(measurements, machine, owner, calls, target=target)


def _has_chains(p: FloatArray) -> bool:
    """Whether the scales tell a chain of all ranks from a sweep through a grid."""
    n_scales = int(np.sum(p >= LEAST_RANKS))
    return n_scales >= LEAST_SCALES or (n_scales == LEAST_SCALES - 1 and float(p[-1]) >= TELLING)


def _ordered_chain(
    measurements: Measurements,
    machine: Machine,
    owner: CallPath,
    calls: Sequence[CallPath],
    *,
    target: float,
) -> Limit | None:
    """Calls by which the ranks access a file in the order of their numbers.

    ROMIO passes the file pointer from rank to rank (its mpi-io/write_ord.c and read_ord.c).
    """
    ordered = [path for path in calls if path.name.startswith(ORDERED)]
    visits = measurements.series(ordered, VISITS.name).statistic(np.max)
    if not ordered or np.ptp(visits) > 0 or len(measurements.p) < LEAST_SCALES:
        return None
    count = float(visits[-1])
    law = ExactLaw((LawFactor(-count, count, TERMS[0]),), len(visits), len(visits))
    return Limit(
        kind="serial",
        path=owner,
        metric=VISITS.name,
        unit="1",
        growth=estimated_growth(law, measurements.p, low=law.at(target), high=law.at(target)),
        cost=lambda ranks: law.at(ranks) * machine.latency_s,
        is_once=count == 1.0,
        subject=f"waits for {{}} ranks before it in {ordered[0].name}",
        detail=ordered[0],
        condition="if the library passes the file pointer from rank to rank, as ROMIO does",
        is_lower_bound=True,
    )


def _has_known_chain(measurements: Measurements, calls: Sequence[CallPath]) -> bool:
    """Whether the chain is known of all calls that receive messages, in all runs."""
    is_known = False
    for run in measurements.runs:
        lengths = run.table.values.get(MESSAGE_CHAIN.name)
        for path in calls:
            if not run.vector(path, MESSAGES_RECEIVED.name).any():
                continue
            matching = [at for at in calls if at in run.rows and _may_match_for(at, path)]
            if lengths is None or not any(
                np.isfinite(lengths[run.rows[at]]).any() for at in matching
            ):
                return False
            is_known = True
    return is_known


def _may_match_for(call: CallPath, receive: CallPath) -> bool:
    """Whether a call may match the messages of a receive: itself, or the probe before it.

    A rank waits for a message in the matched probe, which therefore has its part of the chain.
    Objects of mpi4py are received like this.
    """
    names = MATCHED_BY.get(receive.name, ())
    return call == receive or call.name in names


def _measured_chain(
    measurements: Measurements,
    machine: Machine,
    owner: CallPath,
    calls: Sequence[CallPath],
    *,
    target: float,
) -> Limit | None:
    """The part of a function in the longest chain, if it is longer than its exchanges with
    neighbours explain, and grows."""
    p = measurements.p
    if not _has_chains(p):
        return None

    groups = []
    pairwise = [path for path in calls if not is_collective(path.name)]
    for group in measurements.groups:
        parts = [
            sum(float(run.vector(path, MESSAGE_CHAIN.name).max()) for path in pairwise)
            for run in group
        ]
        groups.append(tuple(np.array([part]) for part in parts))
    chains = RankSeries(tuple(groups))
    growth = find_growth(p, chains, target)
    if not chains.statistic(np.max)[p <= 2].any():
        # A message between two ranks, for which no other one had to arrive, is no chain.
        growth = without_two_ranks(p, growth, chains, target)
    arrivals = measurements.series(calls, MESSAGES_RECEIVED.name)
    departures = measurements.series(calls, MESSAGES_SENT.name)
    passes = _passes(p, chains, arrivals, target) if growth.law is None else None
    if passes is not None:
        growth = passes
    exchanged = [find_growth(p, arrivals, target), find_growth(p, departures, target)]
    if growth.law is None and is_shared_dynamically(exchanged[0], p, target):
        return None
    if not growth.is_growing:
        return None
    # The chain of a pipeline over many blocks is short on few ranks, and its law exact.
    is_law = growth.law is not None and growth.law.points == growth.law.of >= LEAST_EXACT
    at = target if is_law else float(p[-1])
    most = max(value_at(each, at, p, target) for each in exchanged)
    is_long = value_at(growth, at, p, target) > LEAST_LENGTH * most
    if not is_long and not _outgrows(p, chains, [arrivals, departures]):
        return None
    received = float(arrivals.statistic(np.max)[-1])

    size = float(measurements.series(calls, BYTES_RECEIVED.name).statistic(np.max)[-1]) / received
    step = machine.message_s(size)
    is_strong = find_scaling(measurements) == "strong"
    work = work_between(measurements, pairwise, is_strong=is_strong)
    work_now = work / float(p[-1]) if is_strong else work

    def cost(ranks: float) -> float:
        of_step = work / ranks if is_strong else work
        return (step + of_step) * value_at(growth, ranks, p, target)

    return Limit(
        kind="serial",
        path=owner,
        metric=MESSAGE_CHAIN.name,
        unit="1",
        growth=replace(growth, single=None, is_certain=True),
        cost=cost,
        is_once=is_once(measurements, owner),
        subject="waits for {} messages, each sent "
        + (f"at least {quantity(work_now, 's')} " if work_now > machine.latency_s else "")
        + "after the one before arrived",
        condition="" if passes is None else f"if passes are as many as at {at_text(RANKS, p[-1])}",
        is_lower_bound=True,
    )


def _passes(
    p: FloatArray, chains: RankSeries, arrivals: RankSeries, target: float
) -> CountGrowth | None:
    """The growth of a chain that is longer by a law for each message that a rank receives, with as
    many of them as on the most ranks; None if it is not.

    As of an iteration that converges, in which a message passes through all ranks.
    """
    received = arrivals.statistic(np.max)
    some = received > 0  # one rank has none
    if not some[-1]:
        return None
    lengths = chains.statistic(np.max)[some] / received[some]
    each = RankSeries(tuple((np.array([length]),) for length in lengths.tolist()))
    law = find_growth(p[some], each, target).law
    if law is None or law.term is None or not law.points == law.of >= LEAST_EXACT:
        return None
    times = float(received[-1])
    factors = [
        replace(factor, constant=times * factor.constant, coefficient=times * factor.coefficient)
        for factor in law.factors[:1]
    ]
    law = replace(law, factors=(*factors, *law.factors[1:]))
    return estimated_growth(law, p, low=law.at(target), high=law.at(target))


def _outgrows(p: FloatArray, chains: RankSeries, exchanged: Sequence[RankSeries]) -> bool:
    """Whether a chain has ever more messages for each that a rank exchanges, and more than one.

    Ranks have more neighbours on more ranks, and a sweep through their grid a longer chain; that of
    exchanges with neighbours has at most as many more messages.
    """
    most = np.max([series.statistic(np.max) for series in exchanged], axis=0)
    steps = last_steps(p)
    lengths = chains.statistic(np.max)[steps] / np.maximum(most[steps], 1.0)
    return bool(lengths[-1] >= LEAST_RATIO and np.all(lengths[1:] >= OUTGROWN * lengths[:-1]))


def work_between(
    measurements: Measurements, calls: Sequence[CallPath], *, is_strong: bool
) -> float:
    """Seconds of work between a message of the chain and the next one, without waiting for cores.

    A lower bound, of the shortest repetition. Where ranks had cores of their own, the longest scale
    counts. Ranks that share cores are assumed to wait for them for the same share of this time as
    the most delayed rank of the run did of all of its time. Such waits come in few long pieces, so
    that some scales have more of them than others, and the shortest scale counts. With strong
    scaling it is the work of all ranks, which share it.
    """
    longest = 0.0
    shortest_delayed = math.inf
    for ranks, group in zip(measurements.p, measurements.groups, strict=True):
        if ranks < LEAST_RANKS:
            continue
        times = [
            _time_of_link(run, calls) * (1.0 - run.queued_share)
            for run in group
            if run.queued_share > 0 or not run.is_oversubscribed
        ]
        if not times:
            continue
        work = min(times) * (ranks if is_strong else 1.0)
        if any(run.is_crowded for run in group):
            shortest_delayed = min(shortest_delayed, work)
        else:
            longest = max(longest, work)
    return longest if longest > 0 or math.isinf(shortest_delayed) else shortest_delayed


def _time_of_link(run: MeasuredRun, calls: Sequence[CallPath]) -> float:
    """Seconds between a message of the chain and the next one, 0 if it has none of these calls."""
    links, seconds = (
        sum(float(run.vector(path, metric.name).max()) for path in calls)
        for metric in (MESSAGE_CHAIN, MESSAGE_CHAIN_TIME)
    )
    return seconds / links if links > 0 else 0.0


def _counted_chain(
    measurements: Measurements,
    machine: Machine,
    owner: CallPath,
    calls: Sequence[CallPath],
    *,
    target: float,
) -> Limit | None:
    """A chain in one direction, by the numbers of messages.

    In a chain the first rank receives nothing, the last sends nothing, and all others receive and
    send alike, by blocking calls. The counts do not tell whether ranks receive first, so that the
    limit is conditional. Passes may overlap: its cost is that of one pass.
    """
    sent = measurements.series(calls, MESSAGES_SENT.name)
    received = measurements.series(calls, MESSAGES_RECEIVED.name)
    active = [path for path in calls if _moves_messages(measurements, path)]
    p = measurements.p
    if not _has_chains(p) or any(path.name not in BLOCKING for path in active):
        return None

    end = _last_rank(p, received, sent)
    if end is None:
        return None
    passes = float(sent.statistic(np.max)[-1])
    size = float(measurements.series(calls, BYTES_SENT.name).statistic(np.max)[-1]) / passes
    step = machine.message_s(size)
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
        is_lower_bound=True,
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
