"""Bring messages into a campaign without a socket: from tables that agents left behind."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from insitu.entities import RunState
from insitu.errors import CampaignError, WireError
from insitu.server.discovery import remove_address
from insitu.server.events import Effect, MessageArrived, Report, StopRequested
from insitu.server.refitter import Refitter
from insitu.server.runs import format_ranks
from insitu.server.writer import CampaignWriter
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Bye, Hello, Message, Totals
from insitu.wire.split import split_totals

INSTANCE = "ingest"


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """The state of a run after `Ingestion.finish`."""

    run: str
    name: str  # p=4,n=256#0
    state: RunState
    text: str
    missing: tuple[int, ...] = ()


class Ingestion:
    """A campaign that receives messages from files; the aggregator's state machine handles them."""

    def __init__(self, campaign: str, *, now: float) -> None:
        """Open the campaign, which is created if necessary.

        Raises:
            CampaignError: an aggregator is running for it, or it cannot be written.
        """
        self._now = now
        with ExitStack() as stack:
            writer = CampaignWriter(campaign, instance=INSTANCE, heartbeat_s=1.0)
            self._writer = stack.enter_context(writer)
            self._complete_before = frozenset(writer.state.complete)
            self._runs: dict[str, None] = {}
            _raise_failures(writer.replay(now))
            self._stack = stack.pop_all()

    def take(self, source: str, messages: Iterable[Message]) -> bool:
        """Take all messages of one node; return whether they are durable now.

        They pass through the codec, so that its limits hold as for messages from a socket.

        Args:
            source: the file or directory, for messages.
            messages: a Hello and what follows it.

        Raises:
            WireError: they are malformed or do not fit their run.
            CampaignError: they cannot be written.
        """
        hello: Hello | None = None
        for message in fit_into_frames(messages):
            checked = decode(encode(message))
            if isinstance(checked, Hello):
                hello = checked
            event = MessageArrived(source.encode(), checked, self._now, is_trusted=True)
            _raise_failures(self._writer.handle(event))

        if hello is None:
            raise WireError(f"{source}: no session header found; nothing to ingest")
        self._runs[hello.run] = None
        return self._writer.state.is_durable(hello)

    def finish(self) -> list[RecoveredRun]:
        """Store the runs, complete or incomplete, and fit the models that they affect.

        Raises:
            CampaignError: the campaign cannot be written.
        """
        _raise_failures(self._writer.handle(StopRequested(self._now)))

        refitter = Refitter(self._writer.store, self._writer.campaign)
        if refitter.is_due:
            fit = refitter.begin()
            refitter.finish(fit())

        remove_address(self._writer.campaign)  # of an aggregator that was killed
        return [self._describe(run_id) for run_id in self._runs]

    def _describe(self, run_id: str) -> RecoveredRun:
        record = next((run for run in self._writer.store.runs() if run.id == run_id), None)
        if record is None:
            text = "incomplete, too few ranks to show; they wait in the journal for the others"
            return RecoveredRun(run_id, run_id, RunState.INCOMPLETE, text)

        size, missing = record.key.size, record.missing
        if record.state is not RunState.COMPLETE:
            arrived = size - len(missing)
            text = f"incomplete, {arrived} of {size} ranks; missing: {format_ranks(missing)}"
        elif run_id in self._complete_before:
            text = "was complete before"
        else:
            text = f"complete, {size} of {size} ranks"
        return RecoveredRun(run_id, str(record.key), record.state, text, missing)

    def __enter__(self) -> Self:
        """Return the ingestion itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the campaign."""
        self._stack.close()


def fit_into_frames(messages: Iterable[Message]) -> Iterator[Message]:
    """Split totals that are too large for a frame, and adjust the sequence numbers after them."""
    shift = 0
    for message in messages:
        if isinstance(message, Totals):
            chunks = split_totals(replace(message, seq=message.seq + shift))
            shift += len(chunks) - 1
            yield from chunks
        elif isinstance(message, Bye):
            yield replace(message, final_seq=message.final_seq + shift)
        else:
            yield message


def _raise_failures(effects: Iterable[Effect]) -> None:
    """Turn reported failures into exceptions, since there is no agent to answer.

    Raises:
        CampaignError: something could not be written.
        WireError: a message was refused.
    """
    for effect in effects:
        match effect:
            case Report(finding) if finding.code == "not-kept":
                raise CampaignError(finding.text)
            case Report(finding) if finding.code == "message-refused":
                raise WireError(finding.text)
