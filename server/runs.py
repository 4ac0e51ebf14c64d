"""The life of one run: which ranks spoke, which have ended, which are silent, what is missing."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from insitu.entities import (
    RANKS,
    Finding,
    RunKey,
    RunRecord,
    RunState,
)
from insitu.errors import WireError
from insitu.modeling.measurement import RunTable
from insitu.server import sketches
from insitu.server.description import configuration_of, parameters_of
from insitu.server.dictionary import CallPaths, Dictionary
from insitu.server.sketches import View
from insitu.server.totals import (
    Arrival,
    Register,
    Source,
    lines_of,
    rows_needed,
    table_of,
    totals_of,
)
from insitu.wire.messages import Bye, Digest, Hello, Message, Paths, RankEnd, Sketches, Totals

STATUS_UNKNOWN = -1000  # of a rank whose end nobody told; no exit code and no signal
SESSION_BYTES, ROW_BYTES, RANK_BYTES = 4_096, 512, 64  # about, in this Python
NAMED_AT_MOST = 8  # ranks named in a sentence before it says how many more there are


@dataclass(slots=True)
class Session:
    """One agent's life: its Hello, its dictionary, how far it came."""

    hello: Hello
    heard_at: float
    source: Source
    last_seq: int = 0
    time_ns: int = 0
    bye: Bye | None = None
    peer: bytes = b""  # where its agent is reached
    is_kept: bool = False  # its end is synced to disk
    is_silent: bool = False
    spoken: set[int] = field(default_factory=set)  # ranks whose totals it has brought
    view: View = field(default_factory=View)  # what a relay has told

    @classmethod
    def of(cls, hello: Hello, at: float, callpaths: CallPaths) -> "Session":
        """The session that a Hello opens in a run with these call paths."""
        return cls(hello, at, Source(hello.columns, Dictionary(callpaths)))

    @property
    def is_whole(self) -> bool:
        """Whether its end and the totals that the end names are here."""
        return self.bye is not None and self.last_seq == self.bye.final_seq


@dataclass(slots=True)
class Run:
    """What the aggregator knows of one run that is not sealed."""

    id: str
    size: int
    parameters: dict[str, float]
    callpaths: CallPaths = field(default_factory=CallPaths)
    sessions: dict[str, Session] = field(default_factory=dict)  # by node, the newest incarnation
    relays: dict[str, Session] = field(default_factory=dict)  # likewise; they have no ranks
    registers: dict[int, Register] = field(default_factory=dict)  # by rank
    ends: dict[int, tuple[tuple[int, int], RankEnd]] = field(default_factory=dict)
    state: RunState = RunState.EXPECTED
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    shown: tuple[object, ...] = ()  # its progress when it was last put into the store
    units: dict[str, tuple[str, str]] = field(default_factory=dict)  # with kind, of each metric
    columns: int = 0  # that a node has announced, at most
    held_bytes: int = 0  # its sessions, dictionaries and totals, about

    def table_bytes(self, callpaths: int) -> int:
        """The memory of a table with every rank's value."""
        return self.size * (8 * callpaths * self.columns + RANK_BYTES)

    def missing(self) -> tuple[int, ...]:
        """The ranks whose whole data are not here, ascending."""
        whole = {rank for rank, (_, end) in self.ends.items() if end.is_complete}
        return tuple(rank for rank in range(self.size) if rank not in whole)

    def is_complete(self) -> bool:
        """Whether every rank has ended with whole data."""
        return len(self.ends) == self.size and not self.missing()

    def has_ended(self) -> bool:
        """Whether every rank has an end, whole or not: nothing more can come by itself."""
        return len(self.ends) == self.size

    def live(self) -> list[Session]:
        """The sessions of agents that have not said how their ranks ended, and of their relays."""
        agents = [session for session in self.sessions.values() if not session.is_whole]
        return agents + [s for s in self.relays.values() if s.view.ended < s.view.ranks]

    def heard_at(self) -> float:
        """When anything was heard of this run last."""
        return max(s.heard_at for s in (*self.sessions.values(), *self.relays.values()))

    def speaks(self, session: Session) -> bool:
        """Whether no newer agent or relay speaks for the node of a session."""
        hello = session.hello
        return (self.relays if hello.is_relay else self.sessions).get(hello.node) is session

    def progress(self) -> tuple[object, ...]:
        """What changes whenever something arrives that counts."""
        everyone = (*self.sessions.values(), *self.relays.values())
        return tuple((s.hello.incarnation, s.last_seq, s.bye) for s in everyone)


