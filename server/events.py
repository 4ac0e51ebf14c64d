"""What happens to the aggregator's state, with what the loop is to do about it."""

from dataclasses import dataclass

from insitu.entities import Finding, RunRecord
from insitu.modeling.measurement import RunTable
from insitu.wire.messages import Message


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message from an agent, or from the files that a dead one left.

    `is_trusted` messages come from the campaign's journal or this user's tables: no token is asked.
    """

    peer: bytes
    message: Message
    at: float  # seconds since 1970
    is_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A beat has passed."""

    now: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class JournalSynced:
    """What `AppendToJournal` asked for is synced to disk."""

    run: str
    node: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class RunStored:
    """What `StoreRun` asked for is in the store, durable, whether the run is whole or partial."""

    run: str
    is_partial: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    """No more is to come: what is not complete is partial."""

    now: float


@dataclass(frozen=True, slots=True)
class SketchRequested:
    """A relay should say what its nodes have measured so far."""

    now: float


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """The aggregator has answered a relay, on the connection that it has now."""

    message: Message
    at: float


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A relay has lost its connection to the aggregator, or found another aggregator."""

    at: float


Event = MessageArrived | Tick | JournalSynced | RunStored | StopRequested
RelayEvent = (
    MessageArrived | Tick | StopRequested | SketchRequested | AnswerArrived | ConnectionLost
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a message to an agent; if it is gone, it will ask again."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class AppendToJournal:
    """Write the last messages of a node to the journal and sync it; then `JournalSynced`."""

    run: str
    node: str
    incarnation: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class StoreRun:
    """Put a run into the store; then `RunStored`. The repetition is for the store to number."""

    record: RunRecord
    table: RunTable


@dataclass(frozen=True, slots=True)
class DropFromJournal:
    """The journal's records of a run are no longer needed."""

    run: str


@dataclass(frozen=True, slots=True)
class RefitModels:
    """Make the models that a sealed run touches anew."""

    run: str


@dataclass(frozen=True, slots=True)
class Report:
    """Tell people."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to the aggregator; if it is gone, the conversation begins again."""

    message: Message


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Speak to the aggregator on a new connection: answers to what was said before do not count."""


Effect = Reply | AppendToJournal | StoreRun | DropFromJournal | RefitModels | Report
RelayEffect = Reply | Send | Reconnect | Report
