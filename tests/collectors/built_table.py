"""Tables that a test builds from their parts, without a program that writes them."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from insitu.collectors import table
from insitu.collectors.table import Row, TableReader
from insitu.collectors.table_header import EMPTY_HEADER, HEADER

TIMES = ("visits", "time", "time_exclusive")
FIRST_COLUMN = 64  # bytes of a row before its columns
FRAMES = 4  # open calls of a thread for which there is room


class Thread(NamedTuple):
    """A thread: its open frames (start, inside, row, flags) and whether it is inside MPI."""

    frames: Sequence[tuple[int, int, int, int]] = ()
    is_in_mpi: bool = False


def build_table(
    folder: Path,
    rows: Sequence[Row],
    values: Sequence[Mapping[str, int]] = (),
    *,
    kinds: Mapping[str, str] | None = None,
    threads: Sequence[Thread] = (),
    sections: Mapping[str, bytes] | None = None,
    name: str = "rank-000000-1.table",
    **header: Any,
) -> TableReader:
    """Write a table and read its rows.

    Args:
        rows, values: the constant part of each row, and its columns and `flags`.
        kinds: the rows that have a column, by its name; the times of all rows by default.
        sections: bytes behind all else, by the field of the header that says where they are.
        header: other fields.
    """
    kinds = kinds or dict.fromkeys(TIMES, "all")
    offsets = {column: FIRST_COLUMN + 8 * i for i, column in enumerate(kinds)}
    row_bytes = FIRST_COLUMN + 8 * len(kinds)
    names, row_area = bytearray(table.NAMES_START), bytearray()
    for i, row in enumerate(rows):
        record = bytearray(row_bytes)
        own = values[i] if i < len(values) else {}
        for offset, word in (
            (table.ROW_PARENT, row.parent),
            (table.ROW_NAME, len(names)),
            (table.ROW_KIND, row.kind),
            (table.ROW_FLAGS, own.get("flags", 0)),
        ):
            struct.pack_into("<I", record, offset, word)
        for column, offset in offsets.items():
            struct.pack_into("<Q", record, offset, own.get(column, 0))
        row_area += record
        text, file = row.name.encode(), row.file.encode()
        names += table.NAME.pack(row.line, len(text), len(file)) + text + file

    thread_bytes = table.THREAD_HEAD.size + table.FRAME.size * FRAMES
    thread_area = bytearray()
    for thread in threads:
        area = table.THREAD_HEAD.pack(0, 0, len(thread.frames), thread.is_in_mpi, 0, 0)
        area += b"".join(table.FRAME.pack(*frame, 0) for frame in thread.frames)
        thread_area += area.ljust(thread_bytes, b"\0")

    fields: dict[str, Any] = {
        "magic": table.MAGIC,
        "version": table.VERSION,
        "columns": "".join(
            f"{column} 1 {kinds[column]} {offset};" for column, offset in offsets.items()
        ).encode(),
        "rows_used": len(rows),
        "row_capacity": len(rows),
        "row_bytes": row_bytes,
        "threads_used": len(threads),
        "thread_capacity": len(threads),
        "thread_bytes": thread_bytes,
        "frame_bytes": table.FRAME.size,
        "frame_capacity": FRAMES,
        "names_used": len(names),
        "state": table.ENDED,
    }
    content = bytearray(table.HEADER_BYTES)
    areas = {"rows_at": row_area, "threads_at": thread_area, "names_at": names}
    for field, area in (areas | dict(sections or {})).items():
        content += bytes(-len(content) % 8)
        fields[field] = len(content)
        content += area
    HEADER.pack_into(content, 0, *EMPTY_HEADER._replace(**fields | header))

    # A new file, since readers of an earlier one have mapped it.
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    reader = TableReader(str(path))
    reader.new_rows()
    return reader
