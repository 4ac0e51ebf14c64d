"""The life of one run: which ranks have reported, which have ended, what is missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from insitu.campaign.selection import sample_rate
from insitu.collectors.event_values import describe_error
from insitu.entities import (
    RANKS,
    STATUS_UNKNOWN,
    CallPath,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import WireError
from insitu.modeling.measurement import IntArray, RunTable
from insitu.modeling.sampling import merge_rare_functions
from insitu.server import sketches
from insitu.server.collectives import NodeCollectives, add_waiting
from insitu.server.delays import NodeIntervals, add_delays
from insitu.server.description import add_cost, configuration_of, parameters_of
from insitu.server.dictionary import CallPaths, Dictionary
from insitu.server.file_kinds import add_file_kinds
from insitu.server.message_waits import NodeMessages, add_message_waiting
from insitu.server.sketches import RelayView
from insitu.server.totals import (
    MatrixMemory,
    Register,
    Source,
    dictionary_rows_needed,
    locate_ranks,
    table_of,
    totals_of,
)
from insitu.server.unknown_waiting import find_unknown_waiting
from insitu.wire.messages import Bye, Digest, Hello, Message, Paths, RankEnd, Sketches, Totals

MAX_RANKS_IN_TEXT = 8  # further ranks are only counted

# Estimates of memory in CPython 3.11, for the limit on the memory of all runs.
SESSION_BYTES, ROW_BYTES, RANK_BYTES = 4_096, 512, 64


@dataclass(slots=True)
class NodeSession:
    """One incarnation of an agent or a relay: its Hello, its dictionary and its progress."""

    hello: Hello
    heard_at: float  # seconds since 1970
    source: Source
    last_seq: int = 0
    time_ns: int = 0
    bye: Bye | None = None
    peer: bytes = b""  # the connection of the agent
    is_durable: bool = False  # everything that arrived is synced to disk
    is_silent: bool = False
    ranks: set[int] = field(default_factory=set)  # ranks whose totals have arrived
    view: RelayView = field(default_factory=RelayView)  # the sketches of a relay

    @classmethod
    def of(cls, hello: Hello, at: float, callpaths: CallPaths) -> "NodeSession":
        """The session that a Hello opens in a run with these call paths."""
        return cls(hello, at, Source(hello.columns, Dictionary(callpaths)))

    @property
    def has_ended(self) -> bool:
        """Whether its Bye and all totals before that have arrived."""
        return self.bye is not None and self.last_seq == self.bye.final_seq


@dataclass(slots=True)
class Run:
    """A run that is not complete, as far as its messages have arrived."""

    id: str
    size: int
    parameters: dict[str, float]
    callpaths: CallPaths = field(default_factory=CallPaths)
    sessions: dict[str, NodeSession] = field(default_factory=dict)  # newest, by node
    relays: dict[str, NodeSession] = field(default_factory=dict)  # newest, by name
    registers: dict[int, Register] = field(default_factory=dict)  # by rank
    ends: dict[int, tuple[tuple[int, int], RankEnd]] = field(default_factory=dict)  # by rank
    state: RunState = RunState.EXPECTED
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    stored_progress: tuple[object, ...] = ()  # `progress()` when it was last put into the store
    units: dict[str, tuple[str, str]] = field(default_factory=dict)  # (unit, kind) by metric
    columns: int = 0  # the most columns that a node has announced
    held_bytes: int = 0  # estimated memory of sessions, dictionaries and totals

    def table_bytes(self, callpaths: int) -> int:
        """The memory of a table with every rank's values."""
        return self.size * (8 * callpaths * self.columns + RANK_BYTES)

    def missing(self) -> tuple[int, ...]:
        """The ranks whose data are not complete, ascending."""
        complete = {rank for rank, (_, end) in self.ends.items() if end.is_complete}
        return tuple(rank for rank in range(self.size) if rank not in complete)

    def is_complete(self) -> bool:
        """Whether every rank has ended and its data are complete."""
        return self.has_ended() and not self.missing()

    def has_ended(self) -> bool:
        """Whether every rank has ended, with complete data or not: no agent will send more."""
        return len(self.ends) == self.size

    def live_sessions(self) -> list[NodeSession]:
        """The sessions of agents and relays that are expected to send more."""
        agents = [session for session in self.sessions.values() if not session.has_ended]
        relays = [relay for relay in self.relays.values() if relay.view.ended < relay.view.ranks]
        return agents + relays

    def heard_at(self) -> float:
        """When the last message of this run arrived, in seconds since 1970."""
        return max(session.heard_at for session in self.all_sessions())

    def all_sessions(self) -> list[NodeSession]:
        """The newest sessions of all agents and relays."""
        return [*self.sessions.values(), *self.relays.values()]

    def is_current(self, session: NodeSession) -> bool:
        """Whether no newer session has replaced this one."""
        hello = session.hello
        sessions = self.relays if hello.is_relay else self.sessions
        return sessions.get(hello.node) is session

    def progress(self) -> tuple[object, ...]:
        """A value that changes whenever a message changes the state of the run."""
        return tuple(
            (session.hello.incarnation, session.last_seq, session.bye)
            for session in self.all_sessions()
        )


