"""The events that the state machines handle, and the effects that they return."""

from dataclasses import dataclass

from insitu.entities import Finding, RunRecord
from insitu.modeling.measurement import RunTable
from insitu.wire.messages import Message


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message from an agent, from the journal, or from the tables that an agent left.

    A trusted message needs no token: it comes from the campaign's journal or this user's tables.
    """

    peer: bytes
    message: Message
    at: float  # seconds since 1970
    is_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """The timer has fired."""

    now: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class JournalSynced:
    """The messages of an `AppendToJournal` are durable."""

    run: str
    node: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class RunStored:
    """The run of a `StoreRun` is in the store, and durable."""

    run: str
    is_incomplete: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    """No more messages will come: runs that are not complete become incomplete."""

    now: float


@dataclass(frozen=True, slots=True)
class SketchRequested:
    """A relay is to send sketches of what its nodes have measured so far."""

    now: float


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """The aggregator has answered a relay on its present connection."""

    message: Message
    at: float


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A relay has lost its connection to the aggregator, or there is another aggregator."""

    at: float


Event = MessageArrived | Tick | JournalSynced | RunStored | StopRequested
RelayEvent = (
    MessageArrived | Tick | StopRequested | SketchRequested | AnswerArrived | ConnectionLost
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Send a message to an agent. An agent that does not receive it asks again."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class AppendToJournal:
    """Write the final messages of a node to the journal and sync it; then `JournalSynced`."""

    run: str
    node: str
    incarnation: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class StoreRun:
    """Put a run into the store, which numbers its repetition; then `RunStored`."""

    record: RunRecord
    table: RunTable


@dataclass(frozen=True, slots=True)
class DropFromJournal:
    """The journal's records of a run are no longer needed."""

    run: str


@dataclass(frozen=True, slots=True)
class RefitModels:
    """Fit the models again that a complete run affects."""

    run: str


@dataclass(frozen=True, slots=True)
class Report:
    """Report a finding to the user."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to the aggregator. If it is gone, the request fails and is repeated."""

    message: Message


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Open a new connection to the aggregator: answers to earlier messages no longer count."""


Effect = Reply | AppendToJournal | StoreRun | DropFromJournal | RefitModels | Report
RelayEffect = Reply | Send | Reconnect | Report
