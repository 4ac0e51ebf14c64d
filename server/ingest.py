"""What dead agents would have said, brought into their campaign without a socket."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from insitu.entities import RunState
from insitu.errors import CampaignError, WireError
from insitu.server.discovery import remove_address
from insitu.server.events import Effect, MessageArrived, Report, StopRequested
from insitu.server.refitter import Refitter
from insitu.server.runs import named
from insitu.server.writer import CampaignWriter
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Bye, Hello, Message, Totals
from insitu.wire.split import split_totals

INSTANCE = "ingest"


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a run."""

    run: str
    name: str  # p=4,n=256#0
    state: RunState
    text: str
    missing: tuple[int, ...] = ()


class Ingestion:
    """A campaign that takes what was left behind; through the same state as live messages."""

    def __init__(self, campaign: str, *, now: float) -> None:
        """Open the campaign, making it where it is not there yet.

        Raises:
            CampaignError: an aggregator is running on the campaign, or it cannot be written.
        """
        self._now = now
        with ExitStack() as stack:
            self._writer = stack.enter_context(
                CampaignWriter(campaign, instance=INSTANCE, heartbeat_s=1.0)
            )
            self._before = frozenset(self._writer.state.sealed)
            self._runs: dict[str, None] = {}
            _raise_failures(self._writer.replay(now))
            self._stack = stack.pop_all()

    def take(self, place: str, messages: Iterable[Message]) -> bool:
        """Take all messages of one node; whether they are safe on the disk now.

        They go through the codec: what is refused on the wire does not come in by the back door.

        Raises:
            WireError: they are malformed or do not fit their run.
            CampaignError: they cannot be kept.
        """
        hello: Hello | None = None
        for message in _framed(messages):
            checked = decode(encode(message))
            if isinstance(checked, Hello):
                hello = checked
            event = MessageArrived(place.encode(), checked, self._now, is_trusted=True)
            _raise_failures(self._writer.handle(event))
        if hello is None:
            raise WireError(f"{place}: nothing in it says Hello")
        self._runs[hello.run] = None
        return self._writer.state.has(hello)

    def finish(self) -> list[Ingested]:
        """StoreRun what is complete, show the rest as partial, make the models that were touched.

        Raises:
            CampaignError: the campaign cannot be written.
        """
        _raise_failures(self._writer.handle(StopRequested(self._now)))
        refitter = Refitter(self._writer.store, self._writer.campaign)
        if refitter.is_due:
            refitter.finish(refitter.begin()())
        remove_address(self._writer.campaign)
        return [self._became(run) for run in self._runs]

    def _became(self, run: str) -> Ingested:
        record = next((one for one in self._writer.store.runs() if one.id == run), None)
        if record is None:
            text = "partial, too few of its ranks to be shown; they wait for the others"
            return Ingested(run, run, RunState.INCOMPLETE, text)
        size, missing = record.key.size, record.missing
        text = "was sealed before" if run in self._before else f"sealed, {size} of {size} ranks"
        if record.state is not RunState.COMPLETE:
            text = f"partial, {size - len(missing)} of {size} ranks; missing: {named(missing)}"
        return Ingested(run, str(record.key), record.state, text, missing)

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of the campaign."""
        self._stack.close()


def _framed(messages: Iterable[Message]) -> Iterator[Message]:
    """Messages that fit into frames: totals in parts, and the end after the last of them."""
    later = 0
    for message in messages:
        if isinstance(message, Totals):
            sent = split_totals(replace(message, seq=message.seq + later))
            later += len(sent) - 1
            yield from sent
        elif isinstance(message, Bye):
            yield replace(message, final_seq=message.final_seq + later)
        else:
            yield message


def _raise_failures(effects: Iterable[Effect]) -> None:
    """Nobody else is there to hear of them."""
    for effect in effects:
        match effect:
            case Report(finding) if finding.code == "not-kept":
                raise CampaignError(finding.text)
            case Report(finding) if finding.code == "message-refused":
                raise WireError(finding.text)
