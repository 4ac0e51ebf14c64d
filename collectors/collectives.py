"""Calls across nodes: which of them the agent sends to the aggregator.

A rank keeps a sample of its blocking calls, and one of its non-blocking and persistent collectives.
If some calls of a row have ranks on other nodes, the agent sends the calls of this row, and the
aggregator compares them with those of the other nodes. Other rows are compared on the node
(`waiting`). Messages are chosen by `node_messages`, and what ranks did before the calls by
`node_intervals`.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from insitu.collectors.node_intervals import describe_intervals, read_spanning_intervals
from insitu.collectors.node_messages import describe_messages, find_message_rows, read_messages
from insitu.collectors.ranks import NS_PER_S, Rank
from insitu.collectors.round_trips import RoundTrips
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    CollectiveEvent,
    MessageEvent,
)
from insitu.wire.messages import (
    NO_COLLECTIVES,
    NO_INTERVALS,
    NO_MESSAGES,
    Collectives,
    Intervals,
    PointToPoint,
)

# Events that all nodes of a run send together, and those of a rank that are always sent. Of the
# events of each row, those with the smallest keys are sent, which are the same in all ranks.
MAX_EVENTS_OF_RUN = 1 << 22
MIN_EVENTS_OF_RANK = 64
MAX_EVENTS_OF_NODE = 1 << 16  # 56 bytes each, less than half of a frame

MAX_NS = (1 << 63) - 1  # times of damaged tables may be larger

# Collective calls that libraries may let ranks leave before others have entered, as far as they are
# recorded: these do not bound the clocks of nodes, and are compared on single nodes only.
LOOSE_CALLS = {"MPI_Win_fence", "MPI_Win_free", "MPI_File_close", "MPI_File_sync"} | {
    f"MPI_File_{access}{which}"
    for access in ("read_", "write_")
    for which in ("all", "at_all", "ordered")
}
LOOSE_CALLS |= {f"MPI_File_{name}" for name in ("set_size", "set_view", "preallocate")}


class StartedCollective(NamedTuple):
    """A non-blocking or persistent collective that a call completed; see `CollectiveEvent`."""

    key: int
    begin: int  # ticks, of the call that completed it
    end: int
    row: int  # of that call
    needs: int
    rank: int
    size: int
    arrival: int  # ticks, when it was started
    weight: float  # the reciprocal of the share of such collectives that are sampled


def find_started(events: Sequence[MessageEvent]) -> list[StartedCollective]:
    """The collectives of a rank that were started, and each completed by a call of its own.

    Rows with calls that complete anything else in the sample are left out, since these collectives
    do not represent their calls.
    """
    mixed = set()
    for event in events:
        is_collective = event.flags & COMPLETED_COLLECTIVE and event.size
        if not is_collective or event.members != 1:
            mixed.add(event.row)

    started = []
    for event in events:
        if event.row in mixed:
            continue
        # As `late_messages` weighs them; all ranks of a collective give it the same weight.
        window = event.number // MESSAGES_WINDOW * MESSAGES_WINDOW
        weight = max(1.0, window / MESSAGES_ALWAYS)
        head = event.key, event.begin, event.end, event.row
        its = StartedCollective(
            *head, event.needs, event.rank, event.size, arrival=event.posted, weight=weight
        )
        started.append(its)
    return started


def find_spanning_rows(
    ranks: Sequence[Sequence[CollectiveEvent | StartedCollective]], *, is_whole_run: bool
) -> list[set[int]]:
    """For each rank, its rows with calls whose ranks are not all on this node."""
    if is_whole_run:
        return [set() for _ in ranks]
    members = Counter(event.key for events in ranks for event in events)
    return [{event.row for event in events if members[event.key] < event.size} for events in ranks]


def without_spanning_rows(
    ranks: Sequence[Sequence[CollectiveEvent]], *, is_whole_run: bool
) -> list[list[CollectiveEvent]]:
    """The events of each rank that are compared on this node."""
    spanning = find_spanning_rows(ranks, is_whole_run=is_whole_run)
    return [
        [event for event in events if event.row not in rows]
        for events, rows in zip(ranks, spanning, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SpanningCalls:
    """What only the aggregator can compare."""

    collectives: Collectives = NO_COLLECTIVES
    messages: PointToPoint = NO_MESSAGES
    intervals: Intervals = NO_INTERVALS


def describe_spanning_calls(
    ranks: Sequence[Rank], *, size: int, round_trips: RoundTrips
) -> SpanningCalls:
    """The sampled collectives and messages that only the aggregator can compare.

    Args:
        ranks: the ranks of this node.
        size: the number of ranks of the run.
        round_trips: of the agent of this node.
    """
    if len(ranks) >= size:
        return SpanningCalls()
    messages = [read_messages(rank, rank.table.totals(rank.tick_s)) for rank in ranks]
    loose_rows = [_loose_rows(rank) for rank in ranks]
    events = [
        [*_as_started(_bounding_calls(rank, loose)), *find_started(kept.events)]
        for rank, loose, kept in zip(ranks, loose_rows, messages, strict=True)
    ]
    spanning = find_spanning_rows(events, is_whole_run=False)
    message_rows = find_message_rows(messages, is_whole_run=False)
    if not any(spanning) and not any(message_rows):
        return SpanningCalls()

    intervals = read_spanning_intervals(ranks, loose_rows)
    starts = [event.arrival for of_rank in events for event in of_rank]
    starts += [event.posted for kept in messages for event in kept.events]
    starts += [event.start for of_rank in intervals for event in of_rank.events]
    clock = _NodeClock(ranks, min(starts))
    if not clock.ns_per_tick:
        return SpanningCalls()
    collectives = _describe_collectives(ranks, events, spanning, clock=clock, size=size)
    return SpanningCalls(
        replace(
            collectives,
            is_steady=all(rank.table.header.is_tsc for rank in ranks),
            listener=round_trips.listener,
            trips=round_trips.to_bytes(clock.start_ns) if clock.start_ns is not None else b"",
        ),
        describe_messages(ranks, messages, message_rows, clock=clock, size=size),
        describe_intervals(intervals, clock=clock, size=size),
    )


def _describe_collectives(
    ranks: Sequence[Rank],
    events: Sequence[Sequence[StartedCollective]],
    spanning: Sequence[set[int]],
    *,
    clock: "_NodeClock",
    size: int,
) -> Collectives:
    """The collectives of spanning rows."""
    limit = max(MIN_EVENTS_OF_RANK, MAX_EVENTS_OF_RUN // max(size, 1))
    limit = min(limit, MAX_EVENTS_OF_NODE // len(ranks))
    keys, begins, ends, arrivals = array("Q"), array("Q"), array("Q"), array("Q")
    weights = array("f")
    numbers, needs = array("i"), array("i")
    members, sizes, rows = array("I"), array("I"), array("I")
    for rank, of_rank, spanning_rows in zip(ranks, events, spanning, strict=True):
        for event in _smallest_keys(of_rank, spanning_rows, limit):
            if event.row >= len(rank.node_rows):
                continue  # of a damaged table
            keys.append(event.key)
            begins.append(clock.to_ns(event.begin))
            ends.append(clock.to_ns(event.end))
            arrivals.append(clock.to_ns(event.arrival))
            weights.append(event.weight)
            numbers.append(rank.number)
            needs.append(event.needs)
            members.append(event.rank)
            sizes.append(event.size)
            rows.append(rank.node_rows[event.row])

    return Collectives(
        keys=keys.tobytes(),
        ranks=numbers.tobytes(),
        members=members.tobytes(),
        sizes=sizes.tobytes(),
        rows=rows.tobytes(),
        begins=begins.tobytes(),
        ends=ends.tobytes(),
        needs=needs.tobytes(),
        arrivals=arrivals.tobytes(),
        weights=weights.tobytes(),
    )


def _loose_rows(rank: Rank) -> set[int]:
    """The rows of a rank with calls that libraries may let ranks leave early."""
    return {row for row, its in enumerate(rank.table.rows) if its.name in LOOSE_CALLS}


def _bounding_calls(rank: Rank, loose: set[int]) -> list[CollectiveEvent]:
    """The blocking calls of a rank that none of its ranks leaves before others have entered."""
    return [event for event in rank.table.collective_events() if event.row not in loose]


def _as_started(events: Sequence[CollectiveEvent]) -> list[StartedCollective]:
    """Blocking calls, which start when they begin, and are sampled evenly."""
    return [StartedCollective(*event[:7], arrival=event.begin, weight=1.0) for event in events]


class _NodeClock:
    """Converts ticks to nanoseconds since the first event.

    The ranks of a node share a clock. The rank that has run for the longest time shows its rate
    best, in relation to the unslewed clock that the agent reads, too.
    """

    def __init__(self, ranks: Sequence[Rank], origin: int) -> None:
        self.origin = origin
        self.ns_per_tick = max(rank.tick_s for rank in ranks) * NS_PER_S
        self.start_ns: int | None = None  # of the unslewed clock at the origin
        headers = [rank.table.header for rank in ranks]
        longest = max(headers, key=lambda head: head.last_tick - head.first_tick)
        if longest.last_tick > longest.first_tick:  # 0 if the rank was killed
            elapsed_ns = longest.last_unslewed_ns - longest.first_unslewed_ns
            self.ns_per_tick = elapsed_ns / (longest.last_tick - longest.first_tick)
            elapsed_ns = round((origin - longest.first_tick) * self.ns_per_tick)
            self.start_ns = longest.first_unslewed_ns + elapsed_ns

    def to_ns(self, tick: int) -> int:
        """Nanoseconds since the first event, within the limits of the message."""
        return min(max(round((tick - self.origin) * self.ns_per_tick), 0), MAX_NS)


def _smallest_keys(
    events: Sequence[StartedCollective], spanning_rows: set[int], limit: int
) -> list[StartedCollective]:
    """The events of these rows with the smallest keys, equally many of each row."""
    by_row: dict[int, list[StartedCollective]] = {}
    for event in events:
        if event.row in spanning_rows:
            by_row.setdefault(event.row, []).append(event)

    chosen: list[StartedCollective] = []
    room = limit
    rows_by_size = sorted(by_row.values(), key=len)
    for i, of_row in enumerate(rows_by_size):
        share = room // (len(rows_by_size) - i)
        chosen += sorted(of_row)[:share]
        room -= min(share, len(of_row))
    return chosen
