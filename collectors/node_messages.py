"""Messages between nodes: which of them the agent sends to the aggregator.

Both sides of a message are in the samples of their ranks, which are chosen alike. If a side is
missing on this node, it is on another one, and only the aggregator knows how long the call waited
that completed the message. It then needs all calls of this row, with both sides of their
messages. Messages of other rows are compared on the node (`late_messages`).
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from insitu.collectors.late_messages import (
    MAX_REFUSED,
    RankMessages,
    describe_refused,
    least_dropped_key,
)
from insitu.collectors.ranks import Rank
from insitu.collectors.table import MPI
from insitu.collectors.table_events import COMPLETED_COLLECTIVE, PROBED, RECEIVED, MessageEvent
from insitu.wire.messages import MESSAGES_BYTES, WHOLE_SAMPLE, PointToPoint

# Messages and sides that a node sends, 64 bytes each, a quarter of a frame; of all nodes together.
MAX_MESSAGES_OF_NODE = 1 << 15
MAX_MESSAGES_OF_RUN = 1 << 22
MIN_MESSAGES_OF_RANK = 64
TYPES = {4: "I", 8: "Q"}

RankTotals = Mapping[str, "array[int]"]


class Clock(Protocol):
    """Converts ticks to nanoseconds of the node's clock."""

    def to_ns(self, tick: int) -> int:
        """Nanoseconds since any time."""


def count_messages(rank: Rank, totals: RankTotals) -> int:
    """The messages that a rank has sent and received."""
    if "messages_sent" not in totals:
        return 0
    # Rows of other kinds have other columns in the same memory.
    rows = [i for i, row in enumerate(rank.table.rows) if row.kind == MPI]
    return sum(totals["messages_sent"][i] + totals["messages_received"][i] for i in rows)


def describe_unnumbered(rank: Rank) -> str:
    """Why the waiting for messages of a rank is not known; "" if it is, or without messages."""
    total = count_messages(rank, rank.table.totals(rank.tick_s))
    return describe_refused(rank.table.header, total)


def read_messages(rank: Rank, totals: RankTotals | None) -> RankMessages:
    """The messages that a rank has kept."""
    header = rank.table.header
    return RankMessages(
        rank.table.message_events(),
        level=header.messages_level,
        pairs_level=header.message_pairs_level,
        refused=header.messages_refused,
        total=count_messages(rank, totals) if totals is not None else 0,
        collectives=header.collectives_started,
    )


def find_message_rows(ranks: Sequence[RankMessages], *, is_whole_run: bool) -> list[set[int]]:
    """For each rank, its rows with calls that complete messages of other nodes."""
    if is_whole_run:
        return [set() for _ in ranks]
    kept = _kept_by_all(ranks, max((rank.level for rank in ranks), default=0))
    both = _keys_of_both_sides(kept)
    return [
        {event.row for event in events if event.members and event.key not in both}
        for events in kept
    ]


def describe_messages(
    ranks: Sequence[Rank],
    messages: Sequence[RankMessages],
    rows: Sequence[set[int]],
    *,
    clock: Clock,
    size: int,
) -> PointToPoint:
    """The sampled messages that only the aggregator can compare.

    Args:
        ranks: the ranks of this node.
        messages: of each of them.
        rows: those of `find_message_rows`.
        clock: of this node.
        size: the number of ranks of the run.
    """
    limit = max(MIN_MESSAGES_OF_RANK, MAX_MESSAGES_OF_RUN // max(size, 1)) * len(ranks)
    limit = min(limit, MAX_MESSAGES_OF_NODE)
    least = max(kept.level for kept in messages)
    chosen = _choose(messages, rows, least)
    level = _find_level([event.level for events in chosen for event in events], limit)
    level = max(level, least)

    columns = {name: array(TYPES[width]) for name, width in MESSAGES_BYTES.items()}
    for rank, kept, own_rows, events in zip(ranks, messages, rows, chosen, strict=True):
        is_known = kept.refused <= MAX_REFUSED * kept.total
        flag = WHOLE_SAMPLE if level == 0 and kept.is_complete else 0
        for event in events:
            if event.level < level or event.row >= len(rank.node_rows):
                continue  # the latter in a damaged table
            values = {
                "keys": event.key,
                "ranks": rank.number,
                "rows": rank.node_rows[event.row],
                "calls": event.call,
                "counts": event.members if is_known and event.row in own_rows else 0,
                "numbers": event.number,
                "sizes": event.size,
                "flags": event.flags | flag,
                "levels": level,
                "posted": clock.to_ns(event.posted),
                "begins": clock.to_ns(event.begin),
                "ends": clock.to_ns(event.end),
            }
            for name, value in values.items():
                columns[name].append(value)
    return PointToPoint(**{name: column.tobytes() for name, column in columns.items()})


def _find_level(levels: Sequence[int], limit: int) -> int:
    """The lowest level of sampling up to which at most so many messages are kept."""
    kept, level = len(levels), 0
    for dropped, its_messages in sorted(Counter(levels).items()):
        if kept <= limit:
            break
        kept -= its_messages
        level = dropped + 1
    return level


def _choose(
    ranks: Sequence[RankMessages], rows: Sequence[set[int]], level: int
) -> list[list[MessageEvent]]:
    """The events of each rank that the aggregator needs, at a level of sampling."""
    kept = _kept_by_all(ranks, level)
    both = _keys_of_both_sides(kept)
    wanted = {event.key for events in kept for event in events if event.key not in both}
    for events, own_rows in zip(kept, rows, strict=True):
        wanted.update(event.key for event in events if event.members and event.row in own_rows)
    return [[event for event in events if event.key in wanted] for events in kept]


def _kept_by_all(ranks: Sequence[RankMessages], level: int) -> list[list[MessageEvent]]:
    """The messages of each rank that no rank of the node has dropped, up to a level."""
    dropped_from = least_dropped_key(ranks)
    return [
        [
            event
            for event in rank.events
            if event.key < dropped_from
            and event.level >= level
            and not event.flags & COMPLETED_COLLECTIVE
        ]
        for rank in ranks
    ]


def _keys_of_both_sides(ranks: Sequence[Sequence[MessageEvent]]) -> set[int]:
    """The messages whose sender and receiver are on this node."""
    sent: set[int] = set()
    received: set[int] = set()
    for events in ranks:
        for event in events:
            if not event.flags & PROBED:
                (received if event.flags & RECEIVED else sent).add(event.key)
    return sent & received
