"""The protocol between agents and the aggregator: its version, its messages, their fields.

A frame is `MAGIC` followed by one msgpack array `[kind, field, field, …]`, with the fields in the
order of the dataclass. Columns are raw little-endian arrays. New fields are appended with a default
and never moved; kinds are never renumbered.

The state of a rank is the message with the highest (incarnation, seq). Messages carry totals, not
differences, so that lost, duplicated and reordered messages cannot corrupt it. An agent has one
message outstanding; a newer message replaces an older one that was not sent. Every message is
answered. An agent sends `Hello` first: at its start, after a reconnect, after a `Reject` with the
code NO_SESSION, and when an answer comes from another instance of the server. It announces call
paths by their `Digest`, and sends them as `Paths` only if the aggregator does not know them from
another node of the run.

A relay sends the messages of its nodes as their agents would, one request after the other, each of
which begins with `Hello`. For itself it sends a `Hello` with `is_relay`, its dictionary, and at
each heartbeat `Sketches` of what its nodes have measured so far.

Schema history: 1 is the first; 2 adds `Digest`, and answers `Paths` with `Ack`; 3 adds `Sketches`
and `Hello.is_relay`; 4 adds `Bye.collectives` and the times in `Ack`; 5 adds `Collectives.arrivals`
and `Collectives.weights`; 6 adds `Bye.messages`; 7 adds `Bye.intervals`.
"""

from dataclasses import dataclass, field

from insitu.wire.limits import MAX_NAME_BYTES

SCHEMA = 7
MAGIC = b"INS1"
MAX_FRAME_BYTES = 8 << 20
MAX_RANKS = 4_000_000
MAX_ROWS = 65_536  # call paths of one node
MAX_METRICS = 64
ROWS_PER_PATHS = MAX_FRAME_BYTES // (2 * MAX_NAME_BYTES + 64)  # the longest names still fit
MAX_TEXT_BYTES = 65_536  # JSON objects and texts for the user
MAX_COST_BYTES = 1 << 20  # JSON with call paths, and causes of waiting by rank
MAX_FINDINGS = 4_096  # of one node
DIGEST_BYTES = 16
BUCKET_BYTES = {"rows": 4, "keys": 4, "counts": 4, "sums": 8, "lows": 8, "highs": 8}

NO_SESSION = 1  # the agent must send Hello first
REFUSED = 2  # wrong token, size or schema, or no memory: stop sending, keep the tables


@dataclass(frozen=True, slots=True)
class Column:
    """A metric: `dtype` is u8 or f8; times in u8 are clock ticks, which each rank scales."""

    name: str
    unit: str
    kind: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent opens its session: the run, the node, and how to read its columns."""

    schema: int
    run: str  # 32 hexadecimal digits
    token: str
    node: str  # host name, with a number if the host has several agents
    incarnation: int  # start of the agent in nanoseconds since 1970
    size: int  # number of ranks of the run, from MPI or the launcher
    ranks: tuple[int, ...]  # ranks of this node that are known so far
    started_ns: int  # creation of the first rank's table, since 1970
    configuration: str  # JSON object: {"parameters": {...}, "command": [...], "host": ..., ...}
    columns: tuple[Column, ...]
    is_relay: bool = False  # a relay has no ranks of its own


@dataclass(frozen=True, slots=True)
class Paths:
    """New rows of the node's dictionary: row `first + i` is frame `names[i]` below `parents[i]`.

    Row 0 is the root of the program; a root is its own parent. `parents` and `lines` are arrays of
    u4.
    """

    first: int
    parents: bytes
    names: tuple[str, ...]
    files: tuple[str, ...]
    lines: bytes


@dataclass(frozen=True, slots=True)
class Digest:
    """The first `rows` rows of the node's dictionary have this digest (`insitu.wire.digest`).

    An aggregator that knows these rows adds them; its `Ack` says how many rows it knows.
    """

    rows: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks with the same rows: one matrix (ranks × rows) per column.

    `ranks` is i4. `rows` is u4: rows of the dictionary; values of a row that occurs twice are
    summed. `columns` are indices into `Hello.columns`. `matrices` has one byte string per column,
    in row-major order. `tick_s` is f8: seconds per clock tick of each rank. A rank has not visited
    a row whose visits are zero.
    """

    ranks: bytes
    rows: bytes
    tick_s: bytes
    columns: tuple[int, ...]
    matrices: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of those ranks of a node that changed since the last acknowledged message."""

    seq: int
    time_ns: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The sketch of one metric of a relay's ranks (see `insitu.modeling.classes.sketch`).

    `column` is an index into `Hello.columns`. The other fields have one element per bucket, in
    ascending order of row and key: `rows` u4 (rows of the relay's dictionary), `keys` i4, `counts`
    u4, and `sums`, `lows` and `highs` f8 in the unit of the metric.
    """

    column: int
    rows: bytes
    keys: bytes
    counts: bytes
    sums: bytes
    lows: bytes
    highs: bytes


