"""A rank's table as Python sees it: reading one while another process writes it."""

import mmap
import os
import struct
import time
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

from insitu.errors import WireError
from insitu.wire.messages import MAX_NAME_BYTES

MAGIC = b"INSITUT1"
VERSION = 1
RUNNING, ENDED, ABORTED = 0, 1, 2
MPI_INITIALISED, MPI_FINALISED = 1, 2
# Kinds of rows. The name of a compiled function is an address in the object that is its file; a
# phase tells of the whole process between two marks.
PROGRAM, PYTHON, LIBRARY, MPI, THREAD, REGION, BUILTIN, COMPILED, PHASE = range(9)
FOLDED, THROTTLED = 1, 16  # flags of rows; a throttled one is not recorded any more
# Offsets of u4 in a row; its columns are described by the file itself.
ROW_PARENT, ROW_NAME, ROW_KIND, ROW_FLAGS = 8, 20, 24, 28
MIN_BASELINE_NS = 1_000_000  # below, two clocks cannot be told apart well enough

_LAYOUT = (
    *(("magic", "8s"), ("version", "I"), ("header_bytes", "I"), ("rows_at", "Q")),
    *(("threads_at", "Q"), ("names_at", "Q"), ("meta_at", "Q"), ("row_bytes", "I")),
    *(("row_capacity", "I"), ("thread_bytes", "I"), ("thread_capacity", "I")),
    *(("frame_bytes", "I"), ("frame_capacity", "I"), ("rows_used", "I"), ("threads_used", "I")),
    *(("names_used", "Q"), ("meta_used", "Q"), ("rank", "i"), ("size", "i"), ("mpi_rank", "i")),
    *(("mpi_size", "i"), ("pid", "Q"), ("pid_started", "Q"), ("created_ns", "Q")),
    *(("start_tick", "Q"), ("start_ns", "Q"), ("latest_tick", "Q"), ("latest_ns", "Q")),
    *(("ended_ns", "Q"), ("state", "I"), ("exit_status", "i"), ("mpi_state", "I")),
    *(("is_tsc", "I"), ("memory_rss", "Q"), ("memory_rss_peak", "Q"), ("rows_refused", "Q")),
    *(("frames_refused", "Q"), ("hook", "24s"), ("columns", "1024s")),
    *(("cart_axes", "i"), ("cart_ranks", "i"), ("cart_0", "i"), ("cart_1", "i"), ("cart_2", "i")),
    ("cart_3", "i"),
    *(("event_ns", "d"), ("budget", "d"), ("hook_ticks", "Q"), ("throttled", "I")),
    *(("loop_row", "I"), ("turns", "Q"), ("turn_ticks", "512s")),
    *(("turn_numbers", "256s"), ("phases", "Q")),
    ("phase", "24s"),
    *(("memory_pss", "Q"), ("memory_private", "Q"), ("memory_shared", "Q"), ("memory_swap", "Q")),
    *(("memory_mpi", "Q"), ("instructions", "Q"), ("cycles", "Q"), ("subinterpreters", "Q")),
    *(("phases_at", "Q"), ("phase_bytes", "I"), ("phases_used", "I"), ("phase_marks", "Q")),
    *(("phase_now", "I"), ("phase_before", "I")),
    *(("meetings_at", "Q"), ("meetings_used", "I"), ("meetings_turn", "I")),
)
HEADER = struct.Struct("<" + "".join(code for _, code in _LAYOUT))
FIELDS = tuple(name for name, _ in _LAYOUT)
NAME = struct.Struct("<IHH")
FRAME = struct.Struct("<QQIIQ")
THREAD_HEAD = struct.Struct("<IIIIQQ")
PHASE_HEAD = struct.Struct("<II8Q")
PHASE_VALUES = (
    *("memory_rss", "memory_rss_peak", "memory_pss", "memory_private", "memory_shared"),
    *("memory_swap", "instructions", "cycles"),
)
MEETING = struct.Struct("<QQQIiII")
MEETINGS = 4096  # that a table has room for


