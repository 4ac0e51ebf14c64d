"""The state of a relay between the agents of some nodes and the aggregator: pure, without a clock.

To agents it is an aggregator whose disk is the aggregator above: what a node said last is brought
there, in the node's name, and only when it is durable there is the agent told so. It keeps nothing
that agents do not have: when it dies, they say Hello to the next one. While a run lasts, only
sketches of its ranks' values go up.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from insitu.entities import Finding
from insitu.modeling.classes.sketch import Sketch
from insitu.server import runs, sketches
from insitu.server.events import (
    AnswerArrived,
    AppendToJournal,
    ConnectionLost,
    Effect,
    JournalSynced,
    MessageArrived,
    Reconnect,
    RelayEffect,
    RelayEvent,
    Reply,
    Report,
    Send,
    SketchRequested,
    StopRequested,
    Tick,
)
from insitu.server.relay.nodes import Nodes, Progress, name_of, progress_of
from insitu.server.relay.request import Outcome, Request
from insitu.server.runs import Run, Session
from insitu.server.totals import Register
from insitu.wire.messages import (
    MAX_ROWS,
    REFUSED,
    ROWS_PER_PATHS,
    SCHEMA,
    Bye,
    Column,
    Digest,
    Hello,
    Message,
    Paths,
    Reject,
    Totals,
)

ANSWER_WITHIN_S = 10.0  # an aggregator that seals a large run is busy


@dataclass(slots=True)
class _Sketched:
    """What a relay has told of a run; with other columns it is another relay's."""

    incarnation: int
    columns: tuple[Column, ...]
    seq: int = 0
    nodes: dict[str, tuple[tuple[int, int], dict[str, Sketch]]] = field(default_factory=dict)
    told: tuple[object, ...] = ()  # the progress of the run when it was told last


@dataclass(frozen=True, slots=True)
class _Brought:
    """What an request brings: of which session, how far it was, or sketches of which run."""

    run: str
    session: Session | None = None
    progress: Progress = (0, -1, ())


