"""How long ranks wait for messages and non-blocking collectives, in the calls that complete them.

A receive waits until its message is sent. A synchronous send, or a standard send of a message too
large to be buffered, waits until the receive is posted [1]. The completion of a non-blocking
collective waits until the ranks that this rank needs have started it. Each rank keeps a sample of
its messages and collectives, chosen so that all ranks keep the same ones, and the agent compares
their times. A call that completes several of them, such as `MPI_Waitall`, waits for the last; it
counts only if all of them are known.

[1] Late Sender and Late Receiver: https://apps.fz-juelich.de/scalasca/releases/scalasca/2.6/help/scalasca_patterns.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    FIRST,
    MATCHED,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    NEEDS_ALL,
    PROBED,
    RECEIVED,
    MessageEvent,
    needed_ranks,
)
from insitu.collectors.table_header import Header

MIN_CALLS = 8  # sampled calls that represent the other calls of a row of a rank
MAX_MISFITS = 0.1  # share of calls that do not fit together; beyond, nothing is reported
MAX_REFUSED = 0.1  # share of the messages of a rank that could not be numbered

# Why messages cannot be numbered, by the field of the header that counts them.
REFUSALS = {
    "refused_after_cancel": "the program calls MPI_Cancel, and a cancelled receive has no message",
    "refused_after_gap": "some MPI calls had no room in the table",
    "refused_without_order": "they are on communicators that not all ranks number alike:"
    " intercommunicators, those of MPI_Comm_idup or of sessions, or more than 1,024 at a time",
    "refused_of_threads": "several threads exchange messages on one communicator",
    "refused_after_wildcard": "several receives were open while one of them was from MPI_ANY_SOURCE"
    " or with MPI_ANY_TAG",
}


def describe_refused(header: Header, total: int) -> str:
    """Why the waiting for messages of a rank is not known; "" if it is, or without messages.

    Args:
        header: of its table.
        total: messages that the rank has sent and received.
    """
    refused = header.messages_refused
    if not total or refused <= MAX_REFUSED * total:
        return ""
    reason = max(REFUSALS, key=lambda name: getattr(header, name))
    return (
        f"late senders and receivers are not known: {min(refused / total, 1.0):.0%} of the"
        f" messages have no number, since {REFUSALS[reason]}"
    )


@dataclass(frozen=True, slots=True)
class RankMessages:
    """The messages that a rank has kept.

    Attributes:
        events: the messages of the sample.
        level: messages of lower sampling levels were dropped.
        pairs_level: keys with fewer leading zero bits were dropped.
        refused: messages that could not be numbered.
        total: messages that the rank has sent and received.
        collectives: non-blocking collectives that the rank has started.
    """

    events: Sequence[MessageEvent]
    level: int = 0
    pairs_level: int = 0
    refused: int = 0
    total: int = 0
    collectives: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the sample contains all messages and collectives of the rank."""
        collectives = sum(bool(event.flags & COMPLETED_COLLECTIVE) for event in self.events)
        probed = sum(bool(event.flags & PROBED) for event in self.events)
        messages = len(self.events) - collectives - probed
        return messages == self.total and collectives == self.collectives


class Waits(NamedTuple):
    """Seconds of waiting in a row; for messages None if it has completed none."""

    late_sender: float | None
    late_receiver: float | None
    collective: float


@dataclass(slots=True)
class MessageSample:
    """Weighted times of the sampled calls of one row in one rank, in ticks."""

    calls: int = 0
    misfits: int = 0
    time: float = 0.0
    late_sender: float = 0.0
    late_receiver: float = 0.0
    collective: float = 0.0
    has_messages: bool = False

    def waits(
        self, visits: int, row_ticks: int, tick_s: float, *, is_complete: bool
    ) -> Waits | None:
        """The waiting times of all calls of the row; None if the sample does not tell.

        Args:
            visits: the number of calls of the row.
            row_ticks: the time of the row.
            tick_s: seconds per tick.
            is_complete: the sample contains all messages and collectives, so that other calls have
                not waited.
        """
        if self.misfits > MAX_MISFITS * (self.calls + self.misfits) or not self.time:
            return None
        if is_complete:
            scale = tick_s
        elif self.calls >= min(visits, MIN_CALLS):
            scale = tick_s * row_ticks / self.time
        else:
            return None
        return Waits(
            self.late_sender * scale if self.has_messages else None,
            self.late_receiver * scale if self.has_messages else None,
            self.collective * scale,
        )


class LateCall(NamedTuple):
    """A call that waited for what it completes, and the late rank. Ranks are those of the node."""

    rank: int
    row: int
    begin: int  # ticks, as `end` and `waited`
    end: int
    late_rank: int
    waited: int
    weight: float  # the reciprocal of the share of such calls that are sampled


Samples = dict[int, MessageSample]  # by row


@dataclass(slots=True)
class _Partners:
    """All sides of all messages and collectives of a node, by key, with their ranks on the node."""

    levels: Sequence[int]  # of sampling, by rank
    sends: dict[int, tuple[MessageEvent, int]] = field(default_factory=dict)
    receives: dict[int, tuple[MessageEvent, int]] = field(default_factory=dict)
    collectives: dict[int, dict[int, tuple[MessageEvent, int]]] = field(default_factory=dict)
    last: dict[int, tuple[MessageEvent, int]] = field(default_factory=dict)  # of each collective


