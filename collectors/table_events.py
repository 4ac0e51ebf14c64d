"""What a table holds of single MPI calls, as declared in `native/table_events.h`: collective calls,
what happened between them, and messages.
"""

import struct
from array import array
from collections.abc import Iterable
from typing import NamedTuple

# What a collective event needs from the communicator, if it is not a single rank. Values below
# NEEDS_LISTED name other lists of ranks; events that were read have NEEDS_LISTED and the list.
NEEDS_ALL, NEEDS_NOBODY, NEEDS_LOWER, NEEDS_LISTED = -1, -2, -3, -4

# Flags of a message and of the call that completes it.
RECEIVED, FIRST, PROBED, MATCHED, UNCLEAR, COMPLETED_COLLECTIVE = 1, 2, 4, 8, 16, 32

COLLECTIVE = struct.Struct("<QQQIiII")
MAX_COLLECTIVES = 4096  # events for which a table has room
MESSAGE = struct.Struct("<QQQQIIIIIHHiI")
MAX_MESSAGES = 8192  # for which a table has room
MESSAGES_ALWAYS = 256  # the first messages between two ranks, all of which are sampled
MESSAGES_WINDOW = 4  # successive messages that are sampled together
INTERVAL = struct.Struct("<5QIi4I14I14f")
MAX_INTERVALS = 1024  # for which a table has room
MAX_LISTED = 16384  # words of the lists of needed ranks
INTERVAL_ROWS = 14  # call paths of each of them


class CollectiveEvent(NamedTuple):
    """A blocking collective call; the same call has the same `key` in all ranks."""

    key: int
    begin: int  # ticks
    end: int  # ticks
    row: int
    needs: int  # the rank that must arrive first, or NEEDS_ALL, ...
    rank: int  # in the communicator
    size: int  # of the communicator
    listed: tuple[int, ...] = ()  # the ranks that must arrive first, with NEEDS_LISTED


class MessageEvent(NamedTuple):
    """A point-to-point message as its sender or its receiver saw it; both have the same `key`.

    With COMPLETED_COLLECTIVE a non-blocking collective, with the same `key` in all its ranks.
    """

    key: int
    posted: int  # ticks, when the send, the receive or the collective was started
    begin: int  # ticks, of the call that completed it
    end: int  # ticks
    row: int  # of that call
    call: int  # equal for messages that one call completed
    number: int  # of the message between its ranks
    size: int  # bytes, the lower 32 bits; ranks of a collective, 0 if it cannot be compared
    members: int  # messages of the call; 0 if its waiting cannot be known
    flags: int  # RECEIVED, ...
    level: int  # of sampling, up to which it is kept
    needs: int = NEEDS_NOBODY  # of a collective, this and the next two as in CollectiveEvent
    rank: int = 0
    listed: tuple[int, ...] = ()


class IntervalEvent(NamedTuple):
    """What a rank did between two collective calls of a communicator.

    The same interval has the same `key` and `previous_key` in all ranks.
    """

    key: int  # of the call that ends it, as in CollectiveEvent
    previous_key: int
    start: int  # ticks, the end of the call before
    begin: int  # ticks, of the call that ends it
    end: int  # ticks
    row: int  # of that call
    needs: int  # this and the next two as in CollectiveEvent
    rank: int
    size: int
    rows: tuple[int, ...]  # that took longest, without the call that ends the interval
    ticks: tuple[float, ...]  # what each of them took itself
    listed: tuple[int, ...] = ()  # as in CollectiveEvent


def needed_ranks(event: CollectiveEvent | IntervalEvent | MessageEvent) -> Iterable[int]:
    """The ranks that must be there before this one can leave or complete a collective."""
    if event.needs == NEEDS_ALL:
        return range(event.size)
    if event.needs == NEEDS_LOWER:
        return range(min(event.rank, event.size))
    if event.needs == NEEDS_LISTED:
        return [rank for rank in event.listed if rank < event.size]
    return [event.needs] if 0 <= event.needs < event.size else []


class _NeededRanks(dict[int, tuple[int, ...]]):
    """The ranks that the `needs` of a collective event lists; () if it lists none."""

    def __init__(self, words: bytes) -> None:
        super().__init__()
        self._words = array("I", words)

    def __missing__(self, needs: int) -> tuple[int, ...]:
        start = NEEDS_LISTED - needs
        ranks: tuple[int, ...] = ()
        if 0 <= start < len(self._words):
            ranks = tuple(self._words[start + 1 : start + 1 + self._words[start]])
        self[needs] = ranks
        return ranks


def parse_collectives(events: bytes, listed: bytes) -> list[CollectiveEvent]:
    """The collective calls of a table, from the bytes of its events and of its lists of ranks."""
    lists = _NeededRanks(listed)
    return [
        CollectiveEvent(
            key, begin, end, row, max(needs, NEEDS_LISTED), rank, size, listed=lists[needs]
        )
        for key, begin, end, row, needs, rank, size in COLLECTIVE.iter_unpack(events)
    ]


def parse_messages(events: bytes, listed: bytes) -> list[MessageEvent]:
    """The messages of a table, from their bytes and those of its lists of ranks."""
    lists = _NeededRanks(listed)
    return [
        MessageEvent._make((*head, max(needs, NEEDS_LISTED), rank, lists[needs]))
        for *head, needs, rank in MESSAGE.iter_unpack(events)
    ]


def parse_intervals(intervals: bytes, listed: bytes) -> list[IntervalEvent]:
    """The intervals of a table, from their bytes and those of its lists of ranks."""
    lists = _NeededRanks(listed)
    events = []
    for values in INTERVAL.iter_unpack(intervals):
        *head, needs, rank, size, _, count = values[:11]
        head += [max(needs, NEEDS_LISTED), rank, size]
        n_rows = min(count, INTERVAL_ROWS)
        rows, ticks = values[11 : 11 + n_rows], values[11 + INTERVAL_ROWS :][:n_rows]
        events.append(IntervalEvent._make((*head, rows, ticks, lists[needs])))
    return events
