"""How long ranks wait for point-to-point messages: for late senders and for late receivers.

A receive waits until its message is sent. A synchronous send, or a standard send of a message too
large to be buffered, waits until the receive is posted [1]. Each rank keeps a sample of its
messages, chosen so that both ranks keep the same ones, and the agent compares their times. A call
that completes several messages, such as `MPI_Waitall`, waits for the last of them; it counts only
if all of them are known.

[1] Late Sender and Late Receiver: https://apps.fz-juelich.de/scalasca/releases/scalasca/2.6/help/scalasca_patterns.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from insitu.collectors.table_events import (
    FIRST,
    MATCHED,
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    PROBED,
    RECEIVED,
    MessageEvent,
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
    """

    events: Sequence[MessageEvent]
    level: int = 0
    pairs_level: int = 0
    refused: int = 0
    total: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the sample contains all messages of the rank."""
        return sum(not event.flags & PROBED for event in self.events) == self.total


class Waits(NamedTuple):
    """Seconds of waiting in a row."""

    late_sender: float
    late_receiver: float


@dataclass(slots=True)
class MessageSample:
    """Weighted times of the sampled calls of one row in one rank, in ticks."""

    calls: int = 0
    misfits: int = 0
    time: float = 0.0
    late_sender: float = 0.0
    late_receiver: float = 0.0

    def waits(
        self, visits: int, row_ticks: int, tick_s: float, *, is_complete: bool
    ) -> Waits | None:
        """The waiting times of all calls of the row; None if the sample does not tell.

        Args:
            visits: the number of calls of the row.
            row_ticks: the time of the row.
            tick_s: seconds per tick.
            is_complete: the sample contains all messages, so that other calls have not waited.
        """
        if self.misfits > MAX_MISFITS * (self.calls + self.misfits) or not self.time:
            return None
        if is_complete:
            scale = tick_s
        elif self.calls >= min(visits, MIN_CALLS):
            scale = tick_s * row_ticks / self.time
        else:
            return None
        return Waits(self.late_sender * scale, self.late_receiver * scale)


class LateCall(NamedTuple):
    """A call that waited for messages, and for whom. Ranks are numbers on the node."""

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
    """Both sides of all messages of a node."""

    sends: dict[int, tuple[MessageEvent, int]] = field(default_factory=dict)
    receives: dict[int, tuple[MessageEvent, int]] = field(default_factory=dict)


def sample_messages(ranks: Sequence[RankMessages]) -> tuple[list[Samples], list[LateCall]]:
    """Add up the waiting times of sampled calls.

    Args:
        ranks: the messages of each rank of the node.

    Returns:
        The samples of each rank, by row; and the calls that waited.
    """
    pairs_level = max((rank.pairs_level for rank in ranks), default=0)
    least_unkept = 1 << max(64 - pairs_level, 0)
    partners = _Partners()
    for number, rank in enumerate(ranks):
        for event in rank.events:
            if event.key >= least_unkept or event.flags & PROBED:
                continue
            side = partners.receives if event.flags & RECEIVED else partners.sends
            side[event.key] = (event, number)

    levels = [rank.level for rank in ranks]
    samples: list[Samples] = []
    late_calls: list[LateCall] = []
    for index, rank in enumerate(ranks):
        rows: Samples = {}
        samples.append(rows)
        calls: dict[int, list[MessageEvent]] = {}
        for event in rank.events:
            if event.members and event.key < least_unkept:
                calls.setdefault(event.call, []).append(event)

        for members in calls.values():
            if len(members) == members[0].members:
                sample = rows.setdefault(members[0].row, MessageSample())
                late = _add_call(sample, members, partners, levels, rank=index)
                if late is not None:
                    late_calls.append(late)
    return samples, late_calls


def _add_call(
    sample: MessageSample,
    members: Sequence[MessageEvent],
    partners: _Partners,
    levels: Sequence[int],
    *,
    rank: int,
) -> LateCall | None:
    """Add the call that completed these messages, if the other sides of all are known."""
    begin, end = members[0].begin, members[0].end
    level = levels[rank]
    # When the other side was there, whether it is a sender, and its rank.
    ready: list[tuple[int, bool, int]] = []
    for event in members:
        side = partners.sends if event.flags & RECEIVED else partners.receives
        other, number = side.get(event.key, (None, 0))
        if other is None:
            return None
        level = max(level, levels[number])
        if other.bytes != event.bytes or _is_impossible(event, other):
            sample.misfits += 1
            return None
        ready.append((*_ready_at(event, other), number))

    is_first = bool(members[0].flags & FIRST)
    at, is_sender, late = min(ready) if is_first else max(ready)
    waited = min(max(at - begin, 0), end - begin)

    # The reciprocal of the share of such messages that are sampled, see mpi_messages.c.
    window = max(event.number for event in members) // MESSAGES_WINDOW * MESSAGES_WINDOW
    weight = max(1.0, window / MESSAGES_ALWAYS) * 2.0**level
    sample.calls += 1
    sample.time += weight * (end - begin)
    if is_sender:
        sample.late_sender += weight * waited
    else:
        sample.late_receiver += weight * waited
    return LateCall(rank, members[0].row, begin, end, late, waited, weight) if waited else None


def _is_impossible(event: MessageEvent, other: MessageEvent) -> bool:
    """Whether the message was received before it was sent, so that these are two messages."""
    receive, send = (event, other) if event.flags & RECEIVED else (other, event)
    return receive.end < send.posted


def _ready_at(event: MessageEvent, other: MessageEvent) -> tuple[int, bool]:
    """When the other side of a message was there, and whether that is the sender."""
    if event.flags & RECEIVED:
        return other.posted, True

    # A send that has ended before the receive was posted was buffered, and has not waited.
    posted = other.end if other.flags & MATCHED else other.posted
    return (posted if posted <= event.end else event.begin), False