class Unknown(Enum):
    """Why it is not known when the other ranks were there."""

    MISSING = auto()  # the sample does not have all sides
    MISFIT = auto()  # the sides do not fit together


class _Ready(NamedTuple):
    """When the other ranks were there, and which was the last of them."""

    at: int  # ticks
    kind: str  # of MessageSample
    late_rank: int
    level: int  # of sampling in that rank


def sample_messages(ranks: Sequence[RankMessages]) -> tuple[list[Samples], list[LateCall]]:
    """Add up the waiting times of sampled calls.

    Args:
        ranks: the messages of each rank of the node.

    Returns:
        The samples of each rank, by row; and the calls that waited.
    """
    dropped_from = least_dropped_key(ranks)
    partners = _Partners([rank.level for rank in ranks])
    kept = [[event for event in rank.events if _is_kept(event, dropped_from)] for rank in ranks]
    for number, events in enumerate(kept):
        for event in events:
            if event.flags & COMPLETED_COLLECTIVE:
                partners.collectives.setdefault(event.key, {})[event.rank] = event, number
            elif not event.flags & PROBED:
                side = partners.receives if event.flags & RECEIVED else partners.sends
                side[event.key] = (event, number)
    for key, sides in partners.collectives.items():
        partners.last[key] = max(sides.values(), key=_posted)

    samples: list[Samples] = []
    late_calls: list[LateCall] = []
    for index, events in enumerate(kept):
        rows: Samples = {}
        samples.append(rows)
        calls: dict[int, list[MessageEvent]] = {}
        for event in events:
            if event.members:
                calls.setdefault(event.call, []).append(event)

        for members in calls.values():
            if len(members) == members[0].members:
                sample = rows.setdefault(members[0].row, MessageSample())
                late = _add_call(sample, members, partners, rank=index)
                if late is not None:
                    late_calls.append(late)
    return samples, late_calls


def least_dropped_key(ranks: Sequence[RankMessages]) -> int:
    """The smallest key of the messages that some rank of a node has dropped with their pairs."""
    pairs_level = max((rank.pairs_level for rank in ranks), default=0)
    return 1 << max(64 - pairs_level, 0)


def _is_kept(event: MessageEvent, dropped_from: int) -> bool:
    """Whether no rank has dropped the pair of a message."""
    return event.key < dropped_from or bool(event.flags & COMPLETED_COLLECTIVE)


def _add_call(
    sample: MessageSample, members: Sequence[MessageEvent], partners: _Partners, *, rank: int
) -> LateCall | None:
    """Add the call that completed these, if the other sides of all are known."""
    begin, end = members[0].begin, members[0].end
    ready: list[_Ready] = []
    for event in members:
        is_collective = bool(event.flags & COMPLETED_COLLECTIVE)
        sample.has_messages |= not is_collective
        side = (_collective_ready if is_collective else _message_ready)(event, partners)
        if side is Unknown.MISFIT:
            sample.misfits += 1
        if not isinstance(side, _Ready):
            return None
        ready.append(side)

    # The reciprocal of the share of such messages that are sampled, see mpi_messages.c.
    window = max(event.number for event in members) // MESSAGES_WINDOW * MESSAGES_WINDOW
    level = max(partners.levels[rank], *(side.level for side in ready))
    weight = max(1.0, window / MESSAGES_ALWAYS) * 2.0**level

    last = min(ready) if members[0].flags & FIRST else max(ready)
    waited = min(max(last.at - begin, 0), end - begin)
    sample.calls += 1
    sample.time += weight * (end - begin)
    setattr(sample, last.kind, getattr(sample, last.kind) + weight * waited)
    if not waited:
        return None
    return LateCall(rank, members[0].row, begin, end, last.late_rank, waited, weight)


def _message_ready(event: MessageEvent, partners: _Partners) -> _Ready | Unknown:
    """When the other side of a message was there."""
    side = partners.sends if event.flags & RECEIVED else partners.receives
    if event.key not in side:
        return Unknown.MISSING
    other, number = side[event.key]
    # If the message was received before it was sent, these are two messages.
    receive, send = (event, other) if event.flags & RECEIVED else (other, event)
    if other.size != event.size or receive.end < send.posted:
        return Unknown.MISFIT

    if event.flags & RECEIVED:
        return _Ready(other.posted, "late_sender", number, partners.levels[number])
    # A send that has ended before the receive was posted was buffered, and has not waited.
    posted = other.end if other.flags & MATCHED else other.posted
    at = posted if posted <= event.end else event.begin
    return _Ready(at, "late_receiver", number, partners.levels[number])


def _collective_ready(event: MessageEvent, partners: _Partners) -> _Ready | Unknown:
    """When the last of the ranks that this rank needs in a collective had started it."""
    if not event.size or event.size > len(partners.levels):
        return Unknown.MISFIT  # its ranks are not numbered alike, or not all on this node
    sides = partners.collectives[event.key]
    if len(sides) != event.size:
        return Unknown.MISSING
    last, number = partners.last[event.key]
    if event.needs != NEEDS_ALL:
        needed = [sides[rank] for rank in needed_ranks(event) if rank in sides]
        last, number = max(needed, key=_posted, default=sides[event.rank])
    if last.posted > event.end:
        return Unknown.MISFIT  # it was completed before it was started: these are two collectives
    return _Ready(last.posted, "collective", number, partners.levels[number])


def _posted(side: tuple[MessageEvent, int]) -> int:
    return side[0].posted