class RelayState:
    """Runs whose nodes speak to this relay; what is owed to the aggregator, in order."""

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        instance: str,
        token: str,
        heartbeat_s: float,
        room_bytes: int,
    ) -> None:
        """Begin without runs, under a name that no other relay of the campaign has."""
        self.name = name
        self.nodes = Nodes(
            instance=instance, token=token, heartbeat_s=heartbeat_s, room_bytes=room_bytes
        )
        self._incarnation = incarnation
        self._token = token
        self._owed: dict[JournalSynced, None] = {}
        self._due: dict[str, None] = {}  # runs to be sketched
        self._sketched: dict[str, _Sketched] = {}
        self._request: tuple[Request, _Brought] | None = None
        self._asked_at = 0.0
        self._is_resting = False  # after a failure, until the next tick
        self._unsketched: set[str] = set()  # runs whose sketches the aggregator has refused
        self._instance = ""  # of the aggregator

    @property
    def is_idle(self) -> bool:
        """Whether all that nodes said is above."""
        return not self._owed and self._request is None

    def handle(self, event: RelayEvent) -> list[RelayEffect]:
        """What is to be done about an event."""
        match event:
            case MessageArrived(_, _, at) | StopRequested(at):
                return self._taken(self.nodes.handle(event)) + self._go_on(at)
            case Tick(now):
                effects = self._taken(self.nodes.handle(event))
                self._sketched = {r: s for r, s in self._sketched.items() if r in self.nodes.runs}
                self._unsketched &= self.nodes.runs.keys()
                self._is_resting = False
                if self._request is not None and now - self._asked_at > ANSWER_WITHIN_S:
                    self._fail()
                return effects + self._go_on(now)
            case SketchRequested(now):
                self._due |= dict.fromkeys(self.nodes.runs)
                return self._go_on(now)
            case ConnectionLost(at):
                self._drop()
                return self._go_on(at)
            case AnswerArrived(message, at):
                return self._answered(message, at)

    def _taken(self, effects: list[Effect]) -> list[RelayEffect]:
        """The effects on the nodes; what is to be kept is owed to the aggregator."""
        left: list[RelayEffect] = []
        for effect in effects:
            match effect:
                case AppendToJournal(run, node, incarnation, _):
                    one = self.nodes.runs[run]
                    if not self.nodes.is_given_up(one, one.sessions[node]):
                        self._owed[JournalSynced(run, node, incarnation)] = None
                case Reply() | Report():
                    left.append(effect)
        return left

    def _answered(self, message: Message, at: float) -> list[RelayEffect]:
        if self._request is None:
            return []
        request, brought = self._request
        following = request.answered(message)
        self._see(request.instance)
        if following is not None:
            self._asked_at = at
            return [Send(following)]
        effects: list[RelayEffect] = []
        match request.outcome:
            case Outcome.DONE:
                self._request = None
                effects += self._brought(brought)
            case Outcome.REFUSED:
                self._fail()
                effects += self._refused(brought, request.refusal)
            case Outcome.OUTDATED if brought.session is not None:
                self._fail()
                self._give_up(brought.run, brought.session, brought.progress)
            case _:
                self._fail()
        return effects + self._go_on(at)

    def _see(self, instance: str) -> None:
        """Another aggregator does not know what nodes said that have not ended."""
        if instance and self._instance not in ("", instance):
            for run in self.nodes.runs.values():
                for session in run.sessions.values():
                    if session.is_kept and session.bye is None and session.last_seq:
                        session.is_kept = False
                        self._owed[name_of(run, session)] = None
            self.nodes.given_up.clear()
        self._instance = instance or self._instance

    def _fail(self) -> None:
        """Begin again at the next tick."""
        self._drop()
        self._is_resting = True

    def _drop(self) -> None:
        if self._request is not None and self._request[1].run in self._sketched:
            self._sketched[self._request[1].run].told = ()
        self._request = None

    def _brought(self, brought: _Brought) -> list[RelayEffect]:
        session = brought.session
        if session is None:
            return []
        kept = JournalSynced(brought.run, session.hello.node, session.hello.incarnation)
        if progress_of(session) != brought.progress:
            return []  # it has said more meanwhile: it stays owed
        self._owed.pop(kept, None)
        return self._taken(self.nodes.handle(kept))

    def _refused(self, brought: _Brought, text: str) -> list[RelayEffect]:
        """The agent keeps its tables; sketches of the run are not sent any more."""
        note = Report(
            Finding("message-refused", f"the aggregator refused run {brought.run}: {text}")
        )
        session = brought.session
        if session is None:
            self._unsketched.add(brought.run)
            return [note]
        self._give_up(brought.run, session, brought.progress)
        return [note, Reply(session.peer, Reject(REFUSED, text))]

    def _give_up(self, run: str, session: Session, progress: Progress) -> None:
        kept = JournalSynced(run, session.hello.node, session.hello.incarnation)
        self.nodes.given_up[kept] = progress
        self._owed.pop(kept, None)

    def _go_on(self, now: float) -> list[RelayEffect]:
        """Begin the next request where none is under way: sketches first, they are few.

        Each has a connection of its own, so that no message or answer is taken for another's.
        """
        while self._request is None and not self._is_resting and (self._due or self._owed):
            begun = self._next_sketch(now) if self._due else self._next_words()
            if begun is not None:
                self._request, self._asked_at = begun, now
                return [Reconnect(), Send(begun[0].begin())]
        return []

    def _next_words(self) -> tuple[Request, _Brought] | None:
        kept = next(iter(self._owed))
        run = self.nodes.runs.get(kept.run)
        session = run.sessions.get(kept.node) if run is not None else None
        if run is None or session is None or name_of(run, session) != kept:
            del self._owed[kept]  # a newer agent speaks for the node
            return None
        hello, *said = runs.last_words(run, session)
        assert isinstance(hello, Hello)
        dictionary = session.source.dictionary
        request = Request(
            replace(hello, token=self._token),
            tuple(part for part in said if isinstance(part, Paths)),
            Digest(len(dictionary), dictionary.digest) if len(dictionary) else None,
            tuple(part for part in said if isinstance(part, Totals | Bye)),
        )
        return request, _Brought(run.id, session, progress_of(session))

    def _next_sketch(self, now: float) -> tuple[Request, _Brought] | None:
        run_id = next(iter(self._due))
        del self._due[run_id]
        run = self.nodes.runs.get(run_id)
        if run is None or run_id in self._unsketched:
            return None
        sessions = [
            s for s in run.sessions.values() if s.spoken and (s.is_whole or not s.is_silent)
        ]
        columns = {c.name: c for s in sessions for c in s.hello.columns}
        told = self._told(run_id, tuple(columns.values()))
        if not sessions or run.progress() == told.told:
            return None
        told.told = run.progress()
        own = {s.hello.node: _own(run, s) for s in sessions}
        for session in sessions:
            self._sketch(run, session, told)
        told.nodes = {name: one for name, one in told.nodes.items() if name in own}
        messages, _ = sketches.messages_of(
            sketches.merged(found for _, found in told.nodes.values()),
            told.columns,
            seq=told.seq + 1,
            time_ns=int(now * 1e9),
            ranks=sum(map(len, own.values())),
            ended=sum(len(own[s.hello.node]) for s in sessions if s.is_whole),
        )
        told.seq = messages[-1].seq
        hello = replace(
            sessions[0].hello,
            schema=SCHEMA,
            token=self._token,
            node=self.name,
            incarnation=told.incarnation,
            ranks=(),
            columns=told.columns,
            is_relay=True,
        )
        return Request(hello, _rows(run), None, messages), _Brought(run_id)

    def _told(self, run_id: str, columns: tuple[Column, ...]) -> _Sketched:
        known = self._sketched.get(run_id)
        if known is None or known.columns != columns:
            self._incarnation += 1
            known = self._sketched[run_id] = _Sketched(self._incarnation, columns)
        return known

    def _sketch(self, run: Run, session: Session, told: _Sketched) -> None:
        """Sketch a node anew where it has said more."""
        order = (session.hello.incarnation, session.last_seq)
        known = told.nodes.get(session.hello.node)
        if known is None or known[0] != order:
            found = sketches.sketches_of(_own(run, session), len(run.callpaths.all))
            told.nodes[session.hello.node] = (order, found)


def _own(run: Run, session: Session) -> dict[int, Register]:
    """The registers that a session has brought and no newer one has replaced."""
    found = ((rank, run.registers[rank]) for rank in session.spoken)
    return {rank: one for rank, one in found if one.source is session.source}


def _rows(run: Run) -> tuple[Paths, ...]:
    """The call paths of a run as the dictionary of its relay: each at its place."""
    every = run.callpaths.all[:MAX_ROWS]
    parts = []
    for first in range(0, len(every), ROWS_PER_PATHS):
        part = every[first : first + ROWS_PER_PATHS]
        parents = run.callpaths.parents[first : first + len(part)]
        parts.append(
            Paths(
                first,
                np.asarray(parents, "<u4").tobytes(),
                tuple(callpath.name for callpath in part),
                ("",) * len(part),
                bytes(4 * len(part)),
            )
        )
    return tuple(parts)
