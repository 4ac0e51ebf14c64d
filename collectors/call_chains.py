"""The longest chain of collective calls of a run, each begun after the one before it had ended.

Ranks that share a communicator with one neighbour, and another with the next, wait for one another
in turn if all call them in the same order. As in `message_chains`, the length of the chain is a
logical clock: a collective call sets that of its ranks to one more than the latest that it needs.
Calls of all ranks are no links, since there is one chain of them whatever the program does; they
pass on what the latest rank has.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from insitu.collectors.message_chains import ChainedRow
from insitu.collectors.table_events import NEEDS_ALL, CollectiveEvent

MOST_CALLS = 1 << 18  # of all ranks: 2 s of CPU time and 100 MB in the agent of the node
PAIR = 2  # ranks of the smallest communicator that makes one wait for another


class _Moment(IntEnum):
    """Of two steps at the same time, the one that another may wait for comes first."""

    ENTER = 0
    LEAVE = 1


class _CallStep(NamedTuple):
    """That a rank, by its index, enters or leaves a call."""

    at: int
    kind: _Moment
    rank: int
    event: CollectiveEvent


class _CallLink(NamedTuple):
    """A call in which a rank takes part, and the chain up to it.

    gap: ticks of the rank that it needs, between its last call and this one.
    """

    length: int
    rank: int
    row: int
    gap: int
    before: "_CallLink | None"


class _Arrival(NamedTuple):
    """The chain up to the call of a rank, and the ticks since that rank has left another."""

    link: _CallLink | None = None
    gap: int = 0


def find_call_chain(collectives: Sequence[Sequence[CollectiveEvent]]) -> list[ChainedRow]:
    """The rows of collective calls among some of the ranks, with their parts of the longest chain.

    Args:
        collectives: all blocking collective calls of each rank; empty if they are not known.

    Returns:
        Nothing if there is no such call: on two ranks, all are of all ranks. Nothing of more than
        MOST_CALLS calls.
    """
    size = len(collectives)
    if sum(map(len, collectives)) > MOST_CALLS:
        return []
    known = {
        (rank, event.row): 0
        for rank, events in enumerate(collectives)
        for event in events
        if _is_link(event, size)
    }
    if not known:
        return []

    steps = []
    for rank, events in enumerate(collectives):
        for event in events:
            steps += [
                _CallStep(event.begin, _Moment.ENTER, rank, event),
                _CallStep(event.end, _Moment.LEAVE, rank, event),
            ]

    links: dict[int, _CallLink | None] = {}
    left_at: dict[int, int] = {}
    arrived: dict[tuple[int, int], _Arrival] = {}  # by call and needed rank
    steps.sort()
    for step in steps:
        event, rank = step.event, step.rank
        if step.kind is _Moment.ENTER:
            gap = max(step.at - left_at.get(rank, step.at), 0)
            arrival = _Arrival(links.get(rank), gap)
            for needed in (NEEDS_ALL, event.rank):
                call = event.key, needed
                arrived[call] = max(arrived.get(call, arrival), arrival, key=_length_at)
            continue
        latest = arrived.get((event.key, event.needs), _Arrival(links.get(rank)))
        if (rank, event.row) in known:
            known[rank, event.row] += 1
        if _is_link(event, size):
            link: _CallLink | None = _CallLink(
                _length(latest.link) + 1, rank, event.row, latest.gap, latest.link
            )
        else:
            link = latest.link
        links[rank] = max(links.get(rank), link, key=_length)
        left_at[rank] = step.at

    rows = {at: ChainedRow(*at, known=calls) for at, calls in known.items()}
    last = max(links.values(), key=_length, default=None)
    while last is not None:
        row = rows[last.rank, last.row]
        row.in_chain += 1
        row.gap += last.gap
        last = last.before
    return list(rows.values())


def _is_link(event: CollectiveEvent, size: int) -> bool:
    """Whether a call is one of several ranks, but not of all."""
    return PAIR <= event.size < size


def _length(link: _CallLink | None) -> int:
    return link.length if link is not None else 0


def _length_at(arrival: _Arrival) -> int:
    return _length(arrival.link)
