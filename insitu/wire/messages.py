"""The protocol between agents and the aggregator: its version, its messages, their fields.

A frame is `MAGIC` and one msgpack array `[kind, field, field, …]` in the order of the dataclass.
Columns are raw little-endian arrays. Fields are appended with a default, never moved; kinds are
never renumbered.

The state of a rank is the message with the highest (incarnation, seq): totals, not deltas, so that
lost, doubled and reordered messages cannot corrupt it. One message is outstanding per agent; the
newest replaces older ones. After a reconnect, a `Reject` with code NO_SESSION or a new server
instance, `Hello` goes first. Each message is answered. Call paths go by their `Digest`, and as
`Paths` only where the aggregator has not heard them from another node of the run.

A relay speaks for its nodes as their agents would, one conversation after the other on one
connection, each beginning with `Hello`. Of itself it says `Hello` with `is_relay`, its dictionary,
and at each beat `Sketches` of what its nodes have measured so far.

Schema history: 1, the first; 2 adds `Digest`, and answers `Paths` with `Ack`; 3 adds `Sketches` and
`Hello.is_relay`.
"""

from dataclasses import dataclass, field

SCHEMA = 3
MAGIC = b"INS1"
MAX_FRAME_BYTES = 8 << 20
MAX_RANKS = 4_000_000
MAX_ROWS = 65_536  # call paths of one node
MAX_NAME_BYTES = 1_024
MAX_METRICS = 64
ROWS_PER_PATHS = MAX_FRAME_BYTES // (2 * MAX_NAME_BYTES + 64)  # the longest names still fit
MAX_TEXT_BYTES = 65_536  # JSON objects and sentences for people
MAX_FINDINGS = 4_096  # of one node
DIGEST_BYTES = 16
BUCKET_BYTES = {"rows": 4, "keys": 4, "counts": 4, "sums": 8, "lows": 8, "highs": 8}

NO_SESSION = 1  # Hello first
REFUSED = 2  # wrong token, wrong size, wrong schema: stop sending, keep the tables


@dataclass(frozen=True, slots=True)
class Column:
    """One metric as it travels: `dtype` is u8 or f8; times in u8 are ticks, scaled per rank."""

    name: str
    unit: str
    kind: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent opens its session: which run, which node, how the columns are to be read."""

    schema: int
    run: str  # 32 hexadecimal digits
    token: str
    node: str  # host name and a number where one host has several agents
    incarnation: int  # nanoseconds since 1970 at the start of the agent
    size: int  # ranks of the whole run, from MPI or the launcher
    ranks: tuple[int, ...]  # those of this node that are known so far
    started_ns: int  # since 1970, when the first rank's table was made
    configuration: str  # JSON object: {"parameters": {...}, "command": [...], "host": ..., ...}
    columns: tuple[Column, ...]
    is_relay: bool = False  # it has no ranks of its own


@dataclass(frozen=True, slots=True)
class Paths:
    """New rows of the node's dictionary: row `first + i` is frame `names[i]` below `parents[i]`.

    Row 0 is the root of the program and its own parent. `parents` is an array of u4.
    """

    first: int
    parents: bytes
    names: tuple[str, ...]
    files: tuple[str, ...]
    lines: bytes  # u4


@dataclass(frozen=True, slots=True)
class Digest:
    """The first `rows` rows of the node's dictionary have this digest (`insitu.wire.digest`).

    An aggregator that knows these rows takes them; its `Ack` says how many are known.
    """

    rows: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that have the same rows: a matrix (ranks × rows) per column.

    `ranks` i4, `rows` u4 (ids of the dictionary; one that occurs twice is to be summed), `columns`
    indices into `Hello.columns`, `matrices` one byte string per column, rank-major; `tick_s` f8 per
    rank: seconds per tick. A row with zero visits was not visited by that rank.
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
    """One metric of a relay's ranks as a sketch, an element per bucket (see `modeling/classes`).

    `column` is an index into `Hello.columns`. `rows` u4 (ids of the relay's dictionary), `keys` i4,
    `counts` u4, `sums`, `lows` and `highs` f8 in the unit of the metric; ascending by row and key.
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
    """The values of a relay's ranks so far; what is large comes in several, each metric whole.

    The newest of each metric stands. Sketches are for people to look at: a run is sealed from the
    `Totals` of its nodes.
    """

    seq: int
    time_ns: int
    ranks: int  # that have spoken
    ended: int
    metrics: tuple[Buckets, ...]


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank ended: exit status (minus the signal that killed it), data whole or not."""

    rank: int
    status: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Bye:
    """The node's ranks have ended; `final_seq` holds their last totals.

    Sent again until it is acknowledged as durable.
    """

    final_seq: int
    ends: tuple[RankEnd, ...]
    ended_ns: int
    cost: str  # JSON object: what the agent and the hooks cost, beats dropped, rows truncated
    findings: tuple[tuple[str, str, str], ...] = field(default=())  # code, text, where


@dataclass(frozen=True, slots=True)
class Welcome:
    """The aggregator takes the session.

    `known` rows of the dictionary and everything up to `last_seq` need not be sent again.
    """

    instance: str
    known: int
    last_seq: int
    beat_ms: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything up to `seq` has arrived; durable only once the node's Bye is synced to disk."""

    instance: str
    seq: int
    known: int
    is_durable: bool


@dataclass(frozen=True, slots=True)
class Reject:
    """A message that was not taken, by code (NO_SESSION, REFUSED) and in words."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop measuring; the application goes on."""

    text: str


Message = Hello | Paths | Digest | Totals | Sketches | Bye | Welcome | Ack | Reject | Halt
KINDS: dict[int, type] = {
    1: Hello,
    2: Paths,
    3: Totals,
    # 4 is kept for phase marks
    5: Bye,
    6: Digest,
    7: Sketches,
    65: Welcome,
    66: Ack,
    67: Reject,
    68: Halt,
}

# The longest that a field may be: elements of a tuple, bytes of a string; else MAX_NAME_BYTES.
LONGEST: dict[str, int] = {
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
    "Sketches.metrics": MAX_METRICS,
    "Bye.ends": MAX_RANKS,
    "Bye.cost": MAX_TEXT_BYTES,
    "Bye.findings": MAX_FINDINGS,
    "Bye.findings[][]": MAX_TEXT_BYTES,
    "Reject.text": MAX_TEXT_BYTES,
    "Halt.text": MAX_TEXT_BYTES,
}
