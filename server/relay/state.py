"""The state machine of a relay between the agents of some nodes and the aggregator.

To its agents a relay is an aggregator whose disk is the aggregator above it: it delivers the final
messages of a node there, in the node's name, and acknowledges them to the agent only when they are
durable there. A relay holds nothing that its agents do not have: when it dies, they say Hello to
another one. While a run is being measured, a relay sends only sketches of its ranks' values.

The state machine is pure: events carry the time, and nothing else is touched.
"""

from collections.abc import Sequence
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
from insitu.server.relay.nodes import Nodes, Progress, durable_event, progress_of
from insitu.server.relay.request import Outcome, Request
from insitu.server.runs import NodeSession, Run
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

ANSWER_TIMEOUT_S = 10.0  # an aggregator that stores a large run is busy


@dataclass(slots=True)
class _SketchSession:
    """What a relay has sent of a run. Other columns need another incarnation."""

    incarnation: int
    columns: tuple[Column, ...]
    seq: int = 0
    # The sketches of each node, with the (incarnation, seq) of the totals that they were made of.
    nodes: dict[str, tuple[tuple[int, int], dict[str, Sketch]]] = field(default_factory=dict)
    sent_progress: tuple[object, ...] = ()  # of the run when it was sketched last


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a request delivers: the final messages of a session, or else sketches of a run."""

    run: str
    session: NodeSession | None = None
    progress: Progress = (0, -1, ())  # of the session when the request began


class RelayState:
    """The runs whose nodes report to this relay, and what it has to deliver, in order."""

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        instance: str,
        token: str,
        heartbeat_s: float,
        memory_bytes: int,
    ) -> None:
        """Start without runs.

        Args:
            name: the name of the relay, unique in the campaign.
            incarnation: higher than that of every earlier relay of this name.
            instance: differs from that of every earlier or later process.
            token: the token of the campaign.
            heartbeat_s: seconds between two messages of an agent.
            memory_bytes: the limit on the memory of all runs together.
        """
        self.name = name
        self.nodes = Nodes(
            instance=instance, token=token, heartbeat_s=heartbeat_s, memory_bytes=memory_bytes
        )
        self._incarnation = incarnation
        self._token = token
        self._instance = ""  # of the aggregator

        self._undelivered: dict[JournalSynced, None] = {}  # sessions, in order
        self._unsketched: dict[str, None] = {}  # runs to be sketched, in order
        self._sketch_sessions: dict[str, _SketchSession] = {}
        self._refused_sketches: set[str] = set()  # runs whose sketches the aggregator refuses

        self._request: tuple[Request, _Subject] | None = None  # in progress
        self._sent_at = 0.0
        self._is_paused = False  # after a failure, until the next tick

    @property
    def is_idle(self) -> bool:
        """Whether everything that nodes have sent is delivered."""
        return not self._undelivered and self._request is None

    def handle(self, event: RelayEvent) -> list[RelayEffect]:
        """Handle an event; return the effects that the caller must carry out."""
        match event:
            case MessageArrived(_, _, at) | StopRequested(at):
                return self._convert(self.nodes.handle(event)) + self._start_request(at)
            case Tick(now):
                return self._handle_tick(event, now)
            case SketchRequested(now):
                self._unsketched |= dict.fromkeys(self.nodes.runs)
                return self._start_request(now)
            case ConnectionLost(at):
                self._abandon_request()
                return self._start_request(at)
            case AnswerArrived(message, at):
                return self._handle_answer(message, at)

    def _handle_tick(self, event: Tick, now: float) -> list[RelayEffect]:
        effects = self._convert(self.nodes.handle(event))

        self._sketch_sessions = {
            run: sent for run, sent in self._sketch_sessions.items() if run in self.nodes.runs
        }
        self._refused_sketches &= self.nodes.runs.keys()

        self._is_paused = False
        if self._request is not None and now - self._sent_at > ANSWER_TIMEOUT_S:
            self._fail_request()
        return effects + self._start_request(now)

    def _convert(self, effects: list[Effect]) -> list[RelayEffect]:
        """The effects on agents; a session for the journal is queued for delivery instead."""
        on_agents: list[RelayEffect] = []
        for effect in effects:
            match effect:
                case AppendToJournal(run_id, node, incarnation, _):
                    run = self.nodes.runs.get(run_id)  # None: forgotten since, with what it gave up
                    if run is not None and not self.nodes.is_given_up(run, run.sessions[node]):
                        self._undelivered[JournalSynced(run_id, node, incarnation)] = None
                case Reply() | Report():
                    on_agents.append(effect)
        return on_agents

    def _handle_answer(self, message: Message, at: float) -> list[RelayEffect]:
        if self._request is None:
            return []

        request, subject = self._request
        following = request.handle_answer(message)
        self._check_instance(request.instance)
        if following is not None:
            self._sent_at = at
            return [Send(following)]

        effects: list[RelayEffect] = []
        match request.outcome:
            case Outcome.DONE:
                self._request = None
                effects += self._handle_delivered(subject)
            case Outcome.REFUSED:
                self._fail_request()
                effects += self._handle_refused(subject, request.refusal)
            case Outcome.OUTDATED if subject.session is not None:
                self._fail_request()
                self._give_up(subject.run, subject.session, subject.progress)
            case _:
                self._fail_request()
        return effects + self._start_request(at)

    def _check_instance(self, instance: str) -> None:
        """Deliver sessions again that a new aggregator does not know: those without a Bye."""
        if instance and self._instance not in ("", instance):
            for run in self.nodes.runs.values():
                for session in run.sessions.values():
                    if session.is_durable and session.bye is None and session.last_seq:
                        session.is_durable = False
                        self._undelivered[durable_event(run, session)] = None
            self.nodes.given_up.clear()
        self._instance = instance or self._instance

    def _fail_request(self) -> None:
        """Abandon the request, and start the next one at the next tick."""
        self._abandon_request()
        self._is_paused = True

    def _abandon_request(self) -> None:
        if self._request is not None:
            _, subject = self._request
            if subject.run in self._sketch_sessions:
                self._sketch_sessions[subject.run].sent_progress = ()  # send the sketches again
        self._request = None

    def _handle_delivered(self, subject: _Subject) -> list[RelayEffect]:
        session = subject.session
        if session is None:
            return []
        if progress_of(session) != subject.progress:
            return []  # it has sent more meanwhile and must be delivered again

        event = JournalSynced(subject.run, session.hello.node, session.hello.incarnation)
        self._undelivered.pop(event, None)
        return self._convert(self.nodes.handle(event))

    def _handle_refused(self, subject: _Subject, text: str) -> list[RelayEffect]:
        """Tell the agent, which keeps its tables; send no more sketches of a refused run."""
        text_with_run = f"the aggregator refused run {subject.run}: {text}"
        report = Report(Finding("message-refused", text_with_run))
        session = subject.session
        if session is None:
            self._refused_sketches.add(subject.run)
            return [report]
        self._give_up(subject.run, session, subject.progress)
        return [report, Reply(session.peer, Reject(REFUSED, text))]

    def _give_up(self, run: str, session: NodeSession, progress: Progress) -> None:
        event = JournalSynced(run, session.hello.node, session.hello.incarnation)
        self.nodes.given_up[event] = progress
        self._undelivered.pop(event, None)

    def _start_request(self, now: float) -> list[RelayEffect]:
        """Start the next request unless one is in progress: sketches first, since they are few.

        Each request has a connection of its own, so that no message or answer of one is taken for
        that of another.
        """
        while self._request is None and not self._is_paused:
            if self._unsketched:
                request = self._next_sketch_request(now)
            elif self._undelivered:
                request = self._next_session_request()
            else:
                break
            if request is not None:
                self._request, self._sent_at = request, now
                return [Reconnect(), Send(request[0].begin())]
        return []

    def _next_session_request(self) -> tuple[Request, _Subject] | None:
        """The request for the first undelivered session; None if a newer agent has replaced it."""
        event = next(iter(self._undelivered))
        run = self.nodes.runs.get(event.run)
        session = run.sessions.get(event.node) if run is not None else None
        if run is None or session is None or durable_event(run, session) != event:
            del self._undelivered[event]
            return None

        hello, *messages = runs.final_messages(run, session)
        assert isinstance(hello, Hello)
        dictionary = session.source.dictionary
        request = Request(
            hello=replace(hello, token=self._token),
            paths=tuple(message for message in messages if isinstance(message, Paths)),
            digest=Digest(len(dictionary), dictionary.digest) if len(dictionary) else None,
            payload=tuple(message for message in messages if isinstance(message, Totals | Bye)),
        )
        return request, _Subject(run.id, session, progress_of(session))

    def _next_sketch_request(self, now: float) -> tuple[Request, _Subject] | None:
        """The request for the first unsketched run; None if there is nothing new to sketch."""
        run_id = next(iter(self._unsketched))
        del self._unsketched[run_id]
        run = self.nodes.runs.get(run_id)
        if run is None or run_id in self._refused_sketches:
            return None

        sessions = [session for session in run.sessions.values() if _is_sketched(session)]
        columns: dict[str, Column] = {}
        for session in sessions:
            columns |= {column.name: column for column in session.hello.columns}
        sent = self._sketch_session(run_id, tuple(columns.values()))
        if not sessions or run.progress() == sent.sent_progress:
            return None
        sent.sent_progress = run.progress()

        registers = {session.hello.node: runs.own_registers(run, session) for session in sessions}
        for session in sessions:
            _update_sketches(sent, run, session, registers[session.hello.node])
        sent.nodes = {node: made for node, made in sent.nodes.items() if node in registers}

        ended = [session.hello.node for session in sessions if session.has_ended]
        messages, _ = sketches.messages_of(
            sketches.merge_sketches(made for _, made in sent.nodes.values()),
            sent.columns,
            seq=sent.seq + 1,
            time_ns=int(now * 1e9),
            ranks=sum(len(of_node) for of_node in registers.values()),
            ended=sum(len(registers[node]) for node in ended),
        )
        sent.seq = messages[-1].seq

        hello = self._hello_for_sketches(sent, sessions)
        return Request(hello, _rows_of(run), digest=None, payload=messages), _Subject(run_id)

    def _hello_for_sketches(self, sent: _SketchSession, sessions: Sequence[NodeSession]) -> Hello:
        return replace(
            sessions[0].hello,
            schema=SCHEMA,
            token=self._token,
            node=self.name,
            incarnation=sent.incarnation,
            ranks=(),
            columns=sent.columns,
            is_relay=True,
        )

    def _sketch_session(self, run_id: str, columns: tuple[Column, ...]) -> _SketchSession:
        sent = self._sketch_sessions.get(run_id)
        if sent is None or sent.columns != columns:
            self._incarnation += 1
            sent = self._sketch_sessions[run_id] = _SketchSession(self._incarnation, columns)
        return sent


def _is_sketched(session: NodeSession) -> bool:
    """Whether the values of a session are part of the sketches."""
    return bool(session.ranks) and (session.has_ended or not session.is_silent)


def _update_sketches(
    sent: _SketchSession, run: Run, session: NodeSession, registers: dict[int, Register]
) -> None:
    """Sketch the values of a node again if it has sent more."""
    node = session.hello.node
    order = (session.hello.incarnation, session.last_seq)
    known = sent.nodes.get(node)
    if known is None or known[0] != order:
        sent.nodes[node] = (order, sketches.sketches_of(registers, len(run.callpaths.all)))


def _rows_of(run: Run) -> tuple[Paths, ...]:
    """The call paths of a run as the dictionary of its relay: each row is a path id."""
    callpaths = run.callpaths.all[:MAX_ROWS]
    messages = []
    for first in range(0, len(callpaths), ROWS_PER_PATHS):
        chunk = callpaths[first : first + ROWS_PER_PATHS]
        parents = run.callpaths.parents[first : first + len(chunk)]
        messages.append(
            Paths(
                first=first,
                parents=np.asarray(parents, "<u4").tobytes(),
                names=tuple(callpath.name for callpath in chunk),
                files=("",) * len(chunk),
                lines=bytes(4 * len(chunk)),
            )
        )
    return tuple(messages)