def open_run(hello: Hello) -> Run:
    """The run that a first Hello describes.

    Raises:
        WireError: its configuration is not a JSON object whose parameters are numbers.
    """
    return Run(hello.run, hello.size, parameters_of(hello))


def welcome(run: Run, hello: Hello, at: float) -> Session:
    """Let an agent speak for the run: a new session, or the one it had.

    Raises:
        WireError: it describes another run than the agents before it, or is not the newest.
    """
    if hello.size != run.size or parameters_of(hello) != run.parameters:
        raise WireError(f"run {run.id} has {run.size} ranks and {run.parameters}; Hello says other")
    speakers = run.relays if hello.is_relay else run.sessions
    known = speakers.get(hello.node)
    if known is not None and known.hello.incarnation > hello.incarnation:
        raise WireError(f"a newer agent speaks for node {hello.node}")
    for column in hello.columns:
        if run.units.get(column.name, (column.unit, column.kind)) != (column.unit, column.kind):
            raise WireError(f"metric {column.name} has another unit on other nodes of this run")
    if known is None and len(speakers) >= run.size:
        raise WireError(f"run {run.id} of {run.size} ranks has {len(speakers)} nodes already")
    if known is None or known.hello.incarnation < hello.incarnation:
        if known is not None and hello.is_relay:
            run.held_bytes -= known.view.size_bytes
        known = speakers[hello.node] = Session.of(hello, at, run.callpaths)
        run.held_bytes += room_for(hello)
    elif known.hello.columns != hello.columns:
        raise WireError(f"the agent of node {hello.node} changed its columns")
    run.columns = max(run.columns, len(hello.columns))
    run.units |= {column.name: (column.unit, column.kind) for column in hello.columns}
    known.hello = hello  # it may know of more ranks by now
    known.heard_at = at
    if run.state is RunState.EXPECTED:
        run.state = RunState.MEASURING
    return known


