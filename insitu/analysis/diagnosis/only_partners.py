"""Ranks that serve others, found by those others: each of them has a single partner.

Locks of a window and atomic one-sided operations, such as those of a counter on rank 0, wait for
one another at their target, and what is put or read there passes its link. So do messages. The
counts of the ranks that make the calls are the same whoever the partner is, but a rank with a
single partner reports which one. In a grid of ranks hardly any rank has a single neighbour, so that
growth found here is none of neighbours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.diagnosis.growth import (
    UNBALANCED,
    CountGrowth,
    find_growth,
    without_two_ranks,
)
from insitu.analysis.diagnosis.limit import Limit, is_once, value_at
from insitu.analysis.diagnosis.machine import Machine
from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements, RankSeries
from insitu.entities import (
    BYTES_RECEIVED,
    BYTES_SENT,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    ONLY_PARTNER,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

ONE_AFTER_THE_OTHER = frozenset(
    (
        *("MPI_Win_lock", "MPI_Fetch_and_op", "MPI_Compare_and_swap"),
        *("MPI_Accumulate", "MPI_Raccumulate", "MPI_Get_accumulate", "MPI_Rget_accumulate"),
    )
)
ACCESSES = ONE_AFTER_THE_OTHER | {"MPI_Put", "MPI_Rput", "MPI_Get", "MPI_Rget"}
SENDS = frozenset(
    (
        *("MPI_Send", "MPI_Ssend", "MPI_Bsend", "MPI_Rsend"),
        *("MPI_Isend", "MPI_Issend", "MPI_Ibsend", "MPI_Irsend"),
    )
)
LEAST_EXPONENT = 0.5  # of p, without a law
RECEIVES = frozenset(("MPI_Recv",))  # others complete in calls of all kinds of messages


@dataclass(frozen=True, slots=True)
class PartnerKind:
    """Calls to a partner, and the calls of the partner that belong to them.

    Attributes:
        names: of the calls.
        metric: counts them, `bytes_metrics` what they move.
        answer: the metric that counts the calls of the partner; "" of one-sided calls.
        subject: what the partner does, with the number in braces and the name of the call.
    """

    names: frozenset[str]
    metric: str
    bytes_metrics: tuple[str, ...]
    answer: str
    subject: str


KINDS = (
    PartnerKind(
        names=ACCESSES,
        metric=VISITS.name,
        bytes_metrics=(BYTES_SENT.name, BYTES_RECEIVED.name),
        answer="",
        subject="serves {{}} calls of {name}",
    ),
    PartnerKind(
        names=SENDS,
        metric=MESSAGES_SENT.name,
        bytes_metrics=(BYTES_SENT.name,),
        answer=MESSAGES_RECEIVED.name,
        subject="receives {{}} messages of ranks that send to no other",
    ),
    PartnerKind(
        names=RECEIVES,
        metric=MESSAGES_RECEIVED.name,
        bytes_metrics=(BYTES_RECEIVED.name,),
        answer=MESSAGES_SENT.name,
        subject="sends {{}} messages to ranks that receive from no other",
    ),
)


def find_serving_ranks(
    measurements: Measurements, machine: Machine, target: float
) -> Iterator[Limit]:
    """Ranks that serve more calls on more ranks.

    A single one that receives or sends messages is found by its own counts, without those of its
    partners.
    """
    for members in measurements.members.values():
        for path in members:
            kind = kind_of(path)
            if kind is None:
                continue
            limit = _serving_limit(measurements, machine, target, path=path, kind=kind)
            if limit is not None and (limit.growth.single is None or not kind.answer):
                yield limit


def kind_of(path: CallPath) -> PartnerKind | None:
    """The kind of calls that a call path belongs to; None if it is none to a partner."""
    name = path.name
    return next((kind for kind in KINDS if name in kind.names), None)


def _serving_limit(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    path: CallPath,
    kind: PartnerKind,
) -> Limit | None:
    """The limit of the rank that serves most of the calls of a call path, if they grow."""
    p = measurements.p
    calls = served_calls(measurements, path, kind.metric)
    if calls is None:
        return None
    growth = without_two_ranks(p, find_growth(p, calls, target), calls, target)
    is_uneven = growth.single is not None or growth.now > UNBALANCED * growth.mean_now
    if not growth.is_growing or not is_uneven or not _is_of_servers(growth):
        return None

    sizes: list[CountGrowth] = []
    for metric in kind.bytes_metrics:
        volume = served_calls(measurements, path, metric)
        if volume is not None:
            size = find_growth(p, volume, target)
            sizes.append(without_two_ranks(p, size, volume, target))

    def cost(ranks: float) -> float:
        size = sum(value_at(each, ranks, p, target) for each in sizes)
        return value_at(growth, ranks, p, target) * machine.latency_s + size / machine.bandwidth

    owner = measurements.owners[path]
    limit = Limit(
        kind="serial",
        path=owner,
        metric=kind.metric,
        unit="1",
        growth=growth,
        cost=cost,
        is_once=is_once(measurements, owner),
        subject=kind.subject.format(name=path.name),
        detail=path,
    )
    answer = find_answer(measurements, calls, kind.answer)
    if answer is None:
        return limit
    server = measurements.owners[answer]
    return replace(
        limit, path=server, metric=kind.answer, detail=answer, includes=(owner, path, server)
    )


def _is_of_servers(growth: CountGrowth) -> bool:
    """Whether growth is none of the children of a binomial tree, whose ranks have one parent.

    Calls that are made again where another rank was faster grow without a law.
    """
    if growth.law is None:
        return growth.single is not None and growth.exponents[0] >= LEAST_EXPONENT
    return growth.law.term is not None and not growth.law.term.is_logarithm


def served_calls(measurements: Measurements, path: CallPath, metric: str) -> RankSeries | None:
    """The calls of all ranks, or what they move, by the rank that they address.

    Returns:
        None if a rank has several partners, or if its partners were not measured.
    """
    groups = []
    for group in measurements.groups:
        vectors = []
        for run in group:
            served = _served(run, path, metric)
            if served is None:
                return None
            vectors.append(served)
        groups.append(tuple(vectors))
    return RankSeries(tuple(groups))


def _served(run: MeasuredRun, path: CallPath, metric: str) -> FloatArray | None:
    """The values of the ranks that address a rank, added up for each rank, (p,)."""
    row, partners = run.rows.get(path), run.table.values.get(ONLY_PARTNER.name)
    if row is None:
        return np.zeros(run.size)
    if partners is None:
        return None

    partner = partners[row]
    is_known = np.isfinite(partner)
    if np.any(run.vector(path, VISITS.name)[~is_known] > 0):
        return None
    values = run.vector(path, metric)[is_known]
    ranks = partner[is_known].astype(np.intp)
    return np.bincount(ranks, weights=values, minlength=run.size).astype(np.float64)


def find_answer(measurements: Measurements, calls: RankSeries, metric: str) -> CallPath | None:
    """The call path whose counts on each rank are those of the calls that address the rank."""
    if not metric:
        return None
    for paths in measurements.members.values():
        for path in paths:
            answers = measurements.series([path], metric)
            if _are_equal(answers.vectors, calls.vectors):
                return path
    return None


def _are_equal(
    first: Sequence[Sequence[FloatArray]], second: Sequence[Sequence[FloatArray]]
) -> bool:
    pairs = zip(first, second, strict=True)
    return all(
        np.array_equal(a, b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)
    )
