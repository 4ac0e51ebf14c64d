"""Intervals between collective calls across nodes: which of them the agent sends.

Each rank keeps the same intervals as the other ranks (`intervals`). Where the call that ends one
has ranks on other nodes, only the aggregator can compare the late rank with those that wait. If
there is no room for all of them, each node drops the same ones, and keeps the longest.
"""

from array import array
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from insitu.collectors.delay_reports import read_intervals
from insitu.collectors.intervals import RankIntervals
from insitu.collectors.node_messages import TYPES, Clock
from insitu.collectors.ranks import NS_PER_S, Rank
from insitu.collectors.table import MPI
from insitu.collectors.table_events import NEEDS_LISTED, NEEDS_LOWER, IntervalEvent
from insitu.wire.messages import INTERVALS_BYTES, NO_INTERVALS, PROFILE_BYTES, Intervals

# All intervals of a node and their profiles, less than a tenth of a frame: with collectives,
# messages and texts, they fit into one.
MAX_BYTES_OF_NODE = 3 << 18
# The aggregator compares 18,000 intervals a second: tests/server/test_delays.py, 1,024 ranks.
MAX_INTERVALS_OF_RUN = 1 << 17
BYTES_OF_INTERVAL = sum(INTERVALS_BYTES.values())
BYTES_OF_PROFILE_ROW = sum(PROFILE_BYTES.values())
MAX_DOUBLINGS = 64  # of the threshold: then only keys near 0 are left


class _Interval(NamedTuple):
    """An interval with what it takes in a message."""

    rank: RankIntervals
    event: IntervalEvent
    share: float  # of the intervals as long as this one, as the key says; see native/intervals.c
    seconds: float
    n_bytes: int


def read_spanning_intervals(
    ranks: Sequence[Rank], left_out: Sequence[Collection[int]]
) -> list[RankIntervals]:
    """The intervals that end with calls whose ranks are not all on this node.

    Args:
        ranks: all ranks of the node.
        left_out: rows of each rank with calls that are compared on single nodes only.
    """
    tables = [read_intervals(rank) for rank in ranks]
    members: dict[int, set[int]] = {}
    for table in tables:
        for event in table.events:
            members.setdefault(event.key, set()).add(event.rank)

    spanning = []
    for table, rows in zip(tables, left_out, strict=True):
        events = [
            event
            for event in table.events
            if len(members[event.key]) < event.size
            and event.row not in rows
            and event.row < len(table.node_rows)  # otherwise the table is damaged
            and event.needs not in (NEEDS_LOWER, NEEDS_LISTED)
        ]
        spanning.append(replace(table, events=events))
    return spanning


def describe_intervals(ranks: Sequence[RankIntervals], *, clock: Clock, size: int) -> Intervals:
    """The intervals of `read_spanning_intervals`, as many as there is room for.

    Args:
        ranks: all ranks of the node.
        clock: of the node.
        size: the number of ranks of the run.
    """
    threshold_s = max((rank.threshold * rank.tick_s for rank in ranks), default=0.0)
    limit = MAX_INTERVALS_OF_RUN * len(ranks) // max(size, 1)
    intervals, threshold_s = _thin_out(_list_intervals(ranks), threshold_s, limit)
    if not intervals:
        return NO_INTERVALS

    columns = {name: array(TYPES[width]) for name, width in INTERVALS_BYTES.items()}
    columns["needs"] = array("i")
    profile_rows, profile_seconds = array("I"), array("f")
    for rank, event, *_ in intervals:
        profile = rank.profile(event)
        profile_rows.extend(profile)
        profile_seconds.extend(profile.values())
        values = {
            "keys": event.key,
            "previous_keys": event.previous_key,
            "starts": clock.to_ns(event.start),
            "begins": clock.to_ns(event.begin),
            "ends": clock.to_ns(event.end),
            "ranks": rank.number,
            "members": event.rank,
            "sizes": event.size,
            "rows": rank.node_rows[event.row],
            "needs": event.needs,
            "counts": len(profile),
        }
        for name, value in values.items():
            columns[name].append(value)

    mpi_rows = set()
    for rank in ranks:
        of_rank = zip(rank.node_rows, rank.kinds, strict=False)
        mpi_rows |= {node_row for node_row, kind in of_rank if kind == MPI}
    return Intervals(
        **{name: column.tobytes() for name, column in columns.items()},
        profile_rows=profile_rows.tobytes(),
        profile_seconds=profile_seconds.tobytes(),
        mpi_rows=array("I", sorted(mpi_rows)).tobytes(),
        threshold_ns=round(threshold_s * NS_PER_S),
        is_sampled=any(rank.sample_s for rank in ranks),
    )


def _list_intervals(ranks: Sequence[RankIntervals]) -> list[_Interval]:
    intervals = []
    for rank in ranks:
        for event in rank.events:
            seconds = max(event.end - event.start, 1) * rank.tick_s
            n_bytes = BYTES_OF_INTERVAL + BYTES_OF_PROFILE_ROW * len(event.rows)
            intervals.append(_Interval(rank, event, event.key * 2.0**-64, seconds, n_bytes))
    return intervals


def _thin_out(
    intervals: list[_Interval], threshold_s: float, limit: int
) -> tuple[list[_Interval], float]:
    """The intervals that there is room for, and the length from which on all are kept.

    Each rank has thinned out its intervals in the same manner, with a threshold of its own.
    """
    kept = [entry for entry in intervals if entry.share * threshold_s < entry.seconds]
    for _ in range(MAX_DOUBLINGS):
        n_bytes = sum(entry.n_bytes for entry in kept)
        if len(kept) <= limit and n_bytes <= MAX_BYTES_OF_NODE:
            return kept, threshold_s
        threshold_s = max(2 * threshold_s, min(entry.seconds for entry in kept))
        kept = [entry for entry in kept if entry.share * threshold_s < entry.seconds]
    return [], threshold_s