def open_run(hello: Hello) -> Run:
    """The run that its first Hello describes.

    Raises:
        WireError: its configuration is not a JSON object whose parameters are numbers.
    """
    return Run(hello.run, hello.size, parameters_of(hello))


def open_session(run: Run, hello: Hello, at: float) -> NodeSession:
    """The session of an agent or relay: a new one, or the present one if it reconnects.

    Raises:
        WireError: the Hello contradicts earlier ones, or a newer agent has replaced this one.
    """
    sessions = run.relays if hello.is_relay else run.sessions
    session = sessions.get(hello.node)
    _check_hello(run, hello, session)

    if session is None or session.hello.incarnation < hello.incarnation:
        if session is not None and hello.is_relay:
            run.held_bytes -= session.view.size_bytes
        session = sessions[hello.node] = NodeSession.of(hello, at, run.callpaths)
        run.held_bytes += memory_for(hello)
    elif session.hello.columns != hello.columns:
        raise WireError(f"the agent of node {hello.node} changed its columns")

    run.columns = max(run.columns, len(hello.columns))
    run.units |= {column.name: (column.unit, column.kind) for column in hello.columns}
    session.hello = hello  # it may list more ranks than before
    session.heard_at = at
    if run.state is RunState.EXPECTED:
        run.state = RunState.MEASURING
    return session


def _check_hello(run: Run, hello: Hello, session: NodeSession | None) -> None:
    if hello.size != run.size or parameters_of(hello) != run.parameters:
        raise WireError(
            f"run {run.id} has {run.size} ranks and parameters {run.parameters}; Hello differs"
        )
    if session is not None and session.hello.incarnation > hello.incarnation:
        raise WireError(f"a newer agent of node {hello.node} has connected")

    for column in hello.columns:
        unit_and_kind = (column.unit, column.kind)
        if run.units.get(column.name, unit_and_kind) != unit_and_kind:
            raise WireError(f"metric {column.name} has another unit on other nodes of this run")

    nodes = len(run.relays if hello.is_relay else run.sessions)
    if session is None and nodes >= run.size:
        raise WireError(f"run {run.id} of {run.size} ranks has {nodes} nodes already")


def take_message(
    run: Run, session: NodeSession, message: Paths | Digest | Totals | Sketches | Bye
) -> None:
    """Apply a message of a session to its run.

    Raises:
        WireError: it does not fit the session.
    """
    match message:
        case Totals():
            take_totals(run, session, message)
        case Paths() | Digest():
            take_paths(run, session, message)
        case Sketches():
            take_sketches(run, session, message)
        case Bye():
            take_bye(run, session, message)


def take_paths(run: Run, session: NodeSession, message: Paths | Digest) -> None:
    """Add rows to the dictionary of a session.

    Raises:
        WireError: the rows are not a tree.
    """
    dictionary = session.source.dictionary
    rows_before = len(dictionary)
    if isinstance(message, Paths):
        dictionary.extend(message)
    else:
        dictionary.adopt(message.rows, message.digest)
    if len(dictionary) > rows_before:
        run.held_bytes += memory_for(message)