@dataclass(frozen=True, slots=True)
class Sketches:
    """The values of a relay's ranks so far, in several messages if they are large.

    A metric is never split; its newest sketch replaces older ones. Sketches are only displayed: a
    run is stored from the `Totals` of its nodes.
    """

    seq: int
    time_ns: int
    ranks: int  # ranks whose totals have arrived
    ended: int  # of these
    metrics: tuple[Buckets, ...]


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank ended: its exit status or minus its signal; whether its data are complete."""

    rank: int
    status: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Collectives:
    """Sampled collectives of a node's ranks, in rows that have calls across nodes.

    Every array has one element per call and rank. `keys` (u8) is equal in all ranks of a call.
    `ranks` (i4) are ranks of the run, `members` (u4) of the communicator, whose size is in `sizes`
    (u4). `rows` (u4) are rows of the dictionary. `begins` and `ends` (u8) are nanoseconds of the
    node's clock since any time. `needs` (i4) is the member that must enter before this one can
    leave, or a negative number as in `native/table.h`. `is_steady` says whether this clock is never
    slewed. `trips` has four i8 per round trip between the agent and the listener of this instance:
    sent, arrived there, answered there, answer arrived, in nanoseconds of the respective clock.
    `arrivals` (u8) are times like `begins`, when the collective was started; a call that completes
    it later begins later. `weights` (f4) is how many collectives each one represents in its row.
    Both are empty in messages of schema 4: each call begins at its arrival, and all weigh the same.
    """

    keys: bytes = b""
    ranks: bytes = b""
    members: bytes = b""
    sizes: bytes = b""
    rows: bytes = b""
    begins: bytes = b""
    ends: bytes = b""
    needs: bytes = b""
    is_steady: bool = False
    listener: str = ""
    trips: bytes = b""
    arrivals: bytes = b""
    weights: bytes = b""


NO_COLLECTIVES = Collectives()
TRIP_BYTES = 32
COLLECTIVES_BYTES = {
    **dict.fromkeys(("keys", "begins", "ends"), 8),
    **dict.fromkeys(("ranks", "members", "sizes", "rows", "needs"), 4),
}
STARTED_BYTES = {"arrivals": 8, "weights": 4}


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """Sampled messages of a node's ranks, which only the aggregator can compare.

    Every array has one element per message and rank. `keys` (u8) is equal on both sides of a
    message. `ranks` (u4) are ranks of the run, `rows` (u4) rows of the dictionary: of the call that
    completed the message. `calls` (u4) is equal for messages that one call of the rank completed,
    and `counts` (u4) is how many these are, 0 if only the other side needs this message.
    `numbers` (u4) count the messages between two ranks, `sizes` (u4) are bytes, `flags` (u4) as in
    `native/table_events.h`, and WHOLE_SAMPLE if these are all messages of the rank. `levels` (u4)
    are of the sampling in the rank. `posted` (u8) is when the send or receive was started, `begins`
    and `ends` (u8) are of the call, all as in `Collectives`.
    """

    keys: bytes = b""
    ranks: bytes = b""
    rows: bytes = b""
    calls: bytes = b""
    counts: bytes = b""
    numbers: bytes = b""
    sizes: bytes = b""
    flags: bytes = b""
    levels: bytes = b""
    posted: bytes = b""
    begins: bytes = b""
    ends: bytes = b""


NO_MESSAGES = PointToPoint()
WHOLE_SAMPLE = 1 << 16  # a flag
MESSAGES_BYTES = {
    **dict.fromkeys(("keys", "posted", "begins", "ends"), 8),
    **dict.fromkeys(("ranks", "rows", "calls", "counts", "numbers", "sizes", "flags", "levels"), 4),
}


@dataclass(frozen=True, slots=True)
class Intervals:
    """What a node's ranks did before sampled collectives across nodes, since an earlier collective.

    Most arrays have one element per interval and rank. `keys` (u8), `ranks` (u4), `members` (u4),
    `sizes` (u4), `rows` (u4), `begins` and `ends` (u8) and `needs` (i4) are those of the call that
    ends the interval, as in `Collectives`. `previous_keys` (u8) is of the call before, and `starts`
    (u8) when the rank left that. `counts` (u4) is the number of call paths that took longest in the
    interval: so many elements of `profile_rows` (u4) and of `profile_seconds` (f4), which each of
    them took itself, belong to it. Of intervals shorter than `threshold_ns` the node sends the
    share length / `threshold_ns`, the same as other nodes. `mpi_rows` (u4) are the rows of MPI
    calls. `is_sampled` says whether functions were sampled, so that short times are inexact.
    """

    keys: bytes = b""
    previous_keys: bytes = b""
    starts: bytes = b""
    begins: bytes = b""
    ends: bytes = b""
    ranks: bytes = b""
    members: bytes = b""
    sizes: bytes = b""
    rows: bytes = b""
    needs: bytes = b""
    counts: bytes = b""
    profile_rows: bytes = b""
    profile_seconds: bytes = b""
    mpi_rows: bytes = b""
    threshold_ns: int = 0
    is_sampled: bool = False


NO_INTERVALS = Intervals()
INTERVALS_BYTES = {
    **dict.fromkeys(("keys", "previous_keys", "starts", "begins", "ends"), 8),
    **dict.fromkeys(("ranks", "members", "sizes", "rows", "needs", "counts"), 4),
}
PROFILE_BYTES = {"profile_rows": 4, "profile_seconds": 4}


@dataclass(frozen=True, slots=True)
class Bye:
    """The node's ranks have ended; the message `final_seq` has their last totals.

    It is sent again until it is acknowledged as durable.
    """

    final_seq: int
    ends: tuple[RankEnd, ...]
    ended_ns: int
    cost: str  # JSON object: measurement overhead, dropped heartbeats, truncated rows
    findings: tuple[tuple[str, str, str], ...] = field(default=())  # code, text, where
    collectives: Collectives = NO_COLLECTIVES
    messages: PointToPoint = NO_MESSAGES
    intervals: Intervals = NO_INTERVALS


@dataclass(frozen=True, slots=True)
class Welcome:
    """The aggregator accepts the session.

    It knows `known` rows of the dictionary and everything up to `last_seq`, which the agent does
    not need to send again.
    """

    instance: str
    known: int
    last_seq: int
    beat_ms: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything up to `seq` has arrived; it is durable once the node's Bye is synced to disk.

    `arrived_ns` is when the message arrived that this answers, and `answered_ns` when the answer
    was made, by a clock of the listener that is never slewed; 0 if it was made later.
    """

    instance: str
    seq: int
    known: int
    is_durable: bool
    arrived_ns: int = 0
    answered_ns: int = 0