def field_place(field: str) -> tuple[int, str]:
    """Offset and struct format of a field of the header, for a writer in Python."""
    at = FIELDS.index(field)
    before = "<" + "".join(code for _, code in _LAYOUT[:at])
    return struct.calcsize(before), "<" + _LAYOUT[at][1]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows, as the file describes it; `kinds` is "all" or "mpi"."""

    name: str
    unit: str
    kinds: str
    offset: int


class Meeting(NamedTuple):
    """A blocking collective call: whose `key` is the same is the same call in several ranks."""

    key: int
    begin: int  # ticks
    end: int
    row: int
    needs: int  # whose part it takes to go on: a rank, or NEEDS_ALL, NEEDS_NOBODY, NEEDS_LOWER
    rank: int  # of the communicator, which has `size`
    size: int


NEEDS_ALL, NEEDS_NOBODY, NEEDS_LOWER = -1, -2, -3


@dataclass(frozen=True, slots=True)
class Row:
    """What does not change of a row: its place in the call tree and its name."""

    parent: int
    kind: int
    name: str
    file: str
    line: int


class TableReader:
    """Reads one table; never writes.

    Raises:
        WireError: the file is no table, is damaged, or was written by a newer insitu.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 4096:
                    raise WireError(f"{path}: too short for a table ({size} bytes)")
                self._map = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        except OSError as error:
            raise WireError(f"{path}: {error.strerror}") from error
        self._bytes = memoryview(self._map)
        self._check(size)
        head = self.header()
        self.columns = _columns(path, head["columns"], head["row_bytes"])
        self.rows: list[Row] = []
        self._read_bytes = 0  # of names

    def _check(self, size: int) -> None:
        head = self.header()
        if head["magic"] != MAGIC:
            raise WireError(f"{self.path}: not a table of insitu")
        if head["version"] != VERSION:
            raise WireError(
                f"{self.path}: table version {head['version']}, this insitu reads {VERSION}; "
                "ingest it with the insitu that wrote it"
            )
        ends = (
            head["rows_at"] + head["row_bytes"] * head["row_capacity"],
            head["threads_at"] + head["thread_bytes"] * head["thread_capacity"],
            head["names_at"] + head["names_used"],
            head["meta_at"] + head["meta_used"],
            head["phases_at"] + head["phase_bytes"] * head["phases_used"],
        )
        sound = (
            max(ends) <= size
            and head["row_bytes"] % 8 == 0
            and 64 <= head["row_bytes"] <= 4096
            and head["rows_at"] % 8 == 0
            and 1 <= head["rows_used"] <= head["row_capacity"]
            and head["threads_used"] <= head["thread_capacity"]
            and head["thread_bytes"] >= THREAD_HEAD.size + FRAME.size * head["frame_capacity"]
            and head["frame_bytes"] == FRAME.size
            and (not head["phases_used"] or head["phase_bytes"] >= PHASE_HEAD.size)
        )
        if not sound:
            raise WireError(f"{self.path}: damaged header")

    def header(self) -> dict[str, Any]:  # Any: integers and two byte strings
        """The fields of the header as they are now."""
        return dict(zip(FIELDS, HEADER.unpack_from(self._bytes, 0), strict=True))

    def meta(self) -> bytes:
        """What the launcher said about the run, as JSON."""
        head = self.header()
        return bytes(self._bytes[head["meta_at"] : head["meta_at"] + head["meta_used"]])

    def close(self) -> None:
        """Unmap the file."""
        self._bytes.release()
        self._map.close()

    def new_rows(self) -> list[Row]:
        """Rows that appeared since the last call; `self.rows` holds all of them."""
        head = self.header()
        fresh = [self._row(head, i) for i in range(len(self.rows), head["rows_used"])]
        self.rows += fresh
        return fresh

    def _row(self, head: dict[str, Any], index: int) -> Row:
        at = head["rows_at"] + index * head["row_bytes"]
        (parent,) = struct.unpack_from("<I", self._bytes, at + ROW_PARENT)
        (name_at,) = struct.unpack_from("<I", self._bytes, at + ROW_NAME)
        (kind,) = struct.unpack_from("<I", self._bytes, at + ROW_KIND)
        record = head["names_at"] + name_at
        if parent > max(index - 1, 0) or name_at + NAME.size > head["names_used"]:
            raise WireError(f"{self.path}: row {index} is damaged")
        line, name_bytes, file_bytes = NAME.unpack_from(self._bytes, record)
        text = record + NAME.size
        self._read_bytes += name_bytes + file_bytes
        if self._read_bytes > head["names_used"]:  # each row has a record of its own
            raise WireError(f"{self.path}: row {index} shares its name with others")
        name = bytes(self._bytes[text : text + name_bytes])
        file = bytes(self._bytes[text + name_bytes : text + name_bytes + file_bytes])
        return Row(parent, kind, _text(name), _text(file), line)

    def throttled(self) -> list[int]:
        """The rows that are not recorded any more, because that took too long."""
        head = self.header()
        if not head["throttled"]:
            return []
        at = head["rows_at"] + ROW_FLAGS
        flags = [
            struct.unpack_from("<I", self._bytes, at + i * head["row_bytes"])[0]
            for i in range(len(self.rows))
        ]
        return [i for i, value in enumerate(flags) if value & THROTTLED]

    def phases(self) -> list[tuple[int, dict[str, int]]]:
        """The named phases in the order of their first marks: their rows, with what is known."""
        head = self.header()
        found = []
        for i in range(min(head["phases_used"], len(self.rows))):
            at = head["phases_at"] + i * head["phase_bytes"]
            row, _, *values = PHASE_HEAD.unpack_from(self._bytes, at)
            if row < len(self.rows):
                found.append((row, dict(zip(PHASE_VALUES, values, strict=True))))
        return found

    def hook_share(self) -> float:
        """The share of the rank's time that its function timer has taken, estimated."""
        head = self.header()
        elapsed: int = head["latest_tick"] - head["start_tick"]
        return float(head["hook_ticks"] / elapsed) if elapsed > 0 else 0.0

    def turns(self) -> list[int]:
        """A sample of the iterations of the main loop, in ticks, in order."""
        head = self.header()
        ticks, numbers = array("Q", head["turn_ticks"]), array("I", head["turn_numbers"])
        kept = min(head["turns"], len(ticks))
        order = sorted(range(kept), key=numbers.__getitem__)
        return [ticks[i] for i in order]

    def meetings(self) -> list[Meeting]:
        """The collective calls that were kept, none while their writer moves them."""
        head = self.header()
        at, used = head["meetings_at"], min(head["meetings_used"], MEETINGS)
        if not at or at + used * MEETING.size > len(self._bytes):
            return []  # of an insitu that kept none
        found = bytes(self._bytes[at : at + used * MEETING.size])
        if head["meetings_turn"] % 2 or self.header()["meetings_turn"] != head["meetings_turn"]:
            return []
        return list(map(Meeting._make, MEETING.iter_unpack(found)))

    def tick_s(self) -> float:
        """Seconds per tick; 0.0 while the two clocks are not far enough apart to tell."""
        head = self.header()
        if not head["is_tsc"]:
            return 1e-9
        elapsed_ns = head["latest_ns"] - head["start_ns"]
        ticks = head["latest_tick"] - head["start_tick"]
        return elapsed_ns / ticks * 1e-9 if elapsed_ns >= MIN_BASELINE_NS and ticks > 0 else 0.0

    def totals(self, tick_s: float, *, is_alive: bool = False) -> dict[str, array]:  # type: ignore[type-arg]
        """The columns of all known rows, u8 per row, with the running part of open frames added.

        A frame that is open before and after the columns were read is not in them; others are left
        out, so a
        live reading is at most one event old. In a table whose rank has ended this is exact.
        """
        head = self.header()
        before = self._open_frames(head)
        words = self._bytes[
            head["rows_at"] : head["rows_at"] + len(self.rows) * head["row_bytes"]
        ].cast("Q")
        stride = head["row_bytes"] // 8
        totals = {
            c.name: array("Q", words[c.offset // 8 :: stride].tobytes()) for c in self.columns
        }
        words.release()
        after = self._open_frames(head)
        for old, new in zip(before, after, strict=True):
            self._add_open(
                head, totals, old, new, self._end_tick(head, new, tick_s, is_alive=is_alive)
            )
        return totals

    def _end_tick(
        self, head: dict[str, Any], frames: list[tuple[int, ...]], tick_s: float, *, is_alive: bool
    ) -> int:
        latest: int = head["latest_tick"]
        if is_alive and tick_s:
            elapsed_s = (time.monotonic_ns() - head["start_ns"]) * 1e-9
            latest = max(latest, head["start_tick"] + int(elapsed_s / tick_s))
        return max([latest, *(frame[0] for frame in frames)])

    def _open_frames(self, head: dict[str, Any]) -> list[list[tuple[int, ...]]]:
        stacks = []
        for i in range(head["threads_used"]):
            at = head["threads_at"] + i * head["thread_bytes"]
            depth = min(THREAD_HEAD.unpack_from(self._bytes, at)[2], head["frame_capacity"])
            first = at + THREAD_HEAD.size
            stacks.append(
                [FRAME.unpack_from(self._bytes, first + d * FRAME.size) for d in range(depth)]
            )
        return stacks

    def _add_open(
        self,
        head: dict[str, Any],
        totals: dict[str, array],  # type: ignore[type-arg]
        before: list[tuple[int, ...]],
        after: list[tuple[int, ...]],
        now: int,
    ) -> None:
        stable = 0
        for old, new in zip(before, after, strict=False):
            if old[0] != new[0] or old[2] != new[2] or new[2] >= len(self.rows):
                break
            stable += 1
        above = 0  # what the next frame up has run so far
        for start, inside, row, flags, _ in reversed(after[:stable]):
            elapsed = max(now - start, 0)
            if not flags & FOLDED:
                totals["time"][row] += elapsed
            totals["time_exclusive"][row] += max(elapsed - inside - above, 0)
            above = elapsed


def _text(name: bytes) -> str:
    """A name as it may travel: bytes that are no UTF-8 grow when they are replaced."""
    text = name.decode("utf-8", "replace").encode()
    return text[:MAX_NAME_BYTES].decode("utf-8", "ignore")


def _columns(path: str, text: bytes, row_bytes: int) -> tuple[Column, ...]:
    columns = []
    for part in text.rstrip(b"\0").decode("ascii", "replace").split(";")[:-1]:
        words = part.split(" ")
        if (
            len(words) != 4
            or not words[3].isdigit()
            or int(words[3]) % 8
            or int(words[3]) >= row_bytes
        ):
            raise WireError(f"{path}: damaged column description '{part}'")
        columns.append(Column(words[0], words[1], words[2], int(words[3])))
    if not {"visits", "time", "time_exclusive"} <= {column.name for column in columns}:
        raise WireError(f"{path}: a table without visits and time")
    return tuple(columns)