def take_totals(run: Run, session: NodeSession, totals: Totals) -> bool:
    """Replace the totals of each rank by newer ones; False if the dictionary lacks rows for them.

    Raises:
        WireError: the message does not fit the session.
    """
    if totals.seq <= session.last_seq:
        return True  # a duplicate, or older than totals that have arrived
    if dictionary_rows_needed(totals) > len(session.source.dictionary):
        return False

    order = (session.hello.incarnation, totals.seq)
    memory = MatrixMemory.of(totals)
    for rank, rows in locate_ranks(totals, session.source, run.size).items():
        register = run.registers.get(rank)
        if register is None or register.order < order:
            run.registers[rank] = Register(order, session.source, tuple(rows), memory)
            memory.ranks += 1
            session.ranks.add(rank)
            run.held_bytes -= _release(register)
    if memory.ranks:
        run.held_bytes += memory.size_bytes

    session.last_seq = totals.seq
    session.time_ns = totals.time_ns
    session.is_durable = False
    _apply_bye(run, session)
    return True


def _release(register: Register | None) -> int:
    """The bytes of memory that are freed when a register is replaced."""
    if register is None:
        return 0
    register.memory.ranks -= 1
    return 0 if register.memory.ranks else register.memory.size_bytes


def take_sketches(run: Run, session: NodeSession, message: Sketches) -> None:
    """Replace the sketches of a relay by newer ones, unless its dictionary lacks rows for them.

    Raises:
        WireError: the message does not fit the session.
    """
    if message.seq > session.last_seq and session.view.update(message, session.source):
        run.held_bytes += session.view.added_bytes()
        session.last_seq, session.time_ns = message.seq, message.time_ns


def take_bye(run: Run, session: NodeSession, bye: Bye) -> None:
    """Record how the ranks of a node ended; it applies once all totals before it have arrived.

    A Bye with an older sequence number is stale and ignored.

    Raises:
        WireError: it names ranks that the run does not have.
    """
    if any(not 0 <= end.rank < run.size for end in bye.ends):
        raise WireError(f"Bye names a rank that a run of {run.size} ranks does not have")
    if bye.final_seq < session.last_seq:
        return

    known = session.bye
    if known is None or (known != bye and known.final_seq <= bye.final_seq):
        session.bye = bye
        session.is_durable = False
        run.held_bytes += memory_for(bye)
    if run.state is RunState.MEASURING:
        run.state = RunState.CLOSING
    _apply_bye(run, session)


def _apply_bye(run: Run, session: NodeSession) -> None:
    if session.bye is None or not session.has_ended:
        return

    order = (session.hello.incarnation, session.bye.final_seq)
    for end in session.bye.ends:
        known = run.ends.get(end.rank)
        if known is None or known[0] < order:
            run.ends[end.rank] = (order, end)
    for code, text, where in session.bye.findings:
        run.findings[code, f"{session.hello.node} {where}"] = Finding(code, text, where)


def memory_for(message: Message) -> int:
    """The memory in bytes that a message will need, at most."""
    match message:
        case Hello():
            return SESSION_BYTES + len(message.configuration) + 32 * len(message.ranks)
        case Paths():
            text = sum(map(len, message.names)) + sum(map(len, message.files))
            return ROW_BYTES * len(message.names) + 4 * text
        case Digest():
            return ROW_BYTES * message.rows
        case Totals():
            return MatrixMemory.of(message).size_bytes
        case Sketches():
            return sketches.memory_for(message)
        case Bye():
            texts = sum(len(text) for finding in message.findings for text in finding)
            # All columns, and while they are compared.
            events = 8 * (len(message.collectives.keys) + len(message.messages.keys))
            events += 128 * len(message.intervals.keys)
            return len(message.cost) + 256 * len(message.ends) + 4 * texts + events
        case _:
            return 0


def undurable_sessions(run: Run) -> list[NodeSession]:
    """The sessions of nodes with totals that are not on the disk."""
    return [
        session for session in run.sessions.values() if session.last_seq and not session.is_durable
    ]


