"""The longest chain of messages of a run, each sent after the one before it was received.

The length of such a chain is a logical clock [1]: a message carries the clock of its sender, and a
receive sets that of the receiver to at least one more. Unlike waiting, it is the same however many
cores the ranks share. In an exchange between neighbours it grows with the steps, in a sweep from
rank to rank also with the number of ranks.

[1] Lamport: Time, Clocks, and the Ordering of Events in a Distributed System. CACM 21 (1978).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from insitu.collectors.late_messages import RankMessages
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    MESSAGES_ALWAYS,
    PROBED,
    RECEIVED,
)


class _Link(NamedTuple):
    """A received message, and the chain up to it."""

    length: int
    rank: int
    row: int
    before: "_Link | None"


class ChainedRows(NamedTuple):
    """The receives of a row in one rank: those known, and those that the longest chain needs."""

    rank: int
    row: int
    known: int
    in_chain: int


def find_longest_chain(ranks: Sequence[RankMessages]) -> list[ChainedRows]:
    """The rows that receive messages, with their parts of the longest chain of the run.

    The first messages between two ranks are all kept; only these count.

    Args:
        ranks: the messages of all ranks of the run.

    Returns:
        Nothing if messages are missing, so that the chain is not known.
    """
    if any(rank.level or rank.pairs_level or rank.refused for rank in ranks):
        return []

    # A message is sent before it is received, and the ranks share a clock.
    steps = sorted(step for number, rank in enumerate(ranks) for step in _steps(number, rank))
    clocks: list[_Link | None] = [None] * len(ranks)
    carried: dict[int, _Link | None] = {}
    known: dict[tuple[int, int], int] = {}
    for _, is_receive, rank, key, row in steps:
        if not is_receive:
            carried[key] = clocks[rank]
        elif key in carried:
            known[rank, row] = known.get((rank, row), 0) + 1
            before = carried.pop(key)
            length = _length(before) + 1
            if length > _length(clocks[rank]):
                clocks[rank] = _Link(length, rank, row, before)

    in_chain = dict.fromkeys(known, 0)
    link = max(clocks, key=_length, default=None)
    while link is not None:
        in_chain[link.rank, link.row] += 1
        link = link.before
    return [ChainedRows(rank, row, known[rank, row], in_chain[rank, row]) for rank, row in known]


def _steps(number: int, rank: RankMessages) -> Iterator[tuple[int, bool, int, int, int]]:
    """Each send and each receive of a rank: when, whether it is a receive, rank, key, row."""
    for event in rank.events:
        if event.number < MESSAGES_ALWAYS and not event.flags & (PROBED | COMPLETED_COLLECTIVE):
            is_receive = bool(event.flags & RECEIVED)
            at = event.end if is_receive else event.posted
            yield at, is_receive, number, event.key, event.row


def _length(link: _Link | None) -> int:
    return link.length if link is not None else 0
