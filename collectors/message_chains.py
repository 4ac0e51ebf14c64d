"""The longest chain of messages of a run, each sent after the one before it was received.

The length of such a chain is a logical clock [1]: a message carries the clock of its sender, and a
receive sets that of the receiver to at least one more. Unlike waiting, it is the same however many
cores the ranks share. In an exchange between neighbours it grows with the steps, in a sweep from
rank to rank also with the number of ranks.

All of the first messages between two ranks are kept, and windows of the later ones. The chain is
known until the first two ranks have exchanged more. Where all ranks exchange about as many, a
window has the same messages of all of them, and a chain of its own. What the second halves of the
first messages and of windows add to their chains is what further messages add.

[1] Lamport: Time, Clocks, and the Ordering of Events in a Distributed System. CACM 21 (1978).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from insitu.collectors.late_messages import RankMessages
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    PROBED,
    RECEIVED,
)

PAIR_SHIFT = 32  # the upper bits of a key are those of its ranks and communicator
EQUALLY_MANY = 1.1  # times; of the last messages only some are kept


class _Step(NamedTuple):
    """A send or a receive; number: of the message between its two ranks, pair: these ranks."""

    at: int
    is_receive: bool
    rank: int
    key: int
    row: int
    number: int
    pair: int


class _Link(NamedTuple):
    """A received message, and the chain up to it."""

    length: int
    rank: int
    row: int
    before: "_Link | None"


@dataclass(slots=True)
class ChainedRow:
    """The receives of a row in one rank.

    Attributes:
        rank: index of the rank.
        row: of its table.
        known: receives of the first messages between two ranks.
        in_chain: how many of these the longest chain needs.
        further: receives in the second halves of the first messages and of windows.
        further_in_chain: by how many the longest chain of each is longer than that of its first
            half.
    """

    rank: int
    row: int
    known: int = 0
    in_chain: int = 0
    further: int = 0
    further_in_chain: int = 0

    def extend_to(self, received: int) -> float | None:
        """The part of the longest chain if `received` messages arrive, of which some are known.

        None if neither the first messages nor the second halves of windows have any of them.
        """
        unknown = max(received - self.known, 0)
        if self.further:
            return self.in_chain + unknown * max(self.further_in_chain, 0) / self.further
        if self.known:
            return self.in_chain * (1 + unknown / self.known)
        return None


def find_longest_chain(ranks: Sequence[RankMessages]) -> list[ChainedRow]:
    """The rows that receive messages, with their parts of the longest chain of the run.

    Args:
        ranks: the messages of all ranks of the run.

    Returns:
        Nothing if messages are missing, so that the chain is not known.
    """
    if any(rank.level or rank.pairs_level or rank.refused for rank in ranks):
        return []

    steps = sorted(step for number, rank in enumerate(ranks) for step in _steps(number, rank))
    last = next((step.at for step in steps if step.number == MESSAGES_ALWAYS - 1), math.inf)
    first = [step for step in steps if step.at <= last and step.number < MESSAGES_ALWAYS]
    windows: dict[int, list[_Step]] = defaultdict(list)
    if _have_equally_many(steps):
        for step in steps:
            if step.number >= MESSAGES_ALWAYS:
                windows[step.number // MESSAGES_WINDOW].append(step)

    rows: dict[tuple[int, int], ChainedRow] = {}
    for (rank_index, row), (known, in_chain) in _chain_of(first).items():
        rows[rank_index, row] = ChainedRow(rank_index, row, known, in_chain)
    _add_further(rows, first, MESSAGES_ALWAYS // 2)
    for window, members in windows.items():
        _add_further(rows, members, window * MESSAGES_WINDOW + MESSAGES_WINDOW // 2)
    return list(rows.values())


def _have_equally_many(steps: Sequence[_Step]) -> bool:
    """Whether all ranks that exchange messages exchange about as many, in each direction."""
    largest: dict[int, int] = {}
    for step in steps:
        largest[step.pair] = max(largest.get(step.pair, 0), step.number)
    return max(largest.values(), default=0) <= EQUALLY_MANY * min(largest.values(), default=0)


def _add_further(
    rows: dict[tuple[int, int], ChainedRow], steps: Sequence[_Step], middle: int
) -> None:
    """Add what messages from the number `middle` on add to the chain of these steps."""
    half = _chain_of(step for step in steps if step.number < middle)
    for (rank_index, row), (known, in_chain) in _chain_of(steps).items():
        known_before, in_chain_before = half.get((rank_index, row), (0, 0))
        chained = rows.setdefault((rank_index, row), ChainedRow(rank_index, row))
        chained.further += known - known_before
        chained.further_in_chain += in_chain - in_chain_before


def _chain_of(steps: Iterable[_Step]) -> dict[tuple[int, int], tuple[int, int]]:
    """By rank and row: how many receives there are, and how many the longest chain needs.

    Args:
        steps: in the order of time. A message is sent before it is received, and the ranks share a
            clock.
    """
    clocks: dict[int, _Link | None] = {}
    carried: dict[int, _Link | None] = {}
    known: dict[tuple[int, int], int] = {}
    for step in steps:
        if not step.is_receive:
            carried[step.key] = clocks.get(step.rank)
        elif step.key in carried:
            known[step.rank, step.row] = known.get((step.rank, step.row), 0) + 1
            before = carried.pop(step.key)
            length = _length(before) + 1
            if length > _length(clocks.get(step.rank)):
                clocks[step.rank] = _Link(length, step.rank, step.row, before)

    in_chain = dict.fromkeys(known, 0)
    link = max(clocks.values(), key=_length, default=None)
    while link is not None:
        in_chain[link.rank, link.row] += 1
        link = link.before
    return {row: (count, in_chain[row]) for row, count in known.items()}


def _steps(rank_index: int, rank: RankMessages) -> Iterator[_Step]:
    """Each send and each receive of a rank."""
    for event in rank.events:
        if not event.flags & (PROBED | COMPLETED_COLLECTIVE):
            is_receive = bool(event.flags & RECEIVED)
            at = event.end if is_receive else event.posted
            pair = event.key >> PAIR_SHIFT
            yield _Step(at, is_receive, rank_index, event.key, event.row, event.number, pair)


def _length(link: _Link | None) -> int:
    return link.length if link is not None else 0