def take(run: Run, session: Session, message: Paths | Digest | Totals | Sketches | Bye) -> None:
    """Take what an agent or a relay says after its Hello.

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


def take_paths(run: Run, session: Session, message: Paths | Digest) -> None:
    """Add rows to the dictionary of a session.

    Raises:
        WireError: the rows make no tree.
    """
    dictionary = session.source.dictionary
    before = len(dictionary)
    if isinstance(message, Paths):
        dictionary.extend(message)
    else:
        dictionary.adopt(message.rows, message.digest)
    if len(dictionary) > before:
        run.held_bytes += room_for(message)


def take_totals(run: Run, session: Session, totals: Totals) -> bool:
    """Let the newest totals of each rank stand; False where the dictionary is too short for them.

    Raises:
        WireError: the message does not fit the session.
    """
    if totals.seq <= session.last_seq:
        return True  # doubled or overtaken by a newer one
    if rows_needed(totals) > len(session.source.dictionary):
        return False
    order = (session.hello.incarnation, totals.seq)
    arrival = Arrival.of(totals)
    for rank, lines in lines_of(totals, session.source, run.size).items():
        register = run.registers.get(rank)
        if register is None or register.order < order:
            run.registers[rank] = Register(order, session.source, tuple(lines), arrival)
            arrival.ranks += 1
            session.spoken.add(rank)
            run.held_bytes += _let_go(register)
    if arrival.ranks:
        run.held_bytes += arrival.size_bytes
    session.last_seq = totals.seq
    session.time_ns = totals.time_ns
    session.is_kept = False
    _take_ends(run, session)
    return True


def take_sketches(run: Run, session: Session, message: Sketches) -> None:
    """Let the newest sketch of each metric stand, where the dictionary is long enough for it.

    Raises:
        WireError: the message does not fit the session.
    """
    if message.seq > session.last_seq and session.view.take(message, session.source):
        run.held_bytes += session.view.grown()
        session.last_seq, session.time_ns = message.seq, message.time_ns


def unkept(run: Run) -> list[Session]:
    """The sessions of nodes that have brought what is not on the disk, ended or not."""
    return [s for s in run.sessions.values() if s.last_seq and not s.is_kept]


def _let_go(register: Register | None) -> int:
    """What is no longer held when a register is replaced, as a number below zero."""
    if register is None:
        return 0
    register.arrival.ranks -= 1
    return 0 if register.arrival.ranks else -register.arrival.size_bytes


def room_for(message: Message) -> int:
    """The memory that a message will take, at most."""
    match message:
        case Hello():
            return SESSION_BYTES + len(message.configuration) + 32 * len(message.ranks)
        case Paths():
            text = sum(map(len, message.names)) + sum(map(len, message.files))
            return ROW_BYTES * len(message.names) + 4 * text
        case Digest():
            return ROW_BYTES * message.rows
        case Totals():
            return Arrival.of(message).size_bytes
        case Sketches():
            return sketches.size_of(message)
        case Bye():
            texts = sum(len(text) for finding in message.findings for text in finding)
            return len(message.cost) + 256 * len(message.ends) + 4 * texts
        case _:
            return 0


def take_bye(run: Run, session: Session, bye: Bye) -> None:
    """Report how the ranks of a node ended; it counts once the totals it names are here.

    One that names totals before those that are here came late, and is nothing any more.

    Raises:
        WireError: it names ranks that the run does not have.
    """
    if any(not 0 <= end.rank < run.size for end in bye.ends):
        raise WireError(f"Bye names a rank that the run of {run.size} has not")
    if bye.final_seq < session.last_seq:
        return
    if session.bye is None or (session.bye != bye and session.bye.final_seq <= bye.final_seq):
        session.bye = bye
        session.is_kept = False
        run.held_bytes += room_for(bye)
    if run.state is RunState.MEASURING:
        run.state = RunState.CLOSING
    _take_ends(run, session)


def _take_ends(run: Run, session: Session) -> None:
    if session.bye is None or not session.is_whole:
        return
    order = (session.hello.incarnation, session.bye.final_seq)
    for end in session.bye.ends:
        known = run.ends.get(end.rank)
        if known is None or known[0] < order:
            run.ends[end.rank] = (order, end)
    for code, text, where in session.bye.findings:
        run.findings[code, f"{session.hello.node} {where}"] = Finding(code, text, where)


def last_words(run: Run, session: Session) -> tuple[Message, ...]:
    """What the journal must hold of a session to make it again, without its token."""
    all_of_them = ((rank, run.registers[rank]) for rank in session.spoken)
    own = {rank: found for rank, found in all_of_them if found.source is session.source}
    words: list[Message] = [replace(session.hello, token="")]
    words += session.source.dictionary.to_paths()
    if session.last_seq:
        words += totals_of(own, session.last_seq, session.time_ns)
    if session.bye is not None:
        words.append(session.bye)
    return tuple(words)


def result(run: Run, state: RunState, now: float) -> tuple[RunRecord, RunTable]:
    """The run as the store keeps it; its repetition is not numbered yet."""
    missing = run.missing()
    findings = list(run.findings.values())
    if missing:
        text = f"{run.size - len(missing)} of {run.size} ranks are whole; missing: {named(missing)}"
        findings.append(Finding("rank-lost", text, run.id))
    statuses = {rank: end.status for rank, (_, end) in run.ends.items()}
    byes = [session.bye.ended_ns for session in run.sessions.values() if session.bye is not None]
    record = RunRecord(
        id=run.id,
        key=RunKey.of({**run.parameters, RANKS: float(run.size)}),
        state=state,
        started_at=min(session.hello.started_ns for session in run.sessions.values()) / 1e9,
        ended_at=max(byes) / 1e9 if byes else now,
        configuration=configuration_of(
            (session.hello, session.bye) for session in run.sessions.values()
        ),
        exit_status=tuple(statuses.get(rank, STATUS_UNKNOWN) for rank in range(run.size)),
        missing=missing,
        findings=tuple(findings),
    )
    return record, table_of(run.size, run.registers)


def named(ranks: Iterable[int]) -> str:
    """Ranks for a sentence: `1, 2, 5` or `0, 1, 2, 3, 4, 5, 6, 7 and 92 more`."""
    numbers = [str(rank) for rank in ranks]
    more = len(numbers) - NAMED_AT_MOST
    return ", ".join(numbers[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
