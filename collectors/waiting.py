"""How long ranks wait in MPI calls until the ranks that they need are there.

The ranks of a node share a clock. Each rank keeps a sample of its blocking collective calls, chosen
so that all ranks sample the same calls. The agent compares when they entered. The share of the time
that a rank waited in the sampled calls of a call path is applied to all calls of that path.

The operation itself takes from the entry of the last rank to the exit of the last rank. The first
quartile of these times is robust against noise [VAL §3.2]. Waiting for messages and in
non-blocking collectives is in `late_messages`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from insitu.collectors.call_chains import find_call_chain
from insitu.collectors.collectives import (
    find_spanning_rows,
    find_started,
    without_spanning_rows,
)
from insitu.collectors.late_messages import (
    MAX_MISFITS,
    MAX_REFUSED,
    MIN_CALLS,
    LateCall,
    Waits,
    sample_messages,
)
from insitu.collectors.message_chains import ChainedRow, find_longest_chain
from insitu.collectors.node_messages import RankTotals, find_message_rows, read_messages
from insitu.collectors.ranks import GaugeValues, Rank
from insitu.collectors.table_events import (
    NEEDS_ALL,
    NEEDS_LOWER,
    CollectiveEvent,
    needed_ranks,
)

LEAST_UNCOMPARED = 0.01  # share of the time of all ranks from which calls without waiting matter

# Collective calls whose waiting cannot be known, by the field of the header that counts them.
UNCOMPARED = {
    "uncompared_inter": "collective calls on intercommunicators",
    "uncompared_unnumbered": "collective calls on communicators that ranks number differently"
    " (of sessions, of spawned ranks, or more than 1,024 at a time)",
    "uncompared_unlisted": "neighbourhood collectives with too many neighbours to store",
}


class WaitingSample:
    """Time of the sampled calls of one row in one rank, in ticks."""

    __slots__ = ("calls", "misfits", "operations", "time", "waited")

    def __init__(self) -> None:
        self.calls = self.misfits = 0
        self.time = self.waited = 0
        self.operations: list[int] = []  # of all ranks together, without waiting

    def share(self, visits: int) -> float | None:
        """The share of the time that is waiting; None if the sample does not tell."""
        return self.waited / self.time if self.time and self.is_telling(visits) else None

    def is_telling(self, visits: int) -> bool:
        """Whether these calls represent all calls of the row."""
        if not self.calls or self.calls < min(visits, MIN_CALLS):
            return False
        return self.misfits <= MAX_MISFITS * (self.calls + self.misfits)


Samples = dict[int, WaitingSample]  # by row


def sample_waiting(ranks: Iterable[Iterable[CollectiveEvent]]) -> list[Samples]:
    """Add up the waiting times of sampled calls.

    A call counts if all ranks of its communicator are on this node and have sampled it.

    Args:
        ranks: the collective events of each rank.

    Returns:
        The samples of each rank, by row.
    """
    samples: list[Samples] = []
    calls: dict[int, list[tuple[Samples, CollectiveEvent]]] = {}
    for events in ranks:
        rows: Samples = {}
        samples.append(rows)
        for event in events:
            calls.setdefault(event.key, []).append((rows, event))

    for members in calls.values():
        _add_call(members)
    return samples


def _add_call(members: Sequence[tuple[Samples, CollectiveEvent]]) -> None:
    """Add one collective call to the samples of its ranks, if all of them are known."""
    begins = {event.rank: event.begin for _, event in members}
    size = members[0][1].size
    if len(members) != size or begins.keys() != set(range(size)):
        return

    # For each rank, when the last of the ranks up to it has entered.
    latest_begins = list(accumulate((begins[rank] for rank in range(size)), max))
    ready_at = [_ready_at(event, begins, latest_begins) for _, event in members]

    # If a rank left before another one that it needs had entered, the events are not one call.
    is_one_call = all(
        ready <= event.end for (_, event), ready in zip(members, ready_at, strict=True)
    )
    operation = max(event.end for _, event in members) - latest_begins[-1]
    for (rows, event), ready in zip(members, ready_at, strict=True):
        sample = rows.setdefault(event.row, WaitingSample())
        if not is_one_call:
            sample.misfits += 1
            continue
        sample.calls += 1
        sample.operations.append(max(operation, 0))
        sample.time += event.end - event.begin
        sample.waited += max(ready - event.begin, 0)


def _ready_at(event: CollectiveEvent, begins: dict[int, int], latest_begins: list[int]) -> int:
    """When all ranks that this rank needs have entered the call, in ticks."""
    if event.needs == NEEDS_ALL:
        return latest_begins[-1]
    if event.needs == NEEDS_LOWER:
        return latest_begins[event.rank]
    return max((begins[rank] for rank in needed_ranks(event)), default=event.begin)


def find_waits(
    ranks: Sequence[Rank], ended: Iterable[tuple[Rank, RankTotals]], *, is_whole_run: bool = True
) -> tuple[list[GaugeValues], list[LateCall]]:
    """The waiting times of ranks that have ended, and the times of collective operations (s).

    `time_waiting` is waiting in and for collective calls, and for messages the sum of
    `time_late_sender` and `time_late_receiver`.

    Args:
        ranks: all ranks of the node.
        ended: the ranks whose values are due, with the totals of their rows.
        is_whole_run: no rank of the run is on another node.

    Returns:
        The values, and the sampled calls that waited for messages.
    """
    totals_by_rank = {id(rank): totals for rank, totals in ended}
    if not totals_by_rank:
        return [], []

    all_totals = [totals_by_rank.get(id(rank)) for rank in ranks]
    events = [rank.table.collective_events() for rank in ranks]
    collectives = sample_waiting(without_spanning_rows(events, is_whole_run=is_whole_run))
    messages = [read_messages(rank, totals) for rank, totals in zip(ranks, all_totals, strict=True)]
    samples, late_calls = sample_messages(messages)
    started = [find_started(kept.events) for kept in messages]
    spanning = [
        of_collectives | of_messages
        for of_collectives, of_messages in zip(
            find_spanning_rows(started, is_whole_run=is_whole_run),
            find_message_rows(messages, is_whole_run=is_whole_run),
            strict=True,
        )
    ]

    gauges: list[GaugeValues] = []
    for number, rank in enumerate(ranks):
        totals = all_totals[number]
        if totals is None:
            continue

        node_rows = _NodeRows(rank)
        operations: dict[int, list[int]] = {}  # by row of the node
        for row, sample in collectives[number].items():
            if not node_rows.has(row):
                continue
            share = sample.share(totals["visits"][row])
            if share is not None:
                node_rows.add(row, "time_waiting", share * totals["time"][row] * rank.tick_s)
            if sample.is_telling(totals["visits"][row]):
                operations.setdefault(rank.node_rows[row], []).extend(sample.operations)
        for node_row, ticks in operations.items():
            values = node_rows.values.setdefault(node_row, {})
            values["collective_time"] = _first_quartile(ticks) * rank.tick_s
            values["collective_time_min"] = min(ticks) * rank.tick_s

        kept = messages[number]
        if kept.refused <= MAX_REFUSED * kept.total:
            for row, calls in samples[number].items():
                if node_rows.has(row) and row not in spanning[number]:
                    waits = calls.waits(
                        totals["visits"][row],
                        totals["time"][row],
                        rank.tick_s,
                        is_complete=kept.is_complete,
                    )
                    if waits is not None:
                        node_rows.add_waits(row, waits)
        gauges += [(rank.number, row, values) for row, values in node_rows.values.items()]
    if is_whole_run and None not in all_totals:
        known_totals = [totals for totals in all_totals if totals]
        complete = _if_complete(events, known_totals)
        chain = find_longest_chain(messages, complete)
        gauges += _chain_gauges(ranks, chain, known_totals, count="messages_received")
        gauges += _chain_gauges(ranks, find_call_chain(complete), known_totals, count="visits")
    known = [kept.refused <= MAX_REFUSED * kept.total for kept in messages]
    return gauges, [call for call in late_calls if known[call.rank]]


def _if_complete(
    events: list[list[CollectiveEvent]], totals: Sequence[RankTotals]
) -> list[list[CollectiveEvent]]:
    """The collective calls of each rank; none if some of their calls are not in the sample."""
    for of_rank, its in zip(events, totals, strict=True):
        for row, count in Counter(event.row for event in of_rank).items():
            if row >= len(its["visits"]) or its["visits"][row] != count:
                return []
    return events


def _chain_gauges(
    ranks: Sequence[Rank],
    chain: Sequence[ChainedRow],
    totals: Sequence[RankTotals],
    *,
    count: str,
) -> list[GaugeValues]:
    """The part of each call path in the longest chain; the same on all its ranks.

    Where more messages were received than are known, each of them adds as much as further messages
    do, or else as those that are known.

    Args:
        ranks: all ranks of the run.
        chain: of messages, or of collective calls.
        totals: of the ranks.
        count: the column that counts what is chained.
    """
    parts: dict[int, ChainedRow] = {}  # by row of the node
    received: dict[int, int] = {}
    receivers: dict[int, set[int]] = {}  # numbers of ranks
    for chained in chain:
        rank = ranks[chained.rank]
        if chained.row >= len(rank.node_rows):
            return []  # the table is damaged
        row = rank.node_rows[chained.row]
        part = parts.setdefault(row, ChainedRow(0, row))
        part.add(chained)
        of_rank = totals[chained.rank][count][chained.row]
        received[row] = received.get(row, 0) + of_rank
        receivers.setdefault(row, set()).add(rank.number)

    gauges: list[GaugeValues] = []
    for row, numbers in receivers.items():
        links = parts[row].extend_to(received[row])
        if links is None:
            continue
        values = {"message_chain": links}
        if parts[row].in_chain:
            gap_s = parts[row].gap * ranks[0].tick_s
            values["message_chain_time"] = gap_s * links / parts[row].in_chain
        gauges += [(number, row, values) for number in sorted(numbers)]
    return gauges


class _NodeRows:
    """Values of a rank by row of the node; several rows of the rank may be one call path."""

    def __init__(self, rank: Rank) -> None:
        self.rows = rank.node_rows
        self.values: dict[int, dict[str, float]] = {}

    def has(self, row: int) -> bool:
        """Whether the row exists; it may not in a damaged table."""
        return row < len(self.rows)

    def add(self, row: int, metric: str, value: float) -> None:
        """Add a value to those of a row."""
        values = self.values.setdefault(self.rows[row], {})
        values[metric] = values.get(metric, 0.0) + value

    def add_waits(self, row: int, waits: Waits) -> None:
        """Add the waiting of calls that complete messages and collectives."""
        waited = waits.collective
        if waits.late_sender is not None and waits.late_receiver is not None:
            self.add(row, "time_late_sender", waits.late_sender)
            self.add(row, "time_late_receiver", waits.late_receiver)
            waited += waits.late_sender + waits.late_receiver
        self.add(row, "time_waiting", waited)


def describe_uncompared(ranks: Iterable[Rank]) -> str:
    """Which collective calls have no waiting times; "" if they took no time worth mentioning."""
    calls = dict.fromkeys(UNCOMPARED, 0)
    in_calls_s = elapsed_s = 0.0
    for rank in ranks:
        head = rank.table.header
        in_calls_s += head.uncompared_ticks * rank.tick_s
        elapsed_s += (head.latest_tick - head.start_tick) * rank.tick_s
        for field in calls:
            calls[field] += getattr(head, field)
    if in_calls_s == 0 or in_calls_s < LEAST_UNCOMPARED * elapsed_s:
        return ""
    kinds = " and ".join(UNCOMPARED[field] for field, number in calls.items() if number)
    return f"time_waiting is not known of {kinds}: {in_calls_s:.3g} s in the ranks of the node"


def _first_quartile(values: Sequence[int]) -> float:
    """The first quartile, by linear interpolation between the two nearest values."""
    ordered = sorted(values)
    below, share = divmod((len(ordered) - 1) / 4, 1)
    above = min(int(below) + 1, len(ordered) - 1)
    return ordered[int(below)] * (1 - share) + ordered[above] * share
