"""One request of a relay to the aggregator: a pure state machine from answers to messages.

A request begins with Hello and is done when the aggregator has acknowledged everything in it.
After any other answer the request has failed; it is repeated from Hello on a new connection.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from insitu.wire.messages import (
    NO_SESSION,
    Ack,
    Bye,
    Digest,
    Hello,
    Message,
    Paths,
    Reject,
    Sketches,
    Totals,
    Welcome,
)

Payload = Totals | Sketches | Bye


class Outcome(StrEnum):
    """The state of a request."""

    OPEN = "open"
    DONE = "done"  # everything is acknowledged, a Bye as durable
    FAILED = "failed"  # to be repeated
    REFUSED = "refused"  # the aggregator rejects it
    OUTDATED = "outdated"  # the aggregator has newer data of this node from elsewhere


@dataclass(slots=True)
class Request:
    """The messages of a request in order: Hello, rows of the dictionary, the payload."""

    hello: Hello
    paths: tuple[Paths, ...]  # all rows
    digest: Digest | None  # of all rows, if another node may have sent the same ones
    payload: Iterable[Payload]
    outcome: Outcome = Outcome.OPEN
    refusal: str = ""
    instance: str = ""  # of the aggregator
    _queue: "deque[Payload]" = field(default_factory=deque)
    _sent: Message | None = None
    _has_sent_digest: bool = False

    def begin(self) -> Message:
        """The first message."""
        self._queue = deque(self.payload)
        self._sent = self.hello
        return self.hello

    def handle_answer(self, answer: Message) -> Message | None:
        """The message that follows an answer; None if the request is over, see `outcome`."""
        match answer:
            case Welcome(instance, known_rows, last_seq, _) if isinstance(self._sent, Hello):
                self.instance = instance
                self._skip_known(last_seq)
                return self._next(known_rows)
            case Ack(instance, seq, known_rows, is_durable) if instance == self.instance:
                return self._handle_ack(seq, known_rows, is_durable=is_durable)
            case Reject(code, text) if code != NO_SESSION:
                self.outcome, self.refusal = Outcome.REFUSED, text
            case _:
                self.outcome = Outcome.FAILED
        return None

    def _skip_known(self, last_seq: int) -> None:
        """Remove totals and sketches that the aggregator has."""
        self._queue = deque(
            message for message in self._queue if isinstance(message, Bye) or message.seq > last_seq
        )

    def _handle_ack(self, seq: int, known_rows: int, *, is_durable: bool) -> Message | None:
        match self._sent:
            case Totals() | Sketches() if seq >= self._sent.seq:
                self._queue.popleft()
            case Bye() if is_durable:
                self._queue.popleft()
            case Bye(final_seq) if seq > final_seq:
                self.outcome = Outcome.OUTDATED
                return None
            case Paths() if known_rows > self._sent.first:
                pass
            case Digest():
                pass
            case _:
                self.outcome = Outcome.FAILED
                return None
        return self._next(known_rows)

    def _next(self, known_rows: int) -> Message | None:
        """The next message: rows that are unknown precede the payload, their digest the rows."""
        if not self._queue:
            self.outcome = Outcome.DONE
            return None

        rows = max((paths.first + len(paths.names) for paths in self.paths), default=0)
        if known_rows >= rows:
            self._sent = self._queue[0]
        elif self.digest is not None and not self._has_sent_digest:
            self._has_sent_digest = True
            self._sent = self.digest
        else:
            self._sent = next(
                paths for paths in self.paths if paths.first + len(paths.names) > known_rows
            )
        return self._sent
