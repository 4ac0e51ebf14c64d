"""The longest chain of messages of a run, each sent after the one before it was received.

The length of such a chain is a logical clock [1]: a message carries the clock of its sender, and a
receive sets that of the receiver to at least one more. Unlike waiting, it is the same however many
cores the ranks share. In an exchange between neighbours it grows with the steps, in a sweep from
rank to rank also with the number of ranks. A collective call sets the clock of each rank to that of
the latest rank whose arrival it needs, where all collective calls of the run are known.

All of the first messages between two ranks are kept, and windows of the later ones. The chain is
known until the first two ranks have exchanged more. Where all ranks exchange about as many, a
window has the same messages of all of them, and a chain of its own. What the second halves of the
first messages and of windows add to their chains is what further messages add.

Messages that all go in one direction, as upwind in each step, make a chain through all ranks, too,
but in as many steps: no rank waits for it. Where ranks exchange more messages than the chain has,
it is that of one message from each rank to each other, of the round with the longest. This holds
between collective calls in which each rank waits for all others: no message overtakes them.

[1] Lamport: Time, Clocks, and the Ordering of Events in a Distributed System. CACM 21 (1978).
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from insitu.collectors.late_messages import RankMessages
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    NEEDS_ALL,
    PROBED,
    RECEIVED,
    CollectiveEvent,
)

PAIR_SHIFT = 32  # the upper bits of a key are those of its ranks and communicator
EQUALLY_MANY = 1.1  # times; of the last messages only some are kept


class _StepKind(IntEnum):
    """What a step does; of two at the same time, the one that another may wait for comes first."""

    SEND = 0
    ENTER = 1  # a collective call
    RECEIVE = 2
    LEAVE = 3


class _Step(NamedTuple):
    """What a rank did at a time.

    Of messages, number: that of the message between its two ranks, pair: these ranks. Of collective
    calls, number: the rank in the communicator, pair: as `CollectiveEvent.needs`.
    """

    at: int
    kind: _StepKind
    rank: int
    key: int
    row: int
    number: int
    pair: int


class _Link(NamedTuple):
    """A received message, and the chain up to it.

    gap: ticks between the last receive of its sender and the send, 0 if a collective is between.
    """

    length: int
    rank: int
    row: int
    gap: int
    before: "_Link | None"


class _Receives(NamedTuple):
    """The receives of a row: how many there are and how many are in the chain, with their gaps."""

    known: int = 0
    in_chain: int = 0
    gap: int = 0


_Chain = dict[tuple[int, int], _Receives]  # by rank and row


@dataclass(slots=True)
class ChainedRow:
    """The receives of a row in one rank.

    Attributes:
        rank: index of the rank.
        row: of its table.
        known: receives of the first messages between two ranks.
        in_chain: how many of these the longest chain needs.
        gap: ticks that their senders took since they had received a message themselves.
        further: receives in the second halves of the first messages and of windows.
        further_in_chain: by how many the longest chain of each is longer than that of its first
            half.
    """

    rank: int
    row: int
    known: int = 0
    in_chain: int = 0
    gap: int = 0
    further: int = 0
    further_in_chain: int = 0

    def add(self, other: "ChainedRow") -> None:
        """Add the receives of another rank or row."""
        self.known += other.known
        self.in_chain += other.in_chain
        self.gap += other.gap
        self.further += other.further
        self.further_in_chain += other.further_in_chain

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


def find_longest_chain(
    ranks: Sequence[RankMessages], collectives: Sequence[Sequence[CollectiveEvent]]
) -> list[ChainedRow]:
    """The rows that receive messages, with their parts of the longest chain of the run.

    Args:
        ranks: the messages of all ranks of the run.
        collectives: all blocking collective calls of each rank; empty if they are not known.

    Returns:
        Nothing if messages are missing, so that the chain is not known.
    """
    if any(rank.level or rank.pairs_level or rank.refused for rank in ranks):
        return []

    steps = sorted(step for number, rank in enumerate(ranks) for step in _steps(number, rank))
    if not steps:
        return []
    calls = sorted(
        step for number, events in enumerate(collectives) for step in _calls(number, events)
    )
    last = next((step.at for step in steps if step.number == MESSAGES_ALWAYS - 1), math.inf)
    first = [step for step in steps if step.at <= last and step.number < MESSAGES_ALWAYS]
    if math.isfinite(last):
        first = _whole_parts(len(ranks), calls, first)
    windows: dict[int, list[_Step]] = defaultdict(list)
    if _have_equally_many(steps):
        for step in steps:
            if step.number >= MESSAGES_ALWAYS:
                windows[step.number // MESSAGES_WINDOW].append(step)

    chain = _chain_of_parts(len(ranks), calls, first)
    rows = {at: ChainedRow(*at, *receives) for at, receives in chain.items()}
    half = [step for step in first if step.number < MESSAGES_ALWAYS // 2]
    _add_further(rows, chain, _chain_of_parts(len(ranks), calls, half))
    for window, members in windows.items():
        middle = window * MESSAGES_WINDOW + MESSAGES_WINDOW // 2
        chain = _chain_of(_between(calls, members))
        _add_further(rows, chain, _chain_before(calls, members, middle))
    return list(rows.values())


def _length_of(chain: _Chain) -> int:
    """The number of receives in a chain."""
    return sum(receives.in_chain for receives in chain.values())


def _chain_of_parts(size: int, calls: Sequence[_Step], steps: Sequence[_Step]) -> _Chain:
    """The sum of the chains between the collective calls in which each rank waits for all others.

    Messages after such a call wait for all before it. A part in which ranks exchange more messages
    than its chain has is that of one message from each rank to each other.
    """
    chain: _Chain = {}
    for part in _parts(size, _between(calls, steps)):
        for at, receives in _chain_of_part(part).items():
            sums = map(sum, zip(chain.get(at, _Receives()), receives, strict=True))
            chain[at] = _Receives(*sums)
    return chain


def _parts(size: int, steps: Sequence[_Step]) -> list[list[_Step]]:
    """The steps between collective calls of all ranks; sends are in the part of their receive."""
    needing = Counter(
        step.key for step in steps if step.kind is _StepKind.LEAVE and step.pair == NEEDS_ALL
    )
    passed: Counter[int] = Counter()  # such calls, by rank
    received_in: dict[int, int] = {}
    numbered = []
    for step in steps:
        if step.kind in (_StepKind.ENTER, _StepKind.LEAVE) and needing[step.key] == size:
            passed[step.rank] += step.kind is _StepKind.LEAVE
            continue
        if step.kind is _StepKind.RECEIVE:
            received_in[step.key] = passed[step.rank]
        numbered.append((passed[step.rank], step))

    parts: dict[int, list[_Step]] = defaultdict(list)
    for number, step in numbered:
        is_send = step.kind is _StepKind.SEND
        parts[received_in.get(step.key, number) if is_send else number].append(step)
    return [parts[number] for number in sorted(parts)]


def _whole_parts(size: int, calls: Sequence[_Step], steps: Sequence[_Step]) -> list[_Step]:
    """The messages up to the last collective call of all ranks, so that no part is cut in two.

    All of them if further rows would not receive any.
    """
    *parts, _ = _parts(size, _between(calls, steps))
    of_parts = [step for part in parts for step in part]
    is_receive = _StepKind.RECEIVE
    rows, rows_of_parts = (
        {(step.rank, step.row) for step in each if step.kind is is_receive}
        for each in (steps, of_parts)
    )
    if rows != rows_of_parts:
        return list(steps)
    return sorted(step for step in of_parts if step.kind in (_StepKind.SEND, is_receive))


def _chain_of_part(steps: Sequence[_Step]) -> _Chain:
    """The longest chain between two collective calls of all ranks."""
    messages = [step for step in steps if step.kind in (_StepKind.SEND, _StepKind.RECEIVE)]
    first: dict[int, int] = {}  # number of a message, by pair
    rounds: dict[int, list[_Step]] = defaultdict(list)
    for step in messages:
        rounds[step.number - first.setdefault(step.pair, step.number)].append(step)

    chain = _chain_of(steps)
    if _length_of(chain) >= max(rounds, default=0):
        return chain
    calls = [step for step in steps if step.kind in (_StepKind.ENTER, _StepKind.LEAVE)]
    of_rounds = [_chain_of(_between(calls, members)) for members in rounds.values()]
    return _in_known(max(of_rounds, key=_length_of), chain)


def _in_known(of_round: _Chain, chain: _Chain) -> _Chain:
    """The chain of a round, among all receives that are known."""
    receives = {}
    for at, known in chain.items():
        alone = of_round.get(at, _Receives())
        receives[at] = known._replace(in_chain=alone.in_chain, gap=alone.gap)
    return receives


def _between(calls: Sequence[_Step], steps: Sequence[_Step]) -> list[_Step]:
    """Messages in the order of time, and the collective calls between the first and the last."""
    if not calls or not steps:
        return list(steps)
    start = bisect_left(calls, steps[0])
    return sorted([*steps, *calls[start : bisect_left(calls, steps[-1])]])


def _have_equally_many(steps: Sequence[_Step]) -> bool:
    """Whether all ranks that exchange messages exchange about as many, in each direction."""
    largest: dict[int, int] = {}
    for step in steps:
        largest[step.pair] = max(largest.get(step.pair, 0), step.number)
    return max(largest.values(), default=0) <= EQUALLY_MANY * min(largest.values(), default=0)


def _chain_before(calls: Sequence[_Step], steps: Sequence[_Step], middle: int) -> _Chain:
    """The chain of the messages below the number `middle`."""
    return _chain_of(_between(calls, [step for step in steps if step.number < middle]))


def _add_further(rows: dict[tuple[int, int], ChainedRow], chain: _Chain, half: _Chain) -> None:
    """Add by how much a chain is longer than that of the first half of its messages."""
    for at, receives in chain.items():
        before = half.get(at, _Receives())
        chained = rows.setdefault(at, ChainedRow(*at))
        chained.further += receives.known - before.known
        chained.further_in_chain += receives.in_chain - before.in_chain


def _chain_of(steps: Iterable[_Step]) -> _Chain:
    """By rank and row: its receives, and those that the longest chain needs.

    Args:
        steps: in the order of time. A message is sent before it is received, and the ranks share a
            clock.
    """
    clocks: dict[int, _Link | None] = {}
    received_at: dict[int, int] = {}  # by rank, unless a collective call came after it
    carried: dict[int, tuple[_Link | None, int]] = {}  # by message, with the gap before it
    arrived: dict[tuple[int, int], _Link | None] = {}  # by collective call and needed rank
    known: dict[tuple[int, int], int] = {}
    for step in steps:
        if step.kind is _StepKind.SEND:
            gap = max(step.at - received_at.get(step.rank, step.at), 0)
            carried[step.key] = clocks.get(step.rank), gap
        elif step.kind is _StepKind.RECEIVE and step.key in carried:
            known[step.rank, step.row] = known.get((step.rank, step.row), 0) + 1
            before, gap = carried.pop(step.key)
            length = _length(before) + 1
            if length > _length(clocks.get(step.rank)):
                clocks[step.rank] = _Link(length, step.rank, step.row, gap, before)
            received_at[step.rank] = step.at
        elif step.kind is _StepKind.ENTER:
            for needed in (NEEDS_ALL, step.number):
                call = step.key, needed
                arrived[call] = max(arrived.get(call), clocks.get(step.rank), key=_length)
        elif step.kind is _StepKind.LEAVE:
            latest = arrived.get((step.key, step.pair))
            clocks[step.rank] = max(clocks.get(step.rank), latest, key=_length)
            received_at.pop(step.rank, None)

    in_chain = dict.fromkeys(known, (0, 0))
    link = max(clocks.values(), key=_length, default=None)
    while link is not None:
        links, gaps = in_chain[link.rank, link.row]
        in_chain[link.rank, link.row] = links + 1, gaps + link.gap
        link = link.before
    return {row: _Receives(count, *in_chain[row]) for row, count in known.items()}


def _steps(rank_index: int, rank: RankMessages) -> Iterator[_Step]:
    """Each send and each receive of a rank."""
    for event in rank.events:
        if not event.flags & (PROBED | COMPLETED_COLLECTIVE):
            is_receive = bool(event.flags & RECEIVED)
            kind = _StepKind.RECEIVE if is_receive else _StepKind.SEND
            at = event.end if is_receive else event.posted
            pair = event.key >> PAIR_SHIFT
            yield _Step(at, kind, rank_index, event.key, event.row, event.number, pair)


def _calls(rank_index: int, events: Iterable[CollectiveEvent]) -> Iterator[_Step]:
    """How a rank enters and leaves each of its collective calls."""
    for event in events:
        head = rank_index, event.key, event.row, event.rank, event.needs
        yield _Step(event.begin, _StepKind.ENTER, *head)
        yield _Step(event.end, _StepKind.LEAVE, *head)


def _length(link: _Link | None) -> int:
    return link.length if link is not None else 0
