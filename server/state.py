"""The state of a campaign while it is measured: events in, effects out, nothing else touched."""

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
from insitu.server.runs import Run, Session
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

SILENT_BEATS = 5  # before a node is said to be silent
GRACE_S = 5.0  # beyond the silence, before a run is called partial
MAX_RUNS = 4_096  # not sealed, at one time
ROOM_BYTES = 4 << 30  # for all runs, where nobody says how much there is
SMALL, SPOKEN = 4_096, 0.1  # a larger run is shown as partial when this part of it has spoken
OF_RANKS = (Totals, Bye)  # which a relay has not
Said = Paths | Digest | Totals | Sketches | Bye  # by an agent that has said Hello
EVERYTHING = 1 << 62  # acknowledged of a sealed run, whatever is said


class CampaignState:
    """All runs that are not sealed, and who speaks for them.

    Pure and synchronous; time comes in the events. Whoever calls `handle` carries out the effects
    in their order and reports `JournalSynced` and `RunStored` only for what is on the disk. What
    could not be written is asked for again at the next `Tick`. A `StoreRun` of a run that is sealed
    may be left out.
    """

    def __init__(
        self,
        *,
        instance: str,
        token: str,
        heartbeat_s: float,
        room_bytes: int = ROOM_BYTES,
        sealed: Collection[str] = (),
        partial: Collection[str] = (),
    ) -> None:
        """Begin with the ids of the runs that the store has, and memory for those to come."""
        self.instance = instance
        self.heartbeat_s = heartbeat_s
        self._room_bytes = room_bytes
        self.runs: dict[str, Run] = {}
        self.held_bytes = 0  # by all of them
        self.sealed = set(sealed)
        self._partial = frozenset(partial)  # in the store: they are not measured any more
        self._token = token.encode()
        self._peers: dict[bytes, tuple[str, Session | None]] = {}

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done about an event."""
        match event:
            case MessageArrived():
                return self._arrived(event)
            case Tick(now):
                return self._ticked(now)
            case JournalSynced():
                return self._kept(event)
            case RunStored(run_id, is_partial):
                return self._sealed(run_id, is_partial=is_partial)
            case StopRequested(now):
                return [
                    effect for run in list(self.runs.values()) for effect in self._end(run, now)
                ]

    def state_of(self, run_id: str) -> RunState:
        """How far a run is; expected where nothing was heard of it."""
        if run_id in self.sealed:
            return RunState.COMPLETE
        run = self.runs.get(run_id)
        if run is not None:
            return run.state
        return RunState.INCOMPLETE if run_id in self._partial else RunState.EXPECTED

    def is_measuring(self) -> bool:
        """Whether any run is under way."""
        return any(run.state is not RunState.INCOMPLETE for run in self.runs.values())

    def has(self, hello: Hello) -> bool:
        """Whether all that the agent of a Hello had to say is on the disk."""
        if hello.run in self.sealed:
            return True
        run = self.runs.get(hello.run)
        session = run.sessions.get(hello.node) if run is not None else None
        return (
            session is not None
            and session.hello.incarnation == hello.incarnation
            and session.is_whole
            and session.is_kept
        )

    def _arrived(self, event: MessageArrived) -> list[Effect]:
        try:
            if isinstance(event.message, Hello):
                return self._hello(event, event.message)
            if not isinstance(event.message, Said):
                raise WireError(f"{type(event.message).__name__} is not for the aggregator")
            if event.peer not in self._peers:
                return [Reply(event.peer, Reject(NO_SESSION, "no session: Hello first"))]
            run_id, session = self._peers[event.peer]
            run = self.runs.get(run_id)
            if run_id in self.sealed:
                return self._sealed_ack(event.peer, event.message)
            if run is None or session is None:
                return [Reply(event.peer, Reject(NO_SESSION, "no such run: Hello first"))]
            return self._spoken(run, session, event, event.message)
        except WireError as error:
            return [
                Reply(event.peer, Reject(REFUSED, str(error))),
                Report(Finding("message-refused", str(error))),
            ]

    def _hello(self, event: MessageArrived, hello: Hello) -> list[Effect]:
        if not 1 <= hello.schema <= SCHEMA:
            text = f"the agent speaks schema {hello.schema}, this aggregator up to {SCHEMA}"
            raise WireError(f"{text}; update insitu where the aggregator runs")
        if not event.is_trusted and not hmac.compare_digest(hello.token.encode(), self._token):
            raise WireError("the token is not that of this campaign")
        if hello.run in self.sealed:
            self._peers[event.peer] = (hello.run, None)
            return [Reply(event.peer, self._welcome(MAX_ROWS, 0))]
        run = self.runs.get(hello.run)
        if run is None:
            self._make_place(event.at)
            run = runs.open_run(hello)
        if not event.is_trusted:
            self._check_room(run, hello)
        before = run.held_bytes
        session = runs.welcome(run, hello, event.at)
        self.runs[run.id] = run
        self.held_bytes += run.held_bytes - before
        if event.is_trusted and run.id in self._partial:
            run.state = RunState.INCOMPLETE
        if session.peer != event.peer:
            self._let_go(session)
            session.peer = event.peer
        self._peers[event.peer] = (run.id, session)
        known = len(session.source.dictionary)
        return [Reply(event.peer, self._welcome(known, session.last_seq))]

    def _make_place(self, now: float) -> None:
        """DropFromJournal the oldest run that brought nothing, where there are too many.

        Raises:
            WireError: all of them have brought something, or have just begun.
        """
        if len(self.runs) < MAX_RUNS:
            return
        empty = [run for run in self.runs.values() if not run.registers and not run.relays]
        oldest = min(empty, key=lambda run: run.heard_at(), default=None)
        if oldest is None or now - oldest.heard_at() < GRACE_S:
            raise WireError(f"{MAX_RUNS} runs are being measured; that is the limit")
        self._forget(oldest)

    def _forget(self, run: Run) -> None:
        """Drop a run that brought nothing; whoever speaks for it says Hello again."""
        self._drop(run)
        for session in (*run.sessions.values(), *run.relays.values()):
            self._let_go(session)

    def _drop(self, run: Run) -> None:
        del self.runs[run.id]
        self.held_bytes -= run.held_bytes

    def _let_go(self, session: Session) -> None:
        """Whoever speaks for this session says Hello again; its peer may be another's by now."""
        if self._peers.get(session.peer, ("", None))[1] is session:
            del self._peers[session.peer]

    def _check_room(self, run: Run, message: Hello | Said) -> None:
        """See that a message, and the table it leads to, fit beside all that is here.

        Raises:
            WireError: they do not.
        """
        wanted = runs.room_for(message)
        if isinstance(message, Paths):
            wanted += self._table_bytes(run, len(message.names))
        needed = self.held_bytes + wanted + self._table_bytes(run, len(run.callpaths.all))
        if needed > self._room_bytes:
            raise WireError(
                f"with run {run.id} the aggregator needs {needed >> 20} MiB of memory and may take"
                f" {self._room_bytes >> 20}: serve the campaign on a larger machine, or bring the"
                " tables in with insitu ingest there"
            )

    def _table_bytes(self, run: Run, callpaths: int) -> int:
        """The memory of the table that a run leads to, one at a time; of sketches none is made."""
        return 0 if run.relays and not run.sessions else run.table_bytes(callpaths)

    def _spoken(
        self,
        run: Run,
        session: Session,
        event: MessageArrived,
        message: Said,
    ) -> list[Effect]:
        """A message of a session that is known."""
        if not run.speaks(session):
            raise WireError(f"a newer agent speaks for node {session.hello.node}")
        session.heard_at = event.at
        if session.is_silent:
            session.is_silent = False
            run.findings.pop(("rank-silent", session.hello.node), None)
        if run.state is RunState.INCOMPLETE and not event.is_trusted:
            run.state = RunState.MEASURING
        if not event.is_trusted:  # what was promised before is taken, whatever it needs
            self._check_room(run, message)
        if isinstance(message, OF_RANKS if session.hello.is_relay else Sketches):
            raise WireError(f"{type(message).__name__} is not for {session.hello.node} to say")
        before = run.held_bytes
        try:
            runs.take(run, session, message)
        finally:
            self.held_bytes += run.held_bytes - before
        if session.is_whole and not session.is_kept:
            return [self._keep(run, session)]  # the answer follows when it is kept
        if isinstance(message, Bye) and message.final_seq > session.last_seq:
            text = f"totals up to {message.final_seq} have not arrived: Hello first"
            return [Reply(event.peer, Reject(NO_SESSION, text))]
        return [self._ack(session, is_durable=message == session.bye and session.is_whole)]

    def _kept(self, event: JournalSynced) -> list[Effect]:
        run = self.runs.get(event.run)
        session = run.sessions.get(event.node) if run is not None else None
        if run is None or session is None or session.hello.incarnation != event.incarnation:
            return []
        session.is_kept = True
        if not session.is_whole:
            return []
        return [self._ack(session, is_durable=True), *self._settle(run, session.heard_at)]

    def _settle(self, run: Run, now: float) -> list[Effect]:
        """Put the run into the store if nothing more can come by itself."""
        if run.is_complete():
            return [StoreRun(*runs.result(run, RunState.COMPLETE, now))]
        return self._part(run, now) if run.has_ended() else []

    def _part(self, run: Run, now: float) -> list[Effect]:
        """AppendToJournal what is here of a run that is not complete, and show it as partial.

        A run that brought nothing is forgotten: its tables, if there are any, are where they were.
        What came of a tiny part of very many ranks waits in the journal: the work of showing it
        would follow from a number that somebody has said, not from what is here.
        """
        if not run.registers and not run.ends:
            self._forget(run)
            return []
        if run.shown == run.progress():
            run.state = RunState.INCOMPLETE
            return []
        unkept = runs.unkept(run)
        kept: list[Effect] = [self._keep(run, one) for one in unkept if not one.is_whole]
        if run.size > SMALL and len(run.registers) < SPOKEN * run.size:
            run.state, run.shown = RunState.INCOMPLETE, run.progress()
            return kept
        return [*kept, StoreRun(*runs.result(run, RunState.INCOMPLETE, now))]

    def _end(self, run: Run, now: float) -> list[Effect]:
        """Nothing more will come: what is not complete is partial."""
        return [*self._retry(run), *(self._settle(run, now) or self._part(run, now))]

    def _retry(self, run: Run) -> list[Effect]:
        whole = [s for s in run.sessions.values() if s.is_whole and not s.is_kept]
        return [self._keep(run, session) for session in whole]

    def _sealed(self, run_id: str, *, is_partial: bool) -> list[Effect]:
        run = self.runs.get(run_id)
        if run is None:
            return []
        if is_partial:
            run.state = RunState.INCOMPLETE
            run.shown = run.progress()
            return []
        self.sealed.add(run_id)
        self._drop(run)
        return [DropFromJournal(run_id), RefitModels(run_id)]

    def _ticked(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        silence_s = SILENT_BEATS * self.heartbeat_s
        for run in list(self.runs.values()):
            effects += self._retry(run)
            if run.is_complete():
                effects += self._settle(run, now)
                continue
            for session in run.live() if run.state is not RunState.INCOMPLETE else ():
                if not session.is_silent and now - session.heard_at > silence_s:
                    session.is_silent = True
                    effects += self._silent(run, session)
            if run.state is not RunState.INCOMPLETE and now - run.heard_at() > silence_s + GRACE_S:
                effects += self._part(run, now)
        return effects

    def _silent(self, run: Run, session: Session) -> list[Effect]:
        node, ranks = session.hello.node, session.hello.ranks
        whose = f"ranks {runs.named(ranks)}"
        if session.hello.is_relay:
            whose = f"a relay of {session.view.ranks} ranks"
        text = f"nothing heard of node {node} ({whose}) for {SILENT_BEATS} beats"
        finding = run.findings["rank-silent", node] = Finding("rank-silent", text, run.id)
        return [Report(finding)]

    def _keep(self, run: Run, session: Session) -> AppendToJournal:
        hello = session.hello
        return AppendToJournal(run.id, hello.node, hello.incarnation, runs.last_words(run, session))

    def _welcome(self, known: int, last_seq: int) -> Message:
        return Welcome(self.instance, known, last_seq, round(1000 * self.heartbeat_s))

    def _ack(self, session: Session, *, is_durable: bool) -> Reply:
        known = len(session.source.dictionary)
        return Reply(session.peer, Ack(self.instance, session.last_seq, known, is_durable))

    def _sealed_ack(self, peer: bytes, message: Said) -> list[Effect]:
        """Everything of a sealed run is in the store."""
        ack = Ack(self.instance, EVERYTHING, MAX_ROWS, is_durable=isinstance(message, Bye))
        return [Reply(peer, ack)]
