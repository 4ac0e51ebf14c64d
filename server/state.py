"""The state machine of a campaign that is being measured: events in, effects out."""

import hmac
from collections.abc import Collection

from insitu.entities import Finding, RunState
from insitu.errors import WireError
from insitu.server import runs
from insitu.server.events import (
    AppendToJournal,
    DropFromJournal,
    Effect,
    Event,
    JournalSynced,
    MessageArrived,
    RefitModels,
    Reply,
    Report,
    RunStored,
    StopRequested,
    StoreRun,
    Tick,
)
from insitu.server.runs import NodeSession, Run
from insitu.wire.messages import (
    MAX_ROWS,
    NO_SESSION,
    REFUSED,
    SCHEMA,
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

SILENT_HEARTBEATS = 5  # a node is silent after this many heartbeats without a message
GRACE_S = 5.0  # after all nodes of a run are silent, before it becomes incomplete
# A tick that comes later than this after the one before shows that this process was stopped or busy
# meanwhile. Messages then wait in its sockets: it cannot know which nodes were silent.
LATE_TICK_S = 3.0
MAX_RUNS = 4_096  # that are being measured at the same time
MEMORY_BYTES = 4 << 30  # for all runs together, by default
SMALL_RUN = 4_096  # ranks; a larger incomplete run is shown once MIN_SHARE of them have reported
MIN_SHARE = 0.1
FROM_AGENTS_ONLY = (Totals, Bye)  # a relay has no ranks
SessionMessage = Paths | Digest | Totals | Sketches | Bye  # what follows a Hello
# Agents of complete runs that are remembered; one that is forgotten says Hello again.
MAX_ENDED_PEERS = 4_096
EVERYTHING = 1 << 62  # acknowledges every sequence number of a run that is complete


class CampaignState:
    """All runs that are not complete, and the agents and relays that report them.

    The state machine is pure and synchronous; events carry the time. The caller of `handle` carries
    out the effects in their order, and reports `JournalSynced` and `RunStored` only for what is
    durable. An effect that failed is requested again at the next `Tick`. A `StoreRun` of a run that
    is complete already may be skipped.
    """

    def __init__(
        self,
        *,
        instance: str,
        token: str,
        heartbeat_s: float,
        memory_bytes: int = MEMORY_BYTES,
        complete: Collection[str] = (),
        incomplete: Collection[str] = (),
    ) -> None:
        """Start without runs.

        Args:
            instance: differs from that of every earlier or later aggregator.
            token: the token that a Hello must present.
            heartbeat_s: seconds between two messages of an agent.
            memory_bytes: the limit on the memory of all runs together.
            complete: the ids of complete runs in the store.
            incomplete: the ids of incomplete runs in the store, which may be completed.
        """
        self.instance = instance
        self.heartbeat_s = heartbeat_s
        self.runs: dict[str, Run] = {}
        self.held_bytes = 0  # by all runs
        self.complete = set(complete)
        self._incomplete = frozenset(incomplete)
        self._memory_bytes = memory_bytes
        self._token = token.encode()
        self._peers: dict[bytes, tuple[str, NodeSession | None]] = {}
        self._ended_peers: dict[bytes, None] = {}  # of complete runs, oldest first
        self._ticked_at: float | None = None

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event; return the effects that the caller must carry out."""
        match event:
            case MessageArrived():
                return self._handle_message(event)
            case Tick(now):
                return self._handle_tick(now)
            case JournalSynced():
                return self._handle_synced(event)
            case RunStored(run_id, is_incomplete):
                return self._handle_stored(run_id, is_incomplete=is_incomplete)
            case StopRequested(now):
                effects: list[Effect] = []
                for run in list(self.runs.values()):
                    effects += self._end(run, now)
                return effects

    def state_of(self, run_id: str) -> RunState:
        """The state of a run; EXPECTED if no message of it has arrived."""
        if run_id in self.complete:
            return RunState.COMPLETE
        run = self.runs.get(run_id)
        if run is not None:
            return run.state
        return RunState.INCOMPLETE if run_id in self._incomplete else RunState.EXPECTED

    def is_measuring(self) -> bool:
        """Whether any run is in progress."""
        return any(run.state is not RunState.INCOMPLETE for run in self.runs.values())

    def is_durable(self, hello: Hello) -> bool:
        """Whether everything that the agent of a Hello sends is on the disk, up to its Bye."""
        if hello.run in self.complete:
            return True
        run = self.runs.get(hello.run)
        session = run.sessions.get(hello.node) if run is not None else None
        return (
            session is not None
            and session.hello.incarnation == hello.incarnation
            and session.has_ended
            and session.is_durable
        )

    def _handle_message(self, event: MessageArrived) -> list[Effect]:
        peer, message = event.peer, event.message
        try:
            if isinstance(message, Hello):
                return self._handle_hello(event, message)
            if not isinstance(message, SessionMessage):
                raise WireError(f"{type(message).__name__} is not a message to an aggregator")
            if peer not in self._peers:
                return [Reply(peer, Reject(NO_SESSION, "no session: Hello first"))]

            run_id, session = self._peers[peer]
            if run_id in self.complete:
                return self._acknowledge_complete(peer, message)
            run = self.runs.get(run_id)
            if run is None or session is None:
                return [Reply(peer, Reject(NO_SESSION, "no such run: Hello first"))]
            return self._handle_session_message(run, session, event, message)
        except WireError as error:
            return [
                Reply(peer, Reject(REFUSED, str(error))),
                Report(Finding("message-refused", str(error))),
            ]

    def _handle_hello(self, event: MessageArrived, hello: Hello) -> list[Effect]:
        if not 1 <= hello.schema <= SCHEMA:
            raise WireError(
                f"the agent uses schema {hello.schema}, this aggregator knows schemas up to"
                f" {SCHEMA}; update insitu where the aggregator runs"
            )
        if not event.is_trusted and not hmac.compare_digest(hello.token.encode(), self._token):
            raise WireError("the token is not that of this campaign")
        if hello.run in self.complete:
            self._remember_ended(event.peer, hello.run)
            return [Reply(event.peer, self._welcome(MAX_ROWS, 0))]

        run = self.runs.get(hello.run)
        if run is None:
            self._limit_runs(event.at)
            run = runs.open_run(hello)
        if not event.is_trusted:
            self._check_memory(run, hello)

        held_before = run.held_bytes
        session = runs.open_session(run, hello, event.at)
        self.runs[run.id] = run
        self.held_bytes += run.held_bytes - held_before
        if event.is_trusted and run.id in self._incomplete:
            run.state = RunState.INCOMPLETE  # its agents are gone: it is not being measured

        if session.peer != event.peer:
            self._disconnect(session)
            session.peer = event.peer
        self._peers[event.peer] = (run.id, session)
        known_rows = len(session.source.dictionary)
        return [Reply(event.peer, self._welcome(known_rows, session.last_seq))]

    def _limit_runs(self, now: float) -> None:
        """Make sure there is room for another run: forget the oldest that has brought nothing.

        Raises:
            WireError: there are too many runs, and all have brought something or just begun.
        """
        if len(self.runs) < MAX_RUNS:
            return

        empty = [run for run in self.runs.values() if not run.registers and not run.relays]
        oldest = min(empty, key=lambda run: run.heard_at(), default=None)
        if oldest is None or now - oldest.heard_at() < GRACE_S:
            raise WireError(f"{MAX_RUNS} runs are being measured, which is the limit")
        self._forget(oldest)

    def _forget(self, run: Run) -> None:
        """Remove a run; its agents, if there are any, must say Hello again."""
        self._remove(run)
        for session in run.all_sessions():
            self._disconnect(session)

    def _remove(self, run: Run) -> None:
        del self.runs[run.id]
        self.held_bytes -= run.held_bytes

    def _disconnect(self, session: NodeSession) -> None:
        """Make the agent of a session say Hello again, unless its peer has a new session."""
        _, session_of_peer = self._peers.get(session.peer, ("", None))
        if session_of_peer is session:
            del self._peers[session.peer]

    def _remember_ended(self, peer: bytes, run_id: str) -> None:
        """Remember that the run of a peer is complete, and forget the oldest such peer."""
        self._peers[peer] = (run_id, None)
        self._ended_peers.pop(peer, None)
        self._ended_peers[peer] = None
        if len(self._ended_peers) <= MAX_ENDED_PEERS:
            return

        oldest = next(iter(self._ended_peers))
        del self._ended_peers[oldest]
        _, session = self._peers.get(oldest, ("", None))
        if session is None:
            self._peers.pop(oldest, None)

    def _check_memory(self, run: Run, message: Hello | SessionMessage) -> None:
        """Check that there is memory for a message and for the table that will follow from it.

        Raises:
            WireError: there is not enough memory.
        """
        wanted = runs.memory_for(message)
        if isinstance(message, Paths):
            wanted += self._table_bytes(run, len(message.names))
        needed = self.held_bytes + wanted + self._table_bytes(run, len(run.callpaths.all))

        if needed > self._memory_bytes:
            raise WireError(
                f"run {run.id} would increase the aggregator's memory to {needed >> 20} MiB; the"
                f" limit is {self._memory_bytes >> 20} MiB. Serve the campaign on a larger machine,"
                " or bring the tables in with `insitu ingest` there"
            )

    def _table_bytes(self, run: Run, callpaths: int) -> int:
        """The memory of the table of a run; none while only sketches of it have arrived."""
        return 0 if run.relays and not run.sessions else run.table_bytes(callpaths)

    def _handle_session_message(
        self, run: Run, session: NodeSession, event: MessageArrived, message: SessionMessage
    ) -> list[Effect]:
        if not run.is_current(session):
            raise WireError(f"a newer agent of node {session.hello.node} has connected")

        session.heard_at = event.at
        if session.is_silent:
            session.is_silent = False
            run.findings.pop(("rank-silent", session.hello.node), None)
        if run.state is RunState.INCOMPLETE and not event.is_trusted:
            run.state = RunState.MEASURING

        if not event.is_trusted:  # what was durable before is taken, however large it is
            self._check_memory(run, message)
        if isinstance(message, FROM_AGENTS_ONLY if session.hello.is_relay else Sketches):
            sender = "a relay" if session.hello.is_relay else "an agent"
            raise WireError(f"{type(message).__name__} is not a message from {sender}")

        held_before = run.held_bytes
        try:
            runs.take_message(run, session, message)
        finally:
            self.held_bytes += run.held_bytes - held_before

        if session.has_ended and not session.is_durable:
            return [self._append_to_journal(run, session)]  # the answer follows once it is durable
        if isinstance(message, Bye) and message.final_seq > session.last_seq:
            text = f"totals up to {message.final_seq} have not arrived: Hello first"
            return [Reply(event.peer, Reject(NO_SESSION, text))]
        is_durable = session.has_ended and message == session.bye
        return [self._acknowledge(session, is_durable=is_durable)]

    def _handle_synced(self, event: JournalSynced) -> list[Effect]:
        run = self.runs.get(event.run)
        session = run.sessions.get(event.node) if run is not None else None
        if run is None or session is None or session.hello.incarnation != event.incarnation:
            return []

        session.is_durable = True
        if not session.has_ended:
            return []
        acknowledgement = self._acknowledge(session, is_durable=True)
        # Nodes that end at the same time are synced together; the last of them stores the run.
        others = run.sessions.values()
        if any(other.has_ended and not other.is_durable for other in others):
            return [acknowledgement]
        return [acknowledgement, *self._store_if_ended(run, session.heard_at)]

    def _store_if_ended(self, run: Run, now: float) -> list[Effect]:
        """Store a run if no agent will send more."""
        if run.is_complete():
            return [StoreRun(*runs.to_record(run, RunState.COMPLETE, now))]
        return self._store_incomplete(run, now) if run.has_ended() else []

    def _store_incomplete(self, run: Run, now: float) -> list[Effect]:
        """Store what has arrived of an incomplete run.

        A run that brought nothing is forgotten; its tables, if any, are still on its nodes. A large
        run of which few ranks have reported stays in the journal only: the cost of its table would
        follow from the size that an agent claims, not from the data that have arrived.
        """
        if not run.registers and not run.ends:
            self._forget(run)
            return []
        if run.stored_progress == run.progress():
            run.state = RunState.INCOMPLETE
            return []

        effects: list[Effect] = []
        for session in runs.undurable_sessions(run):
            if not session.has_ended:
                effects.append(self._append_to_journal(run, session))

        if run.size > SMALL_RUN and len(run.registers) < MIN_SHARE * run.size:
            run.state, run.stored_progress = RunState.INCOMPLETE, run.progress()
            return effects
        return [*effects, StoreRun(*runs.to_record(run, RunState.INCOMPLETE, now))]

    def _end(self, run: Run, now: float) -> list[Effect]:
        """Store a run that will send no more messages."""
        retried = self._retry_journal(run)
        return [*retried, *(self._store_if_ended(run, now) or self._store_incomplete(run, now))]

    def _retry_journal(self, run: Run) -> list[Effect]:
        """Write the sessions to the journal that have ended but are not durable."""
        effects: list[Effect] = []
        for session in run.sessions.values():
            if session.has_ended and not session.is_durable:
                effects.append(self._append_to_journal(run, session))
        return effects

    def _handle_stored(self, run_id: str, *, is_incomplete: bool) -> list[Effect]:
        run = self.runs.get(run_id)
        if run is None:
            return []
        if is_incomplete:
            run.state = RunState.INCOMPLETE
            run.stored_progress = run.progress()
            return []
        self.complete.add(run_id)
        self._remove(run)
        for session in run.all_sessions():
            _, session_of_peer = self._peers.get(session.peer, ("", None))
            if session_of_peer is session:
                self._remember_ended(session.peer, run_id)
        return [DropFromJournal(run_id), RefitModels(run_id)]

    def _handle_tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        silence_s = SILENT_HEARTBEATS * self.heartbeat_s
        self._excuse_own_silence(now)

        for run in list(self.runs.values()):
            effects += self._retry_journal(run)
            if run.is_complete():
                effects += self._store_if_ended(run, now)
                continue
            if run.state is RunState.INCOMPLETE:
                continue

            for session in run.live_sessions():
                if not session.is_silent and now - session.heard_at > silence_s:
                    session.is_silent = True
                    effects += self._report_silent(run, session)
            if now - run.heard_at() > silence_s + GRACE_S:
                effects += self._store_incomplete(run, now)

        return effects

    def _excuse_own_silence(self, now: float) -> None:
        """Do not count the time in which this process did not run as silence of the nodes."""
        if self._ticked_at is not None and now - self._ticked_at > LATE_TICK_S + self.heartbeat_s:
            lost_s = now - self._ticked_at
            for run in self.runs.values():
                for session in run.all_sessions():
                    session.heard_at = min(session.heard_at + lost_s, now)
        self._ticked_at = now

    def _report_silent(self, run: Run, session: NodeSession) -> list[Effect]:
        hello = session.hello
        if hello.is_relay:
            ranks = f"a relay of {session.view.ranks} ranks"
        else:
            ranks = f"ranks {runs.format_ranks(hello.ranks)}"
        text = f"no message from node {hello.node} ({ranks}) for {SILENT_HEARTBEATS} heartbeats"
        finding = Finding("rank-silent", text, run.id)
        run.findings["rank-silent", hello.node] = finding
        return [Report(finding)]

    def _append_to_journal(self, run: Run, session: NodeSession) -> AppendToJournal:
        hello = session.hello
        messages = runs.final_messages(run, session)
        return AppendToJournal(run.id, hello.node, hello.incarnation, messages)

    def _welcome(self, known_rows: int, last_seq: int) -> Message:
        return Welcome(self.instance, known_rows, last_seq, round(1000 * self.heartbeat_s))

    def _acknowledge(self, session: NodeSession, *, is_durable: bool) -> Reply:
        known_rows = len(session.source.dictionary)
        return Reply(session.peer, Ack(self.instance, session.last_seq, known_rows, is_durable))

    def _acknowledge_complete(self, peer: bytes, message: SessionMessage) -> list[Effect]:
        """Acknowledge any message of a complete run: all its data are in the store."""
        ack = Ack(self.instance, EVERYTHING, MAX_ROWS, is_durable=isinstance(message, Bye))
        return [Reply(peer, ack)]
