"""The agent's side of the protocol: a pure state machine from events to messages."""

from dataclasses import dataclass
from enum import StrEnum

from insitu.wire.messages import NO_SESSION, Ack, Halt, Message, Reject, Welcome

HELLO_EVERY_S = 1.0  # until a Welcome arrives
ANSWER_WITHIN_S = 5.0  # a message that is not answered within this time ends the session


class Step(StrEnum):
    """What the agent sends next."""

    NOTHING = "nothing"
    HELLO = "hello"
    DIGEST = "digest"
    PATHS = "paths"
    TOTALS = "totals"
    BYE = "bye"


@dataclass(slots=True)
class AgentSession:
    """The state of a session with an aggregator or a relay.

    A session begins with Hello. At most one message is outstanding; newer totals replace older
    ones. Call paths that the aggregator does not know are sent before totals: first the digest of
    the dictionary, then the rows themselves if the aggregator does not know the digest.

    Time arrives as `now`, in seconds. The caller builds the messages that `step` asks for.
    """

    is_welcome: bool = False
    is_refused: bool = False
    is_durable: bool = False  # the aggregator has the final totals on disk
    was_ever_welcome: bool = False
    instance: str = ""  # of the aggregator; it differs after a restart
    known_rows: int = 0  # rows of the dictionary that the aggregator knows
    heartbeat_s: float = 1.0
    sequence: int = 0  # of the newest totals
    is_behind: bool = False  # the aggregator missed totals: send the totals of all ranks again
    digested_rows: int = 0  # rows whose digest this session has sent
    refusal: str = ""
    sent_at: float | None = None  # when the outstanding message was sent

    def step(self, now: float, *, has_data: bool, has_ended: bool, rows: int) -> Step:
        """What to send now.

        Args:
            now: seconds.
            has_data: totals are due.
            has_ended: all ranks have ended, so these totals are the last ones.
            rows: size of the node's dictionary, which the totals refer to.
        """
        if self.is_refused or self.is_durable:
            return Step.NOTHING

        if not self.is_welcome:
            if self.sent_at is not None and now - self.sent_at < HELLO_EVERY_S:
                return Step.NOTHING
            self.sent_at = now
            return Step.HELLO

        if self.sent_at is not None:
            if now - self.sent_at < ANSWER_WITHIN_S:
                return Step.NOTHING
            self.lose()
            return self.step(now, has_data=has_data, has_ended=has_ended, rows=rows)

        if has_data:
            self.sent_at = now
            return self._data_step(rows)
        if has_ended:
            self.sent_at = now
            return Step.BYE
        return Step.NOTHING

    def _data_step(self, rows: int) -> Step:
        if self.known_rows < rows:
            if self.digested_rows >= rows:
                return Step.PATHS
            self.digested_rows = rows
            return Step.DIGEST

        self.sequence += 1
        self.is_behind = False
        return Step.TOTALS

    def lose(self) -> None:
        """End the session: the connection or the answers are lost. The next message is Hello."""
        self.is_welcome = False
        self.digested_rows = 0
        # Without this, an old message would look like an outstanding one for ever.
        self.sent_at = None

    def receive(self, message: Message) -> None:
        """Handle an answer of the aggregator."""
        match message:
            case Welcome(instance, known, last_seq, beat_ms):
                self.is_welcome = self.was_ever_welcome = True
                self.instance, self.known_rows = instance, known
                self.is_behind = last_seq < self.sequence  # the outstanding totals may be lost
                self.sequence = max(self.sequence, last_seq)
                self.heartbeat_s = beat_ms / 1000
                self.sent_at = None
            case Ack(instance, seq, known, is_durable):
                if not self.is_welcome:
                    return
                if instance != self.instance:
                    self.lose()
                    return
                self.known_rows = known
                self.is_behind = seq < self.sequence
                self.is_durable = is_durable
                self.sent_at = None
            case Reject(code, text):
                if code == NO_SESSION:
                    self.lose()
                else:
                    self.is_refused, self.refusal = True, text
            case Halt(text):
                self.is_refused, self.refusal = True, text
            case _:
                pass  # agents receive no other messages