@dataclass(frozen=True, slots=True)
class Reject:
    """A message was not accepted: the reason as a code (NO_SESSION, REFUSED) and as text."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop measuring; the application continues."""

    text: str


Message = Hello | Paths | Digest | Totals | Sketches | Bye | Welcome | Ack | Reject | Halt
KINDS: dict[int, type] = {
    1: Hello,
    2: Paths,
    3: Totals,
    # 4 is reserved for phase marks
    5: Bye,
    6: Digest,
    7: Sketches,
    65: Welcome,
    66: Ack,
    67: Reject,
    68: Halt,
}

# The limit on each field: elements of a tuple or bytes of a string; default MAX_NAME_BYTES.
MAX_LENGTHS: dict[str, int] = {
    "Hello.ranks": MAX_RANKS,
    "Hello.configuration": MAX_TEXT_BYTES,
    "Hello.columns": MAX_METRICS,
    "Digest.digest": DIGEST_BYTES,
    "Paths.parents": 4 * MAX_ROWS,
    "Paths.names": MAX_ROWS,
    "Paths.files": MAX_ROWS,
    "Paths.lines": 4 * MAX_ROWS,
    "Group.ranks": 4 * MAX_RANKS,
    "Group.rows": 4 * MAX_ROWS,
    "Group.tick_s": 8 * MAX_RANKS,
    "Group.columns": MAX_METRICS,
    "Group.matrices": MAX_METRICS,
    "Group.matrices[]": MAX_FRAME_BYTES,
    "Totals.groups": MAX_RANKS,
    **dict.fromkeys((f"Buckets.{name}" for name in BUCKET_BYTES), MAX_FRAME_BYTES),
    **dict.fromkeys((f"Collectives.{name}" for name in COLLECTIVES_BYTES), MAX_FRAME_BYTES),
    **dict.fromkeys((f"Collectives.{name}" for name in STARTED_BYTES), MAX_FRAME_BYTES),
    "Collectives.trips": MAX_FRAME_BYTES,
    **dict.fromkeys((f"PointToPoint.{name}" for name in MESSAGES_BYTES), MAX_FRAME_BYTES),
    **dict.fromkeys((f"Intervals.{name}" for name in INTERVALS_BYTES), MAX_FRAME_BYTES),
    **dict.fromkeys((f"Intervals.{name}" for name in PROFILE_BYTES), MAX_FRAME_BYTES),
    "Intervals.mpi_rows": 4 * MAX_ROWS,
    "Sketches.metrics": MAX_METRICS,
    "Bye.ends": MAX_RANKS,
    "Bye.cost": MAX_COST_BYTES,
    "Bye.findings": MAX_FINDINGS,
    "Bye.findings[][]": MAX_TEXT_BYTES,
    "Reject.text": MAX_TEXT_BYTES,
    "Halt.text": MAX_TEXT_BYTES,
}
