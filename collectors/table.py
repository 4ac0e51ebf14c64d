"""Read a rank's table, the memory-mapped file described in `native/table.h`, while it is written.

`native/table.h` is the reference for the layout. `tests/collectors/test_table.py` compiles it and
compares every offset, size and constant of this module with it.
"""

import mmap
import os
import struct
import time
from array import array
from dataclasses import dataclass
from typing import NamedTuple

from insitu.collectors.table_events import (
    COLLECTIVE,
    INTERVAL,
    MAX_COLLECTIVES,
    MAX_INTERVALS,
    MAX_LISTED,
    MAX_MESSAGES,
    MESSAGE,
    CollectiveEvent,
    IntervalEvent,
    MessageEvent,
    parse_collectives,
    parse_intervals,
    parse_messages,
)
from insitu.collectors.table_header import HEADER, Header
from insitu.errors import WireError
from insitu.wire.limits import MAX_NAME_BYTES

MAGIC = b"INSITUT1"
VERSION = 1
HEADER_BYTES = 4096  # one page; the fields of `Header` fill its beginning

# States of a rank, and of MPI in it.
RUNNING, ENDED, ABORTED, REPLACED = range(4)
MPI_NONE, MPI_INITIALISED, MPI_FINALISED = range(3)

# Kinds of rows. The name of a compiled function is its address in the object named as its file. A
# phase covers the whole process between two marks of the program. STACK is a compiled function that
# was read from stacks; its visits are samples, its times are unused.
# OPENMP is a parallel region, named like a compiled function or like a call in one. DEVICE is what
# a GPU does; it has visits, and no time of the host.
PROGRAM, PYTHON, LIBRARY, MPI, THREAD, REGION, BUILTIN, COMPILED, PHASE, STACK, FILE = range(11)
OPENMP, DEVICE = 11, 12

FOLDED = 1  # flag of a frame: a direct recursion, which adds no inclusive time
THROTTLED = 16  # flag of a row: its function is no longer recorded
# Flags of a row of MPI calls: on which communicators they are.
ON_OTHER, ON_SPLIT, ON_NODE = 128, 256, 512

# Offsets of the u4 fields of a row. Its columns are described in the file itself.
ROW_PARENT, ROW_NAME, ROW_KIND, ROW_FLAGS = 8, 20, 24, 28
NAMES_START = 8  # the first record in the name pool; offset 0 means that a row has no name yet

MIN_BASELINE_NS = 1_000_000  # a shorter interval does not relate the two clocks well enough

# A name record (line, bytes of the name, bytes of the file), followed by the name and the file.
NAME = struct.Struct("<IHH")
# An open call: start, ticks of its callees, row, flags; the last u8 is private to the writer.
FRAME = struct.Struct("<QQIIQ")
# The beginning of a thread area, whose third field is the number of open frames.
THREAD_HEAD = struct.Struct("<IIIIQQ")
# A named phase: row, a reserved u4, then PHASE_VALUES.
PHASE_HEAD = struct.Struct("<II10Q")
PHASE_VALUES = (
    "memory_rss",
    "memory_rss_peak",
    "memory_pss",
    "memory_private",
    "memory_shared",
    "memory_swap",
    "instructions",
    "cycles",
    "cpu_ns",
    "mpi_time",
)
OPENED = struct.Struct("<IHH32Q")
MAX_OPENED = 128  # call paths that open files, for which a table has room
# Ticks below zero: a signal handler that interrupts the end of a function counts twice.
NEGATIVE = 1 << 63
PARTNERS_UNKNOWN = 2**32 - 1  # of a row with partners that cannot be counted
PARTNER_ONLY = 2**31  # added to the rank that is the only partner of a row


