"""The basic types that all packages share."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

ARROW = "->"
IMPORT = "(import)"  # the frame above what a program of Python does to import modules
# Packages such as numpy import their modules when a program first asks for them, as `np.random`, by
# a function of this name [PEP 562]. Names of classes begin with a capital.
LAZY_IMPORT = re.compile(r"[a-z][a-z0-9_]*\.__getattr__")
START_UP = re.compile(
    rf"\(import\)|{LAZY_IMPORT.pattern}|P?MPI_(Init|Init_thread|Finalize|Session_\w+)"
)
# Functions that allocate for their callers: xmalloc, comdMalloc, hypre_CAlloc, prk_malloc(int).
ALLOCATOR = re.compile(r"([mc]|re)alloc(\(.*)?\Z", re.IGNORECASE)
SCALINGS = ("weak", "strong")  # the work of each rank stays the same, or the total work
RANKS = "p"  # the parameter that every run has: its number of ranks


class MetricKind(StrEnum):
    """How a metric changes while a program runs.

    A counter only grows. A gauge may also fall. A position is a rank's coordinate in its Cartesian
    grid; positions are not modelled. The stored values are those of the first format version.
    """

    COUNTER = "total"
    GAUGE = "level"
    POSITION = "place"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured quantity with its unit."""

    name: str
    unit: str
    kind: MetricKind = MetricKind.COUNTER

    @property
    def is_deterministic(self) -> bool:
        """Whether a deterministic program gives the same value in every run."""
        return self.name in DETERMINISTIC

    @property
    def is_wall_time(self) -> bool:
        """Whether waiting for a core makes a value larger, also that of a team of threads."""
        return self.name == "imbalance" or (self.unit == "s" and self.name != "cpu_time")