def own_registers(run: Run, session: NodeSession) -> dict[int, Register]:
    """The registers of the ranks whose newest totals came from this session."""
    registers = {rank: run.registers[rank] for rank in session.ranks}
    return {
        rank: register for rank, register in registers.items() if register.source is session.source
    }


def final_messages(run: Run, session: NodeSession) -> tuple[Message, ...]:
    """The messages from which a session can be restored, without its token."""
    messages: list[Message] = [replace(session.hello, token="")]
    messages += session.source.dictionary.to_paths()
    if session.last_seq:
        messages += totals_of(own_registers(run, session), session.last_seq, session.time_ns)
    if session.bye is not None:
        messages.append(session.bye)
    return tuple(messages)


def to_record(run: Run, state: RunState, now: float) -> tuple[RunRecord, RunTable]:
    """The run as it is stored; the store numbers its repetition."""
    sessions = list(run.sessions.values())
    missing = run.missing()

    findings = list(run.findings.values())
    if missing:
        text = (
            f"{run.size - len(missing)} of {run.size} ranks are complete; missing:"
            f" {format_ranks(missing)}"
        )
        findings.append(Finding("rank-lost", text, run.id))

    status_of = {rank: end.status for rank, (_, end) in run.ends.items()}
    ended_ns = [session.bye.ended_ns for session in sessions if session.bye is not None]
    record = RunRecord(
        id=run.id,
        key=RunKey.of({**run.parameters, RANKS: float(run.size)}),
        state=state,
        started_at=min(session.hello.started_ns for session in sessions) / 1e9,
        ended_at=max(ended_ns) / 1e9 if ended_ns else now,
        configuration=configuration_of((session.hello, session.bye) for session in sessions),
        exit_status=tuple(status_of.get(rank, STATUS_UNKNOWN) for rank in range(run.size)),
        missing=missing,
        findings=tuple(findings),
    )
    table = table_of(run.size, run.registers)
    if not missing:
        nodes = [
            (session.bye, session.source.dictionary.path_ids)
            for session in sessions
            if session.bye is not None
        ]
        table = add_file_kinds(table, nodes, run.callpaths.all)
        table, delays, unclear = _add_event_values(table, nodes, run.callpaths.all)
        if delays:
            record = replace(record, configuration=add_cost(record.configuration, delays=delays))
        record = replace(record, findings=(*record.findings, *unclear))
    rate = sample_rate(record)
    return record, merge_rare_functions(table, 1 / rate) if rate else table


def _add_event_values(
    table: RunTable, nodes: Sequence[tuple[Bye, IntArray]], callpaths: Sequence[CallPath]
) -> tuple[RunTable, list[Mapping[str, Any]], list[Finding]]:
    """The table with the waiting across nodes, its causes, and findings about what is not known.

    As in the agent, an error there must not cost the counts.
    """
    try:
        with_waits, unclear = add_waiting(
            table, [NodeCollectives(bye.collectives, ids) for bye, ids in nodes], callpaths
        )
        with_waits, unclear_messages, late_calls = add_message_waiting(
            with_waits,
            [NodeMessages(bye.messages, bye.collectives, ids) for bye, ids in nodes],
            callpaths,
        )
        with_waits, delays = add_delays(
            with_waits,
            [NodeIntervals(bye.intervals, bye.collectives, ids) for bye, ids in nodes],
            callpaths,
            late_calls,
        )
        return with_waits, delays, [*unclear, *unclear_messages, *find_unknown_waiting(with_waits)]
    except Exception as error:  # reported as a finding of the run
        text = describe_error("waiting across nodes and its causes are", error)
        return table, [], [Finding("events-unread", text)]


def format_ranks(ranks: Iterable[int]) -> str:
    """Ranks for a message: `1, 2, 5` or `0, 1, 2, 3, 4, 5, 6, 7 and 92 more`."""
    numbers = [str(rank) for rank in ranks]
    text = ", ".join(numbers[:MAX_RANKS_IN_TEXT])
    more = len(numbers) - MAX_RANKS_IN_TEXT
    return f"{text} and {more} more" if more > 0 else text
