"""The nodes behind a relay: what they have sent, until the aggregator has made it durable."""

from insitu.errors import WireError
from insitu.server import runs
from insitu.server.events import AppendToJournal, Effect, JournalSynced, MessageArrived
from insitu.server.runs import NodeSession, Run
from insitu.server.state import CampaignState
from insitu.wire.messages import Hello, RankEnd

Progress = tuple[int, int, tuple[RankEnd, ...]]


def durable_event(run: Run, session: NodeSession) -> JournalSynced:
    """The event that reports a session as durable; it also identifies the session."""
    return JournalSynced(run.id, session.hello.node, session.hello.incarnation)


def progress_of(session: NodeSession) -> Progress:
    """How far a session has come. A repeated Bye with another cost is no progress."""
    bye = session.bye
    return session.last_seq, bye.final_seq if bye else -1, bye.ends if bye else ()


class Nodes(CampaignState):
    """The state machine for agents behind a relay; it stores nothing itself.

    Its `AppendToJournal` effects carry no messages: `RelayState` reads the final messages of a node
    when it sends them. A node that waits for its end to be durable is answered at every tick, so
    that it does not give up waiting.
    """

    def __init__(self, *, instance: str, token: str, heartbeat_s: float, memory_bytes: int) -> None:
        super().__init__(
            instance=instance, token=token, heartbeat_s=heartbeat_s, memory_bytes=memory_bytes
        )
        # What the aggregator has refused: the progress of the session then, by its durable event.
        self.given_up: dict[JournalSynced, Progress] = {}

    def _handle_hello(self, event: MessageArrived, hello: Hello) -> list[Effect]:
        if hello.is_relay:
            raise WireError("a relay cannot relay another relay; start both beside the aggregator")
        return super()._handle_hello(event, hello)

    def _store_if_ended(self, run: Run, now: float) -> list[Effect]:
        return []  # the aggregator stores runs

    def _store_incomplete(self, run: Run, now: float) -> list[Effect]:
        """Deliver what nodes have sent that are gone; a run with nothing left is forgotten."""
        sessions = self._undelivered(run)
        if not sessions:
            self._forget(run)
        return [self._append_to_journal(run, session) for session in sessions]

    def _handle_tick(self, now: float) -> list[Effect]:
        effects = super()._handle_tick(now)
        for run in self.runs.values():
            for session in self._undelivered(run):
                if session.has_ended:
                    effects.append(self._acknowledge(session, is_durable=False))
        return effects

    def _undelivered(self, run: Run) -> list[NodeSession]:
        return [
            session
            for session in runs.undurable_sessions(run)
            if not self.is_given_up(run, session)
        ]

    def is_given_up(self, run: Run, session: NodeSession) -> bool:
        """Whether the aggregator has refused everything that a session has sent so far."""
        return self.given_up.get(durable_event(run, session)) == progress_of(session)

    def _table_bytes(self, run: Run, callpaths: int) -> int:
        return 0  # a relay computes no tables

    def _report_silent(self, run: Run, session: NodeSession) -> list[Effect]:
        effects = super()._report_silent(run, session)
        if session.last_seq and not session.is_durable:
            effects.append(self._append_to_journal(run, session))
        return effects

    def _append_to_journal(self, run: Run, session: NodeSession) -> AppendToJournal:
        hello = session.hello
        return AppendToJournal(run.id, hello.node, hello.incarnation, messages=())