DETERMINISTIC = frozenset(
    {
        *("visits", "bytes_sent", "bytes_received", "messages_sent", "messages_received"),
        *("comm_ranks", "bytes_read", "bytes_written", "bytes_mapped", "files_opened"),
        *("partners", "message_chain", "library_calls"),
        *("files_shared", "files_own", "window_bytes"),
    }
)
VISITS = Metric("visits", "1")
TIME = Metric("time", "s")
TIME_EXCLUSIVE = Metric("time_exclusive", "s")
BYTES_SENT = Metric("bytes_sent", "B")
BYTES_RECEIVED = Metric("bytes_received", "B")
MESSAGES_SENT = Metric("messages_sent", "1")
MESSAGES_RECEIVED = Metric("messages_received", "1")
COMM_RANKS = Metric("comm_ranks", "1")
PARTNERS = Metric("partners", "1")
ONLY_PARTNER = Metric("only_partner", "1", MetricKind.POSITION)
# 1: a call is on a communicator of all ranks that was split off; 2: all are on those of a node.
SPLIT_COMMUNICATOR = Metric("split_communicator", "1", MetricKind.POSITION)
MESSAGE_CHAIN = Metric("message_chain", "1", MetricKind.GAUGE)
MESSAGE_CHAIN_TIME = Metric("message_chain_time", "s", MetricKind.POSITION)
LIBRARY_CALLS = Metric("library_calls", "1")
BYTES_READ = Metric("bytes_read", "B")
BYTES_WRITTEN = Metric("bytes_written", "B")
BYTES_MAPPED = Metric("bytes_mapped", "B")
FILES_OPENED = Metric("files_opened", "1")
FILES_SHARED = Metric("files_shared", "1")
FILES_OWN = Metric("files_own", "1")
WINDOW_BYTES = Metric("window_bytes", "B")
MEMORY_RSS = Metric("memory_rss", "B", MetricKind.GAUGE)
MEMORY_RSS_PEAK = Metric("memory_rss_peak", "B", MetricKind.GAUGE)
MEMORY_PSS = Metric("memory_pss", "B", MetricKind.GAUGE)
MEMORY_PRIVATE = Metric("memory_private", "B", MetricKind.GAUGE)
MEMORY_SHARED = Metric("memory_shared", "B", MetricKind.GAUGE)
MEMORY_SWAP = Metric("memory_swap", "B", MetricKind.GAUGE)
MEMORY_MPI = Metric("memory_mpi", "B", MetricKind.GAUGE)
INSTRUCTIONS = Metric("instructions", "1")
CYCLES = Metric("cycles", "1")
ALLOCATIONS = Metric("allocations", "1")
BYTES_ALLOCATED = Metric("bytes_allocated", "B")
HEAP_GROWTH = Metric("heap_growth", "B", MetricKind.GAUGE)
HEAP_PEAK = Metric("heap_peak", "B", MetricKind.GAUGE)
POSITIONS = tuple(Metric(f"position_{axis}", "1", MetricKind.POSITION) for axis in "xyzt")
TIME_WAITING = Metric("time_waiting", "s")
COLLECTIVE_TIME = Metric("collective_time", "s", MetricKind.GAUGE)
COLLECTIVE_TIME_MIN = Metric("collective_time_min", "s", MetricKind.GAUGE)
TIME_LATE_SENDER = Metric("time_late_sender", "s")
TIME_LATE_RECEIVER = Metric("time_late_receiver", "s")
DELAY_COST = Metric("delay_cost", "s")
CPU_TIME = Metric("cpu_time", "s")
PROCESSOR_WAIT = Metric("processor_wait", "s", MetricKind.POSITION)
BLOCKED_TIME = Metric("blocked_time", "s", MetricKind.POSITION)
TIME_MPI = Metric("time_mpi", "s")
ENERGY = Metric("energy", "J")
# Of parallel regions of OpenMP. The imbalance is 1 - mean / maximum of what the threads worked.
TIME_BUSY = Metric("time_busy", "s")
TIME_BARRIER = Metric("time_barrier", "s")
TEAM_THREADS = Metric("team_threads", "1", MetricKind.GAUGE)
IMBALANCE = Metric("imbalance", "1", MetricKind.GAUGE)
# Of what GPUs do. A device is idle between the first and the last thing that it does for the rank.
DEVICE_TIME = Metric("device_time", "s")
BYTES_COPIED = Metric("bytes_copied", "B")
DEVICE_BUSY = Metric("device_busy", "s")
DEVICE_IDLE = Metric("device_idle", "1", MetricKind.GAUGE)
DEVICE_MEMORY_PEAK = Metric("device_memory_peak", "B", MetricKind.GAUGE)
ITERATION_TIME = Metric("iteration_time", "s", MetricKind.GAUGE)
ITERATION_VARIATION = Metric("iteration_variation", "1", MetricKind.GAUGE)
METRICS = (
    VISITS,
    TIME,
    TIME_EXCLUSIVE,
    BYTES_SENT,
    BYTES_RECEIVED,
    MEMORY_RSS,
    MEMORY_RSS_PEAK,
    MEMORY_PSS,
    ALLOCATIONS,
    BYTES_ALLOCATED,
    HEAP_GROWTH,
    HEAP_PEAK,
    *POSITIONS,
    MESSAGES_SENT,
    MESSAGES_RECEIVED,
    COMM_RANKS,
    ITERATION_TIME,
    ITERATION_VARIATION,
    MEMORY_PRIVATE,
    MEMORY_SHARED,
    MEMORY_SWAP,
    MEMORY_MPI,
    INSTRUCTIONS,
    CYCLES,
    TIME_WAITING,
    CPU_TIME,
    BYTES_READ,
    BYTES_WRITTEN,
    BYTES_MAPPED,
    FILES_OPENED,
    FILES_SHARED,
    FILES_OWN,
    TIME_MPI,
    ENERGY,
    PARTNERS,
    COLLECTIVE_TIME,
    COLLECTIVE_TIME_MIN,
    TIME_LATE_SENDER,
    TIME_LATE_RECEIVER,
    TIME_BUSY,
    TIME_BARRIER,
    TEAM_THREADS,
    IMBALANCE,
    DELAY_COST,
    MESSAGE_CHAIN,
    DEVICE_TIME,
    BYTES_COPIED,
    DEVICE_BUSY,
    DEVICE_IDLE,
    DEVICE_MEMORY_PEAK,
    ONLY_PARTNER,
    WINDOW_BYTES,
    PROCESSOR_WAIT,
    MESSAGE_CHAIN_TIME,
    BLOCKED_TIME,
    LIBRARY_CALLS,
    SPLIT_COMMUNICATOR,
)


@dataclass(frozen=True, slots=True, order=True)
class CallPath:
    """Frames from the root of the program; written `main->solve->MPI_Allreduce` as in Extra-P.

    The hash is computed once: refits look up paths of 25 frames millions of times.
    """

    frames: tuple[str, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.frames))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["CallPath"], tuple[tuple[str, ...]]]:
        """Pickle the frames alone: texts have another hash in each process."""
        return CallPath, (self.frames,)

    @classmethod
    def parse(cls, text: str) -> "CallPath":
        """Parse the text that `str` returns."""
        return cls(tuple(part.strip() for part in text.split(ARROW)))

    def __str__(self) -> str:
        return ARROW.join(self.frames)

    @property
    def name(self) -> str:
        """The last frame: the function itself."""
        return self.frames[-1] if self.frames else ""

    @property
    def parent(self) -> "CallPath | None":
        """The caller's path; None for the program itself."""
        return CallPath(self.frames[:-1]) if len(self.frames) > 1 else None

    def is_within(self, other: "CallPath") -> bool:
        """Whether this is another path, or below it in the call tree."""
        return self.frames[: len(other.frames)] == other.frames

    def child(self, frame: str) -> "CallPath":
        """The path of a function called from this one."""
        return CallPath((*self.frames, frame.replace(ARROW, "→")))


