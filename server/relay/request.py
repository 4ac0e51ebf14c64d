"""One conversation of a relay with the aggregator: a pure state machine from answers to messages.

It begins with Hello and ends when all that there was to say has been acknowledged. Whatever else
happens, the request has failed and is begun again, from Hello, on a new connection.
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

Word = Totals | Sketches | Bye


class Outcome(StrEnum):
    """How an request stands."""

    OPEN = "open"
    DONE = "done"  # all is acknowledged; a Bye as durable
    LOST = "lost"  # to be begun again
    REFUSED = "refused"  # the aggregator does not want it
    OUTDATED = "outdated"  # it has heard of the node's later life elsewhere


@dataclass(slots=True)
class Request:
    """What is to be said, in order: Hello, rows of the dictionary, words with their seq."""

    hello: Hello
    paths: tuple[Paths, ...]  # all rows
    digest: Digest | None  # of all rows, where other nodes may have sent the same
    words: Iterable[Word]
    outcome: Outcome = Outcome.OPEN
    refusal: str = ""
    instance: str = ""  # of the aggregator
    _left: "deque[Word]" = field(default_factory=deque)
    _sent: Message | None = None
    _has_asked: bool = False  # whether the digest is known

    def begin(self) -> Message:
        """The first message."""
        self._left = deque(self.words)
        self._sent = self.hello
        return self.hello

    def answered(self, answer: Message) -> Message | None:
        """What follows an answer; None where the request is over, as its outcome says."""
        match answer:
            case Welcome(instance, known, last_seq, _) if isinstance(self._sent, Hello):
                self.instance = instance
                heard = [w for w in self._left if not isinstance(w, Bye) and w.seq <= last_seq]
                for word in heard:
                    self._left.remove(word)
                return self._next(known)
            case Ack(instance, seq, known, is_durable) if instance == self.instance:
                return self._acknowledged(seq, known, is_durable=is_durable)
            case Reject(code, text) if code != NO_SESSION:
                self.outcome, self.refusal = Outcome.REFUSED, text
            case _:
                self.outcome = Outcome.LOST
        return None

    def _acknowledged(self, seq: int, known: int, *, is_durable: bool) -> Message | None:
        match self._sent:
            case Totals() | Sketches() if seq >= self._sent.seq:
                self._left.popleft()
            case Bye() if is_durable:
                self._left.popleft()
            case Bye(final_seq) if seq > final_seq:
                self.outcome = Outcome.OUTDATED
                return None
            case Paths() if known > self._sent.first:
                pass
            case Digest():
                pass
            case _:
                self.outcome = Outcome.LOST
                return None
        return self._next(known)

    def _next(self, known: int) -> Message | None:
        """Rows that are not known go before words, and their digest before the rows."""
        rows = max((part.first + len(part.names) for part in self.paths), default=0)
        if not self._left:
            self.outcome = Outcome.DONE
            return None
        if known >= rows:
            self._sent = self._left[0]
        elif self.digest is not None and not self._has_asked:
            self._has_asked, self._sent = True, self.digest
        else:
            self._sent = next(p for p in self.paths if p.first + len(p.names) > known)
        return self._sent
