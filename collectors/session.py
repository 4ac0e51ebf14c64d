"""The agent's side of the protocol: a pure state machine from events to messages."""

from dataclasses import dataclass
from enum import StrEnum

from insitu.wire.messages import NO_SESSION, Ack, Halt, Message, Reject, Welcome

HELLO_EVERY_S = 1.0  # until somebody answers
ANSWER_WITHIN_S = 5.0  # an outstanding message older than this means that the session is gone


class Step(StrEnum):
    """What the agent should send next."""

    NOTHING = "nothing"
    HELLO = "hello"
    DIGEST = "digest"
    PATHS = "paths"
    TOTALS = "totals"
    BYE = "bye"


@dataclass(slots=True)
class Session:
    """Hello before data, one message outstanding, the newest replaces older ones.

    Time arrives as `now` in seconds; the caller builds the messages that `step` asks for. Rows of
    the dictionary that are not known go before totals: first their digest, then, if that says
    nothing to the aggregator, the rows.
    """

    is_welcome: bool = False
    is_refused: bool = False
    is_durable: bool = False
    was_ever_welcome: bool = False
    instance: str = ""
    known: int = 0
    beat_s: float = 1.0
    seq: int = 0
    is_behind: bool = False  # totals were not taken: everything is to be sent once more
    digested: int = 0  # rows whose digest this session has sent
    refusal: str = ""
    asked_at: float | None = None  # when the message that is outstanding was sent

    def step(self, now: float, *, has_data: bool, has_ended: bool, rows: int) -> Step:
        """What to send now.

        Args:
            now: seconds.
            has_data: totals are due.
            has_ended: these are the last ones.
            rows: of the node's dictionary, which totals may refer to.
        """
        if self.is_refused or self.is_durable:
            return Step.NOTHING
        if not self.is_welcome:
            is_due = self.asked_at is None or now - self.asked_at >= HELLO_EVERY_S
            if is_due:
                self.asked_at = now
            return Step.HELLO if is_due else Step.NOTHING
        if self.asked_at is not None:
            if now - self.asked_at < ANSWER_WITHIN_S:
                return Step.NOTHING
            self.lose()
            return self.step(now, has_data=has_data, has_ended=has_ended, rows=rows)
        if has_data:
            self.asked_at = now
            return self._data_step(rows)
        if has_ended:
            self.asked_at = now
            return Step.BYE
        return Step.NOTHING

    def _data_step(self, rows: int) -> Step:
        if self.known < rows:
            if self.digested >= rows:
                return Step.PATHS
            self.digested = rows
            return Step.DIGEST
        self.seq += 1
        self.is_behind = False
        return Step.TOTALS

    def lose(self) -> None:
        """The connection is gone, or its answers are: the next message is Hello."""
        self.is_welcome = False
        self.digested = 0
        self.asked_at = None  # not the time of a message from before: that would say Hello for ever

    def receive(self, message: Message) -> None:
        """An answer of the aggregator."""
        match message:
            case Welcome(instance, known, last_seq, beat_ms):
                self.is_welcome = self.was_ever_welcome = True
                self.instance, self.known = instance, known
                self.is_behind = last_seq < self.seq  # what was outstanding may be lost
                self.seq = max(self.seq, last_seq)
                self.beat_s = beat_ms / 1000
                self.asked_at = None
            case Ack(instance, seq, known, is_durable):
                if not self.is_welcome:
                    return
                if instance != self.instance:
                    self.lose()
                    return
                self.known = known
                self.is_behind = seq < self.seq
                self.is_durable = is_durable
                self.asked_at = None
            case Reject(code, text):
                if code == NO_SESSION:
                    self.lose()
                else:
                    self.is_refused, self.refusal = True, text
            case Halt(text):
                self.is_refused, self.refusal = True, text
            case _:
                pass  # nothing else is sent to an agent