def is_start_up(path: CallPath) -> bool:
    """Whether a call path belongs to the start or the end of the program, or to imports."""
    return any(map(_is_of_start_up, path.frames))


def is_allocator(frame: str) -> bool:
    """Whether a frame is that of a function by which others allocate, such as `xmalloc`."""
    return ALLOCATOR.search(frame) is not None


def is_import(frame: str) -> bool:
    """Whether a frame is that of imports, at the start or when a package is first asked."""
    return frame == IMPORT or LAZY_IMPORT.fullmatch(frame) is not None


@cache
def _is_of_start_up(frame: str) -> bool:
    return START_UP.fullmatch(frame) is not None


@dataclass(frozen=True, slots=True)
class RunKey:
    """Identifies a run by its parameter values and its repetition number."""

    parameters: tuple[tuple[str, float], ...]
    repetition: int = 0

    @classmethod
    def of(cls, parameters: Mapping[str, float], repetition: int = 0) -> "RunKey":
        """Sort the parameters: `p` first, then by name."""
        names = sorted(parameters, key=lambda name: (name != RANKS, name))
        return cls(tuple((name, float(parameters[name])) for name in names), repetition)

    def __str__(self) -> str:
        values = ",".join(f"{name}={number(value)}" for name, value in self.parameters)
        return f"{values}#{self.repetition}"

    @property
    def size(self) -> int:
        """The number of ranks."""
        return int(dict(self.parameters).get(RANKS, 1))

    def coordinate(self, names: Iterable[str]) -> tuple[float, ...]:
        """The values of the named parameters; NaN for a parameter that this run did not set."""
        values = dict(self.parameters)
        return tuple(values.get(name, math.nan) for name in names)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of a run other than its parameters: command, host, versions."""

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "Configuration":
        """Sort the values by name."""
        return cls(tuple(sorted((name, str(value)) for name, value in values.items())))

    def __getitem__(self, name: str) -> str:
        return dict(self.values)[name]

    def get(self, name: str, default: str = "") -> str:
        """The value with this name, or the default."""
        return dict(self.values).get(name, default)

    def to_json(self) -> str:
        """A JSON object of strings, sorted by name."""
        return json.dumps(dict(self.values), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic that is not an error.

    `code` is a stable hyphenated identifier (`classes-differ`, `rank-lost`). `text` is a sentence
    for the user. `where` names the run, call path or rank concerned.
    """

    code: str
    text: str
    where: str = ""


class RunState(StrEnum):
    """The state of a run. The stored values are those of the first format version."""

    EXPECTED = "expected"
    MEASURING = "measuring"
    CLOSING = "closing"
    COMPLETE = "sealed"
    INCOMPLETE = "partial"


RANK_SIGNAL = "rank-signal"  # the finding about a signal that `insitu run` learns from the launcher
STATUS_UNKNOWN = -1000  # of a rank whose end was not reported; neither an exit code nor a signal


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a campaign stores about a run besides its values."""

    id: str
    key: RunKey
    state: RunState
    started_at: float = 0.0  # seconds since 1970
    ended_at: float = 0.0
    configuration: Configuration = field(default_factory=Configuration)
    exit_status: tuple[int, ...] = ()  # one per rank; minus a signal; STATUS_UNKNOWN
    missing: tuple[int, ...] = ()  # ranks that never reported their end
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """Which run it is, how it ended, how long it took, and what was found."""
        took = f" after {self.ended_at - self.started_at:.3g} s" if self.ended_at > 0 else ""
        codes = ", ".join(dict.fromkeys(finding.code for finding in self.findings))
        found = f", findings: {codes}" if codes else ""
        return f"<run {self.key}: {self.state.name.lower()}{took}{found}>"

    @property
    def errors(self) -> list[tuple[int, int]]:
        """The ranks that reported an error at their end, and their exit status."""
        return [
            (rank, status)
            for rank, status in enumerate(self.exit_status)
            if status not in (0, STATUS_UNKNOWN)
        ]


def number(value: float) -> str:
    """The shortest text that parses back to this number: 64, 0.5, 1e+20."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))


def finite(value: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse_assignment(text: str) -> tuple[str, float]:
    """Parse `n=256` or `p = 1e3`.

    Raises:
        ValueError: the text says what is wrong and shows a correct example.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not _NAME.match(name):
        raise ValueError(f"'{text}' is not NAME=VALUE, as in n=256")
    try:
        result = float(value)
    except ValueError:
        raise ValueError(
            f"'{text}': '{value}' is not a number, as in n=256; for values without an order, use a"
            " campaign for each, and `insitu diff`"
        ) from None
    if not math.isfinite(result):
        raise ValueError(f"'{text}': '{value}' is not a finite number, as in n=256")
    return name, result