class OpenedFiles(NamedTuple):
    """The files that a call path opened, as numbers that are equal for all ranks."""

    row: int
    files: tuple[int, ...]  # the smallest ones, ascending
    is_full: bool  # whether it opened more


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the rows as the file describes it; `kinds` names the rows that have it."""

    name: str
    unit: str
    kinds: str  # "all", "mpi", "heap", "file", "openmp", "device" or "library"
    offset: int


@dataclass(frozen=True, slots=True)
class Row:
    """The constant part of a row: its parent in the call tree and its name."""

    parent: int
    kind: int
    name: str
    file: str
    line: int


class TableReader:
    """Read one table. Nothing is ever written to it.

    `header` is the state of the header when `read_header` or `new_rows` was called last.

    Raises:
        WireError: the file is not a table, is damaged, or was written by a newer insitu.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < HEADER_BYTES:
                    raise WireError(f"{path}: too short for a table ({size} bytes)")
                self._map = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        except OSError as error:
            raise WireError(f"{path}: {error.strerror}") from error

        self._bytes = memoryview(self._map)
        self.header = self.read_header()
        self._check(size)
        self.columns = _parse_columns(path, self.header.columns, self.header.row_bytes)
        self.rows: list[Row] = []
        self._name_bytes_read = 0

    def _check(self, size: int) -> None:
        head = self.header
        if head.magic != MAGIC:
            raise WireError(f"{self.path}: not a table of insitu")
        if head.version != VERSION:
            raise WireError(
                f"{self.path}: table version {head.version}, this insitu reads {VERSION}; "
                "ingest it with the insitu that wrote it"
            )

        ends = (
            head.rows_at + head.row_bytes * head.row_capacity,
            head.threads_at + head.thread_bytes * head.thread_capacity,
            head.names_at + head.names_used,
            head.meta_at + head.meta_used,
            head.phases_at + head.phase_bytes * head.phases_used,
        )
        is_sound = (
            max(ends) <= size
            and head.row_bytes % 8 == 0
            and 64 <= head.row_bytes <= 4096
            and head.rows_at % 8 == 0
            and 1 <= head.rows_used <= head.row_capacity
            and head.threads_used <= head.thread_capacity
            and head.thread_bytes >= THREAD_HEAD.size + FRAME.size * head.frame_capacity
            and head.frame_bytes == FRAME.size
            and (not head.phases_used or head.phase_bytes >= PHASE_HEAD.size)
        )
        if not is_sound:
            raise WireError(f"{self.path}: damaged header")

    def read_header(self) -> Header:
        """Read the header as it is now; `header` keeps it."""
        self.header = Header._make(HEADER.unpack_from(self._bytes, 0))
        return self.header

    def meta(self) -> bytes:
        """Return what the launcher recorded about the run, as JSON."""
        start = self.header.meta_at
        return bytes(self._bytes[start : start + self.header.meta_used])

    def close(self) -> None:
        """Unmap the file."""
        self._bytes.release()
        self._map.close()

    def new_rows(self) -> list[Row]:
        """Read the header and the rows added since the last call; `rows` holds all of them.

        Raises:
            WireError: a row is damaged.
        """
        head = self.read_header()
        fresh = [self._read_row(head, i) for i in range(len(self.rows), head.rows_used)]
        self.rows += fresh
        return fresh

    def _read_row(self, head: Header, index: int) -> Row:
        offset = head.rows_at + index * head.row_bytes
        (parent,) = struct.unpack_from("<I", self._bytes, offset + ROW_PARENT)
        (name_offset,) = struct.unpack_from("<I", self._bytes, offset + ROW_NAME)
        (kind,) = struct.unpack_from("<I", self._bytes, offset + ROW_KIND)
        if parent > max(index - 1, 0) or name_offset + NAME.size > head.names_used:
            raise WireError(f"{self.path}: row {index} is damaged")

        record = head.names_at + name_offset
        line, name_bytes, file_bytes = NAME.unpack_from(self._bytes, record)

        # Each row has its own record. Without this check a damaged table of a few MiB could
        # expand to gigabytes of names.
        self._name_bytes_read += name_bytes + file_bytes
        if self._name_bytes_read > head.names_used:
            raise WireError(f"{self.path}: row {index} shares its name with others")

        name_start = record + NAME.size
        file_start = name_start + name_bytes
        name = bytes(self._bytes[name_start:file_start])
        file = bytes(self._bytes[file_start : file_start + file_bytes])
        return Row(parent, kind, _decode_name(name), _decode_name(file), line)

    def throttled_rows(self) -> list[int]:
        """Return the rows that are no longer recorded because they cost too much."""
        head = self.header
        if not head.throttled:
            return []

        return [row for row in range(len(self.rows)) if self._flags(row) & THROTTLED]

    def rows_on_split_communicators(self) -> list[tuple[int, bool]]:
        """Return the rows of MPI calls on communicators that may have fewer ranks in a larger run.

        These have all ranks of this run. Second: whether all calls of the row are on communicators
        whose ranks share a node.
        """
        rows = []
        for row, description in enumerate(self.rows):
            flags = self._flags(row) if description.kind == MPI else 0
            if flags & (ON_SPLIT | ON_NODE):
                rows.append((row, not flags & (ON_OTHER | ON_SPLIT)))
        return rows

    def _flags(self, row: int) -> int:
        offset = self.header.rows_at + row * self.header.row_bytes + ROW_FLAGS
        flags: int = struct.unpack_from("<I", self._bytes, offset)[0]
        return flags

    def phases(self) -> list[tuple[int, dict[str, int]]]:
        """Return the row and the values of each named phase, in the order of their first marks."""
        head = self.header
        phases = []
        for i in range(min(head.phases_used, len(self.rows))):
            offset = head.phases_at + i * head.phase_bytes
            row, _, *values = PHASE_HEAD.unpack_from(self._bytes, offset)
            if row < len(self.rows):
                phases.append((row, dict(zip(PHASE_VALUES, values, strict=True))))
        return phases

    def opened_files(self) -> list[OpenedFiles]:
        """Return the files that were opened, by row."""
        head = self.read_header()
        sets = []
        used = min(head.opened_used, MAX_OPENED) if head.opened_at else 0  # 0 in older tables
        for i in range(used):
            offset = head.opened_at + i * OPENED.size
            if offset + OPENED.size > len(self._bytes):
                break
            row, count, is_full, *files = OPENED.unpack_from(self._bytes, offset)
            if row < len(self.rows):
                sets.append(OpenedFiles(row, tuple(files[:count]), bool(is_full)))
        return sets

    def hook_share(self) -> float:
        """Return the estimated share of the rank's time spent in its function timer."""
        elapsed = self.header.latest_tick - self.header.start_tick
        return self.header.hook_ticks / elapsed if elapsed > 0 else 0.0

    def iteration_ticks(self) -> list[int]:
        """Return the sampled durations of main-loop iterations, in ticks, in program order."""
        ticks = array("Q", self.header.iteration_ticks)
        numbers = array("I", self.header.iteration_numbers)
        n_sampled = min(self.header.iterations, len(ticks))
        order = sorted(range(n_sampled), key=numbers.__getitem__)
        return [ticks[i] for i in order]

    def collective_events(self) -> list[CollectiveEvent]:
        """Return the collective calls in the table; none while the writer moves them."""
        before = self.read_header()
        used = min(before.collectives_used, MAX_COLLECTIVES)
        events = self._copy(before.collectives_at, used * COLLECTIVE.size)
        after = self.read_header()
        if _is_moved(before.collectives_sequence, after.collectives_sequence):
            return []
        return parse_collectives(events, self._copy_listed(after))

    def message_events(self) -> list[MessageEvent]:
        """Return the messages in the table; none while the writer moves them."""
        before = self.read_header()
        used = min(before.messages_used, MAX_MESSAGES)
        events = self._copy(before.messages_at, used * MESSAGE.size)
        after = self.read_header()
        if _is_moved(before.messages_sequence, after.messages_sequence):
            return []
        return parse_messages(events, self._copy_listed(after))

    def interval_events(self) -> tuple[list[IntervalEvent], int]:
        """Return the intervals in the table, and the ticks from which on all are kept.

        None while the writer moves them.
        """
        before = self.read_header()
        used = min(before.intervals_used, MAX_INTERVALS)
        copied = self._copy(before.intervals_at, used * INTERVAL.size)
        after = self.read_header()
        if _is_moved(before.intervals_sequence, after.intervals_sequence):
            return [], 0

        listed = self._copy_listed(after)
        return parse_intervals(copied, listed), before.intervals_threshold

    def _copy_listed(self, head: Header) -> bytes:
        return self._copy(head.listed_at, 4 * min(head.listed_used, MAX_LISTED))

    def _copy(self, start: int, size: int) -> bytes:
        """Bytes of the file; none of a section that tables of older versions lack."""
        if not start or start + size > len(self._bytes):
            return b""
        return bytes(self._bytes[start : start + size])

    def partners(self) -> "array[int]":
        """Return the number of ranks that each row exchanges with, plus 1; 0 if unknown.

        If there is only one, its rank plus PARTNER_ONLY. Rows that exchange with no rank by their
        nature, such as functions, have 0 as well.
        """
        start, count = self.header.partners_at, len(self.rows)
        if not start or start + 4 * count > len(self._bytes):
            return array("I", bytes(4 * count))  # tables of older versions have none

        # Pages without a count may be holes of the file. On a full file system, access to a hole
        # through the map ends the process with SIGBUS; a read returns zeros.
        try:
            with open(self.path, "rb") as file:
                partners = array("I", os.pread(file.fileno(), 4 * count, start))
        except OSError:  # somebody has removed the file; the map remains
            return array("I", bytes(4 * count))
        for row, value in enumerate(partners):
            if value == PARTNERS_UNKNOWN:
                partners[row] = 0
        return partners

    def tick_s(self) -> float:
        """Return the seconds per tick; 0.0 for a table that is too young to tell."""
        head = self.header
        if not head.is_tsc:
            return 1e-9
        elapsed_ns = head.latest_ns - head.start_ns
        ticks = head.latest_tick - head.start_tick
        return elapsed_ns / ticks * 1e-9 if elapsed_ns >= MIN_BASELINE_NS and ticks > 0 else 0.0

    def totals(self, tick_s: float, *, is_alive: bool = False) -> dict[str, array]:  # type: ignore[type-arg]
        """Return the columns of all known rows, u8 per row, including the time of open frames.

        Only frames that are open both before and after the columns are read are added, so the
        result of a live rank is at most one event old. For a rank that has ended it is exact.

        Args:
            tick_s: seconds per tick, to extend open frames of a live rank until now.
            is_alive: whether the rank still runs.
        """
        head = self.header
        before = self._open_frames(head)

        rows_end = head.rows_at + len(self.rows) * head.row_bytes
        words = self._bytes[head.rows_at : rows_end].cast("Q")
        stride = head.row_bytes // 8
        totals = {}
        for column in self.columns:
            totals[column.name] = array("Q", words[column.offset // 8 :: stride].tobytes())
        words.release()

        after = self._open_frames(head)
        for old, new in zip(before, after, strict=True):
            now = self._end_tick(head, new, tick_s, is_alive=is_alive)
            self._add_open(totals, old, new, now)
        if max(totals["time_exclusive"], default=0) >= NEGATIVE:
            positive = (0 if ticks >= NEGATIVE else ticks for ticks in totals["time_exclusive"])
            totals["time_exclusive"] = array("Q", positive)
        return totals

    def _end_tick(
        self, head: Header, frames: list[tuple[int, ...]], tick_s: float, *, is_alive: bool
    ) -> int:
        latest = head.latest_tick
        if is_alive and tick_s:
            elapsed_s = (time.monotonic_ns() - head.start_ns) * 1e-9
            latest = max(latest, head.start_tick + int(elapsed_s / tick_s))
        return max([latest, *(frame[0] for frame in frames)])

    def _open_frames(self, head: Header) -> list[list[tuple[int, ...]]]:
        """The open frames of each thread, outermost first."""
        stacks = []
        for thread in range(head.threads_used):
            offset = head.threads_at + thread * head.thread_bytes
            depth = min(THREAD_HEAD.unpack_from(self._bytes, offset)[2], head.frame_capacity)
            first = offset + THREAD_HEAD.size
            stacks.append(
                [FRAME.unpack_from(self._bytes, first + d * FRAME.size) for d in range(depth)]
            )
        return stacks

    def is_in_mpi(self) -> bool:
        """Whether a thread is inside an MPI call, or was when the process ended."""
        head = self.read_header()
        starts = (head.threads_at + i * head.thread_bytes for i in range(head.threads_used))
        return any(THREAD_HEAD.unpack_from(self._bytes, start)[3] for start in starts)

    def _add_open(
        self,
        totals: dict[str, array],  # type: ignore[type-arg]
        before: list[tuple[int, ...]],
        after: list[tuple[int, ...]],
        now: int,
    ) -> None:
        """Add the time of the frames that were open before and after the columns were read."""
        n_stable = 0
        for old, new in zip(before, after, strict=False):
            if old[0] != new[0] or old[2] != new[2] or new[2] >= len(self.rows):
                break
            n_stable += 1

        callee_ticks = 0  # the elapsed time of the open callee
        for start, inside, row, flags, _ in reversed(after[:n_stable]):
            elapsed = max(now - start, 0)
            if not flags & FOLDED:
                totals["time"][row] += elapsed
            exclusive = totals["time_exclusive"][row] + elapsed - inside - callee_ticks
            totals["time_exclusive"][row] = exclusive % (2 * NEGATIVE)
            callee_ticks = elapsed


def _is_moved(before: int, after: int) -> bool:
    """Whether events were moved while they were read; the sequence number is odd meanwhile."""
    return before % 2 == 1 or before != after


def _decode_name(name: bytes) -> str:
    """Decode a name for a message; replacing bytes that are not UTF-8 may lengthen it."""
    text = name.decode("utf-8", "replace").encode()
    return text[:MAX_NAME_BYTES].decode("utf-8", "ignore")


def _parse_columns(path: str, text: bytes, row_bytes: int) -> tuple[TableColumn, ...]:
    columns = []
    for description in text.rstrip(b"\0").decode("ascii", "replace").split(";")[:-1]:
        words = description.split(" ")
        if (
            len(words) != 4
            or not words[3].isdigit()
            or int(words[3]) % 8
            or int(words[3]) >= row_bytes
        ):
            raise WireError(f"{path}: damaged column description '{description}'")
        columns.append(TableColumn(words[0], words[1], words[2], int(words[3])))

    if not {"visits", "time", "time_exclusive"} <= {column.name for column in columns}:
        raise WireError(f"{path}: a table without visits and time")
    return tuple(columns)
