"""Candidates for limits: quantities of a call path that grow, with what they cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.allocations import growing_allocations
from insitu.analysis.diagnosis.budget import Cost, visit_price
from insitu.analysis.diagnosis.call_chains import find_call_chains
from insitu.analysis.diagnosis.callers import merge_callers
from insitu.analysis.diagnosis.chains import find_chain
from insitu.analysis.diagnosis.creations import find_gathering_creations
from insitu.analysis.diagnosis.devices import device_limits
from insitu.analysis.diagnosis.files import file_limits
from insitu.analysis.diagnosis.growth import (
    UNBALANCED,
    CountGrowth,
    are_ever_larger,
    find_growth,
    has_growing_sizes,
    has_larger_messages,
    is_ladder,
    is_shared_dynamically,
    mean_of_shared,
    without_two_ranks,
)
from insitu.analysis.diagnosis.laws import is_constant
from insitu.analysis.diagnosis.library_calls import growing_library_calls
from insitu.analysis.diagnosis.limit import Limit, is_once, looping_caller, value_at
from insitu.analysis.diagnosis.machine import (
    EPOCHS,
    NEIGHBOURHOOD,
    PAIRWISE,
    Machine,
    collective_steps,
    is_collective,
    is_completion,
)
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.analysis.diagnosis.memory import memory_limits
from insitu.analysis.diagnosis.neighbours import (
    doubt_on_few_ranks,
    follows_partners,
    has_steady_partners,
    is_beyond_neighbours,
    reaches_all,
    settle_work,
)
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.servers import server_limits, without_served
from insitu.analysis.diagnosis.threads import started_threads
from insitu.entities import (
    BYTES_RECEIVED,
    BYTES_SENT,
    COMM_RANKS,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    PARTNERS,
    VISITS,
    CallPath,
    is_start_up,
)

SENT, RECEIVED = "sends", "receives"
VERBS = {
    RECEIVED: (MESSAGES_RECEIVED.name, BYTES_RECEIVED.name),
    SENT: (MESSAGES_SENT.name, BYTES_SENT.name),
}
SEPARATING = 32.0  # ranks that tell growth with p from the 26 neighbours of a block
LARGER_FACES = "unless each further neighbour in a grid has a larger face: run {}"


@dataclass(frozen=True, slots=True)
class _Scope:
    """What all quantities are judged with; target: number of ranks to look ahead to."""

    measurements: Measurements
    machine: Machine
    target: float


def find_limits(measurements: Measurements, machine: Machine, target: float) -> list[Limit]:
    """All quantities that grow with the number of ranks, in no particular order."""
    if len(measurements.p) < 3:
        return []

    scope = _Scope(measurements, machine, target)
    limits: list[Limit] = []
    for owner, members in measurements.members.items():
        calls = [path for path in members if is_mpi(path)]
        of_messages = list(_message_limits(scope, owner, calls))
        limits += of_messages
        chain = find_chain(measurements, machine, owner, target)
        if chain is not None:
            limits.append(chain)
        of_calls: list[Limit] = []
        for path in calls:
            if is_collective(path.name):
                of_calls += _collective_limits(scope, owner, path)
            else:
                of_calls += _call_limits(scope, owner, path, of_messages)
        limits += _merge_calls(of_calls, target)

    inside = growing_library_calls(measurements, target)
    for limit in (*_visit_limits(measurements, target), *inside):
        _add_to_calls(limits, limit, target)

    for limit in file_limits(measurements, machine, target):
        _add_file_limit(limits, limit)
    limits += memory_limits(measurements, target)
    limits += device_limits(measurements, target)
    limits += started_threads(measurements, target)
    served = server_limits(measurements, machine, target)
    limits = [*without_served(limits, served), *served]
    limits += find_call_chains(measurements, machine, target)
    limits += find_gathering_creations(measurements, machine, target)
    limits += growing_allocations(measurements, limits, target)
    return settle_work(measurements, merge_callers(limits, measurements.sites))


def _merge_calls(limits: Sequence[Limit], target: float) -> list[Limit]:
    """Limits of one function, with one for all operations that the same loop calls more often."""
    merged: list[Limit] = []
    for limit in sorted(limits, key=lambda limit: -limit.cost(target)):
        for i, larger in enumerate(merged):
            are_calls = larger.metric == limit.metric == VISITS.name and larger.kind == limit.kind
            if are_calls and limit.detail and _has_same_law(larger.growth, limit.growth):
                merged[i] = replace(
                    larger,
                    cost=_sum_of(larger.cost, limit.cost),
                    includes=(*larger.includes, limit.detail),
                )
                break
        else:
            merged.append(limit)
    return [_with_names(limit) if limit.metric == VISITS.name else limit for limit in merged]


def _with_names(limit: Limit) -> Limit:
    """`calls MPI_Bcast {} times, and MPI_Comm_split, MPI_Comm_free` of calls that were merged."""
    if not limit.includes:
        return limit
    names = dict.fromkeys(path.name for path in limit.includes)
    return replace(limit, subject=f"{limit.subject} (also {', '.join(names)})")


def _add_to_calls(limits: list[Limit], visited: Limit, target: float) -> None:
    """Append a limit of visits, or add its cost to the messages that the same loop sends.

    A loop over all ranks that sends messages calls library functions as often; that is one cause.
    """
    same = [
        i
        for i, limit in enumerate(limits)
        if limit.path == visited.path and _has_same_law(limit.growth, visited.growth)
    ]
    if not same or visited.detail is None:
        limits.append(visited)
        return
    most = max(same, key=lambda i: limits[i].cost(target))
    limits[most] = replace(
        limits[most],
        cost=_sum_of(limits[most].cost, visited.cost),
        includes=(*limits[most].includes, visited.detail),
        visited=(*limits[most].visited, visited.detail),
    )


def _add_file_limit(limits: list[Limit], counted: Limit) -> None:
    """Append a limit of files, or replace that of the visits of the same loop by it."""
    for i, limit in enumerate(limits):
        is_same_loop = limit.path == counted.path and limit.metric == VISITS.name
        if is_same_loop and limit.detail and _has_same_law(limit.growth, counted.growth):
            cost = _sum_of(counted.cost, limit.cost)
            limits[i] = replace(counted, cost=cost, includes=(*limit.includes, limit.detail))
            return
    limits.append(counted)


def _sum_of(first: Cost, second: Cost) -> Cost:
    return lambda ranks: first(ranks) + second(ranks)


def _has_same_law(first: CountGrowth, second: CountGrowth) -> bool:
    return _leading_term(first) == _leading_term(second) != ""


def _leading_term(growth: CountGrowth) -> str:
    law = growth.law
    return law.term.order if law is not None and law.term else ""


def _message_limits(scope: _Scope, owner: CallPath, calls: list[CallPath]) -> Iterator[Limit]:
    """Messages between pairs of ranks: a funnel into one rank, or partners that grow.

    Each operation is judged for itself, since a function may exchange with neighbours by one and
    with all ranks by another.
    """
    for path in calls:
        if is_collective(path.name):
            continue
        candidates = []
        for verb in VERBS:
            limit = _pairwise_limit(scope, owner, verb, path)
            if limit is not None:
                candidates.append(replace(limit, detail=path))
        if candidates:
            yield max(candidates, key=lambda limit: (limit.is_exact, limit.cost(scope.target)))


def _pairwise_limit(scope: _Scope, owner: CallPath, verb: str, path: CallPath) -> Limit | None:
    messages_name, bytes_name = VERBS[verb]
    messages = scope.measurements.series([path], messages_name)
    volume = scope.measurements.series([path], bytes_name)
    measurements, machine, target = scope.measurements, scope.machine, scope.target
    p = measurements.p
    visits = measurements.visits_up_from(owner)
    by_count = find_growth(p, messages, target, counts=visits)
    by_bytes = find_growth(p, volume, target, counts=visits)
    is_steady = has_steady_partners(measurements, path)
    if is_steady:
        by_count = without_two_ranks(p, by_count, messages, target)
        by_bytes = without_two_ranks(p, by_bytes, volume, target)
    knows_partners = is_steady or reaches_all(measurements, path, target)
    if knows_partners or is_ladder(messages):
        by_count = replace(by_count, is_certain=True)
        by_bytes = replace(by_bytes, is_certain=True)
    else:
        by_count, by_bytes = doubt_on_few_ranks(p, by_count), doubt_on_few_ranks(p, by_bytes)
        if has_larger_messages(p, by_bytes, volume / messages, target):
            by_bytes = replace(by_bytes, is_certain=True)
    is_larger_each = not by_bytes.is_certain and has_growing_sizes(
        p, by_bytes, by_count, moved=volume, messages=messages
    )
    if is_shared_dynamically(by_count, p, target):
        return None
    subject = f"{verb} {{}} messages"
    by_mean = mean_of_shared(by_count) if knows_partners else None
    if by_mean is not None:
        by_count, subject = by_mean, f"{subject} in the mean"

    are_larger = is_larger_each or are_ever_larger(by_count, by_bytes)
    has_size = by_bytes.law is not None or are_larger

    def cost(ranks: float) -> float:
        count = value_at(by_count, ranks, p, target)
        size = value_at(by_bytes, ranks, p, target) if has_size else 0.0
        return count * machine.latency_s + size / machine.bandwidth

    is_single = by_count.single is not None and by_count.is_growing
    limit = Limit(
        kind="serial" if is_single else "messages",
        path=owner,
        metric=MESSAGES_RECEIVED.name if verb == RECEIVED else MESSAGES_SENT.name,
        unit="1",
        growth=by_count,
        cost=cost,
        is_once=is_once(measurements, owner),
        subject=subject,
        bytes_law=by_bytes.law,
        knows_partners=knows_partners,
    )
    is_of_count = by_count.has_same_order or by_count.law is None
    if not is_larger_each and (is_single or (by_count.is_growing and is_of_count)):
        return limit

    is_alike = by_bytes.has_same_order or by_bytes.single is not None or are_larger
    if has_size and by_bytes.is_growing and is_alike:
        has_faces = is_larger_each and by_bytes.law is not None
        run = next_scale(p, SEPARATING / p[-1]) if has_faces else None
        return replace(
            limit,
            kind="bytes" if by_bytes.single is None else "serial",
            metric=BYTES_RECEIVED.name if verb == RECEIVED else BYTES_SENT.name,
            unit="B",
            growth=by_bytes,
            subject=f"{verb} {{}}",
            condition=LARGER_FACES.format(run) if run is not None else "",
            run=run,
        )
    return None


def _call_limits(
    scope: _Scope, owner: CallPath, path: CallPath, of_messages: Sequence[Limit]
) -> Iterator[Limit]:
    """Calls without messages of their own, such as receives that are posted for all ranks, or locks
    of windows; unless they begin or end the messages of the same function."""
    measurements, p, target = scope.measurements, scope.measurements.p, scope.target
    if is_start_up(path):
        return
    if is_completion(path.name) and not measurements.series([path], VISITS.name).is_uniform:
        return  # as often as it takes, unless all ranks make as many of them
    for metric in (MESSAGES_SENT.name, MESSAGES_RECEIVED.name):
        if measurements.series([path], metric).statistic(np.max).any():
            return

    visits = measurements.visits_up_from(path)
    counts, metric, subject = visits[0], VISITS.name, f"calls {path.name} {{}} times"
    is_exchange = path.name.startswith(NEIGHBOURHOOD)
    if is_exchange:  # each neighbour gets a message with each call, even an empty one
        counts = counts * measurements.series([path], PARTNERS.name)
        metric, subject = PARTNERS.name, "exchanges {} messages"
    if path.name in EPOCHS:  # each rank of the group is told, whether it takes part or not
        counts = measurements.series([path], COMM_RANKS.name)
        metric, subject = COMM_RANKS.name, f"begins epochs with {{}} ranks in {path.name}"
    growth = doubt_on_few_ranks(p, find_growth(p, counts, target, counts=visits[1:]))
    is_alike = growth.single is not None or growth.has_same_order
    if growth.law is None or not growth.is_growing or not is_alike:
        return
    if any(_has_same_law(limit.growth, growth) for limit in of_messages):
        return
    are_messages = is_exchange or path.name in EPOCHS
    price = scope.machine.latency_s if are_messages else visit_price(measurements, path)
    yield Limit(
        kind="messages" if growth.single is None else "serial",
        path=owner,
        metric=metric,
        unit="1",
        growth=growth,
        cost=lambda ranks: price * value_at(growth, ranks, p, target),
        is_once=is_once(measurements, owner),
        subject=subject,
        detail=path,
    )


def _collective_limits(scope: _Scope, owner: CallPath, path: CallPath) -> Iterator[Limit]:
    """Volume, partners or calls of a collective operation that grow."""
    measurements, machine, target = scope.measurements, scope.machine, scope.target
    p = measurements.p
    visits = measurements.visits_up_from(path)
    calls = find_growth(p, visits[0], target, counts=visits[1:])
    candidates: list[Limit] = []

    is_pairwise = path.name in PAIRWISE
    partners = find_growth(p, measurements.series([path], COMM_RANKS.name), target, counts=visits)

    def latency(ranks: float) -> float:
        count = value_at(calls, ranks, p, target)
        if is_pairwise and partners.now > 0:
            # Communicators may be smaller, as rows and columns are; a rank sends nothing to itself.
            return max(value_at(partners, ranks, p, target) - count, 0.0) * machine.latency_s
        return count * collective_steps(path.name, ranks) * machine.latency_s

    base = Limit(
        kind="bytes",
        path=owner,
        metric="",
        unit="B",
        growth=calls,
        cost=latency,
        is_once=is_once(measurements, owner),
        subject="",
        detail=path,
    )
    for verb, metric in ((RECEIVED, BYTES_RECEIVED.name), (SENT, BYTES_SENT.name)):
        moved = measurements.series([path], metric)
        volume = find_growth(p, moved, target, counts=visits)
        of_a_call = (moved / visits[0]).statistic(np.max)[p > 1]  # one rank has nothing to receive
        if volume.law is None and is_constant(of_a_call):
            continue  # there are more calls, and none is larger
        transfer = value_at(volume, target, p, target) / machine.bandwidth
        if calls.law is not None and calls.is_growing and transfer < latency(target):
            continue  # what is in them matters less than that there are more calls
        if _has_same_law(volume, calls) and volume.single is not None:
            continue  # a single rank is the root of each call
        is_unexplained = volume.law is None and volume.exponents[0] > 0
        is_alike = volume.has_same_order or volume.single is not None or is_unexplained
        if volume.is_growing and is_alike:

            def cost(ranks: float, volume: CountGrowth = volume) -> float:
                return latency(ranks) + value_at(volume, ranks, p, target) / machine.bandwidth

            kind = "serial" if volume.single is not None else "bytes"
            subject = f"{verb} {{}}"
            growing = replace(
                base, kind=kind, metric=metric, growth=volume, cost=cost, subject=subject
            )
            candidates.append(growing)

    if is_pairwise:
        if partners.is_growing and (partners.law is not None or partners.exponents[0] > 0):
            candidates.append(
                replace(
                    base,
                    kind="messages",
                    metric=COMM_RANKS.name,
                    unit="1",
                    growth=partners,
                    subject="exchanges {} messages",
                )
            )
    elif calls.is_growing and not candidates and _are_alike(calls, visits[0]):
        subject = f"calls {path.name} {{}} times"
        candidates.append(
            replace(base, kind="messages", metric=VISITS.name, unit="1", subject=subject)
        )
    if candidates:
        yield max(candidates, key=lambda limit: limit.cost(target))


def _are_alike(calls: CountGrowth, visits: RankSeries) -> bool:
    """Whether all ranks make more calls: by the same law, or without a law, equally many."""
    if calls.law is not None:
        return calls.has_same_order
    return calls.exponents[0] > 0 and visits.is_uniform


def _visit_limits(measurements: Measurements, target: float) -> Iterator[Limit]:
    """Functions that a rank visits more often on more ranks."""
    for path in measurements.callpaths:
        is_counted = path.parent is not None and not is_start_up(path)
        if not is_counted or is_mpi(path) or path.name.startswith("("):
            continue
        if path in measurements.file_calls or path in measurements.device_calls:
            continue
        price = visit_price(measurements, path)
        if price <= 0:
            continue
        visits = measurements.visits_up_from(path)
        growth = find_growth(measurements.p, visits[0], target, counts=visits[1:])
        limit = _visit_limit(measurements, path, growth, price, target)
        if limit is None:
            continue
        has_law = limit.growth.law is not None
        if not has_law and follows_partners(measurements, visits[0].statistic(np.max)):
            limit = replace(limit, is_per_partner=True)
        yield limit


def _visit_limit(
    measurements: Measurements, path: CallPath, growth: CountGrowth, price: float, target: float
) -> Limit | None:
    p = measurements.p
    law, mean = growth.law, growth.mean
    looping = looping_caller(measurements, path)
    base = Limit(
        kind="compute",
        path=looping,
        metric=VISITS.name,
        unit="1",
        growth=growth,
        cost=lambda ranks: price * value_at(growth, ranks, p, target),
        is_once=is_once(measurements, looping),
        subject=f"visits {short_name(path.name)} {{}} times",
        detail=path if path != looping else None,
    )
    if growth.is_growing and growth.single is not None:
        return replace(base, kind="serial")

    if law is not None and mean is not None and growth.is_growing and growth.has_same_order:
        if law.at(target) <= UNBALANCED * mean.at(target):
            return base
        is_told_apart = len(p) >= 5  # boundaries of grids imitate laws on fewer scales
        certain = replace(growth, is_certain=growth.is_certain or is_told_apart)
        excess = replace(
            base,
            kind="imbalance",
            growth=certain,
            cost=lambda ranks: price * max(law.at(ranks) - mean.at(ranks), 0.0),
        )
        return excess

    is_own_law = growth.is_growing and is_beyond_neighbours(measurements, path, growth)
    if law is not None and is_own_law:
        # The ranks of a class whose share changes with p, such as corners, follow the law; the mean
        # over all ranks follows none, or another.
        certain = replace(growth, is_certain=True)
        others = growth.mean_now
        return replace(
            base,
            kind="imbalance",
            growth=certain,
            cost=lambda ranks: price * max(law.at(ranks) - others, 0.0),
        )

    has_growing_mean = mean is not None and mean.at(target) > 1.02 * mean.at(float(p[0]))
    if law is None and has_growing_mean and mean is not None:
        # Work that ranks share dynamically: only the sum over ranks repeats.
        shared = replace(growth, law=mean, now=mean.at(float(p[-1])), is_growing=True)
        return replace(base, growth=shared, cost=lambda ranks: price * mean.at(ranks))
    if law is None and growth.is_growing and growth.exponents[0] >= 0:
        return base

    return None
