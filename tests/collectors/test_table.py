"""The layout of a table is declared in `table.h`; all that Python knows of it agrees."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.collectors import function_timer_py, table, table_events, table_header
from tests.collectors.measured import measure, paths

COLLECTORS = Path(__file__).resolve().parents[2] / "collectors"
HEADER_FIELDS = {f"cart_{i}": f"cart_coordinates[{i}]" for i in range(4)}
CONSTANTS = {
    "INSITU_VERSION": table.VERSION,
    "INSITU_HEADER_BYTES": table.HEADER_BYTES,
    "INSITU_NAMES_START": table.NAMES_START,
    "INSITU_RUNNING": table.RUNNING,
    "INSITU_ENDED": table.ENDED,
    "INSITU_ABORTED": table.ABORTED,
    "INSITU_MPI_NONE": table.MPI_NONE,
    "INSITU_MPI_INITIALISED": table.MPI_INITIALISED,
    "INSITU_MPI_FINALISED": table.MPI_FINALISED,
    "INSITU_PROGRAM": table.PROGRAM,
    "INSITU_PYTHON": table.PYTHON,
    "INSITU_LIBRARY": table.LIBRARY,
    "INSITU_MPI": table.MPI,
    "INSITU_THREAD": table.THREAD,
    "INSITU_REGION": table.REGION,
    "INSITU_BUILTIN": table.BUILTIN,
    "INSITU_COMPILED": table.COMPILED,
    "INSITU_PHASE": table.PHASE,
    "INSITU_OPENMP": table.OPENMP,
    "INSITU_FOLDED": table.FOLDED,
    "ROW_IS_THROTTLED": table.THROTTLED,
    "ROW_ON_OTHER": table.ON_OTHER,
    "ROW_ON_SPLIT": table.ON_SPLIT,
    "ROW_ON_NODE": table.ON_NODE,
    "INSITU_COLLECTIVES": table_events.MAX_COLLECTIVES,
    "INSITU_MESSAGES": table_events.MAX_MESSAGES,
    "INSITU_MESSAGES_ALWAYS": table_events.MESSAGES_ALWAYS,
    "INSITU_MESSAGES_WINDOW": table_events.MESSAGES_WINDOW,
    "INSITU_RECEIVED": table_events.RECEIVED,
    "INSITU_FIRST": table_events.FIRST,
    "INSITU_PROBED": table_events.PROBED,
    "INSITU_MATCHED": table_events.MATCHED,
    "INSITU_UNCLEAR": table_events.UNCLEAR,
    "INSITU_COLLECTIVE": table_events.COMPLETED_COLLECTIVE,
    "sizeof(struct insitu_message)": table_events.MESSAGE.size,
    "INSITU_NEEDS_ALL": table_events.NEEDS_ALL,
    "INSITU_NEEDS_NOBODY": table_events.NEEDS_NOBODY,
    "INSITU_NEEDS_LOWER": table_events.NEEDS_LOWER,
    "INSITU_NEEDS_LISTED": table_events.NEEDS_LISTED,
    "INSITU_LISTED": table_events.MAX_LISTED,
    "INSITU_META_BYTES": function_timer_py.META_BYTES,
    "offsetof(struct insitu_row, parent)": table.ROW_PARENT,
    "offsetof(struct insitu_row, name)": table.ROW_NAME,
    "offsetof(struct insitu_row, kind)": table.ROW_KIND,
    "offsetof(struct insitu_row, flags)": table.ROW_FLAGS,
    "sizeof(struct insitu_header)": table_header.HEADER.size,
    "sizeof(struct insitu_name)": table.NAME.size,
    "sizeof(struct insitu_frame)": table.FRAME.size,
    "offsetof(struct insitu_thread, frames)": table.THREAD_HEAD.size,
    "sizeof(struct insitu_phase)": table.PHASE_HEAD.size,
    "sizeof(struct insitu_collective)": table_events.COLLECTIVE.size,
    "sizeof(struct insitu_opened)": table.OPENED.size,
    "sizeof(struct insitu_interval)": table.INTERVAL.size,
    "INSITU_INTERVALS": table_events.MAX_INTERVALS,
    "INSITU_INTERVAL_ROWS": table_events.INTERVAL_ROWS,
    "INSITU_OPENED": table.MAX_OPENED,
}
# The fields that Python unpacks of each record, in its order; None for those that it skips.
RECORDS = {
    "insitu_name": (table.NAME, ("line", "name_bytes", "file_bytes")),
    "insitu_frame": (table.FRAME, ("start", "inside", "row", "flags", None)),
    "insitu_thread": (table.THREAD_HEAD, (None, None, "depth", None, None, None)),
    "insitu_phase": (table.PHASE_HEAD, ("row", None, *table.PHASE_VALUES)),
    "insitu_collective": (table_events.COLLECTIVE, table_events.CollectiveEvent._fields[:-1]),
    "insitu_message": (table_events.MESSAGE, table_events.MessageEvent._fields[:-1]),
}
# What the fields of a struct format take, and whether they have a sign.
SIZES = {"I": (4, 0), "i": (4, 1), "Q": (8, 0), "H": (2, 0), "d": (8, 1)}


def evaluate(folder: Path, expressions: list[str]) -> dict[str, int]:
    """The values of integer expressions in C behind `table.h`."""
    prints = "\n".join(f'printf("%lld\\n", (long long)({text}));' for text in expressions)
    source = folder / "layout.c"
    source.write_text(
        f'#include "{COLLECTORS / "native" / "table.h"}"\n#include <stdio.h>\n'
        f"int main(void) {{\n{prints}\nreturn 0;\n}}\n"
    )
    words = ["cc", "-std=gnu11", "-Wl,--unresolved-symbols=ignore-all", str(source)]
    subprocess.run([*words, "-o", str(folder / "layout")], check=True)
    output = subprocess.run([folder / "layout"], check=True, capture_output=True, text=True).stdout
    return dict(zip(expressions, map(int, output.split()), strict=True))


def offset_of(struct: str, field: str) -> str:
    return f"offsetof(struct {struct}, {field})"


def size_of(struct: str, field: str) -> str:
    return f"sizeof(((struct {struct} *)0)->{field})"


def is_signed(struct: str, field: str) -> str:
    return f"(__typeof__(((struct {struct} *)0)->{field}))-1 < 0"


@pytest.mark.native
def test_every_field_of_the_header_is_where_table_h_puts_it(tmp_path):
    expected = {}
    for field, code in zip(table_header.Header._fields, table_header.FORMATS, strict=True):
        name = HEADER_FIELDS.get(field, field)
        expected[offset_of("insitu_header", name)] = table_header.locate_field(field)[0]
        size, sign = SIZES.get(code, (int(code[:-1]) if code.endswith("s") else 0, None))
        expected[size_of("insitu_header", name)] = size
        if sign is not None:
            expected[is_signed("insitu_header", name)] = sign

    # The header has no gaps, so nothing of it is unknown to Python.
    expected["sizeof(struct insitu_header)"] = table_header.HEADER.size

    assert evaluate(tmp_path, list(expected)) == expected


@pytest.mark.native
def test_constants_and_sizes_are_those_of_table_h(tmp_path):
    assert evaluate(tmp_path, list(CONSTANTS)) == CONSTANTS
    text = (COLLECTORS / "native" / "table.h").read_text()
    assert f'#define INSITU_MAGIC "{table.MAGIC.decode()}"' in text


@pytest.mark.native
@pytest.mark.parametrize("name", RECORDS)
def test_records_are_unpacked_as_table_h_declares_them(tmp_path, name):
    record, fields = RECORDS[name]
    codes = re.sub(r"(\d+)(\w)", lambda m: int(m[1]) * m[2], record.format.lstrip("<"))
    expected, offset = {}, 0
    for code, field in zip(codes, fields, strict=True):
        size, sign = SIZES[code]
        if field is not None:
            expected[offset_of(name, field)] = offset
            expected[size_of(name, field)] = size
            expected[is_signed(name, field)] = sign
        offset += size

    assert evaluate(tmp_path, list(expected)) == expected


@pytest.mark.native
def test_the_python_hook_writes_rows_as_table_h_declares_them(tmp_path):
    columns = table._parse_columns("", function_timer_py.COLUMNS, function_timer_py.ROW_BYTES)
    timer = function_timer_py
    words = (timer.VISITS, timer.TIME, timer.TIME_EXCLUSIVE, timer.LIBRARY_CALLS)
    stored_in = {"library_calls": "bytes_sent"}
    head = ("parent", "first_child", "open_frames", "name", "kind")
    expected = {
        offset_of("insitu_row", stored_in.get(column.name, column.name)): column.offset
        for column in columns
    }
    expected |= {
        offset_of("insitu_row", field): table.ROW_PARENT + 4 * i for i, field in enumerate(head)
    }

    assert evaluate(tmp_path, list(expected)) == expected
    assert [c.offset for c in columns] == [8 * i for i in words]
    text = (COLLECTORS / "native" / "table.h").read_text()
    for column in columns:
        assert f'X({column.name}, "{column.unit}", "{column.kinds}"' in text


def test_the_start_of_a_rank_counts_subinterpreters_at_their_field():
    text = (COLLECTORS / "site" / "start_in_rank.py").read_text()
    offset, code = table_header.locate_field("subinterpreters")

    assert f"SUBINTERPRETERS_AT = {offset}\n" in text
    assert code == "<Q"
    assert repr(table.MAGIC).replace("'", '"') in text


def test_a_time_below_zero_of_an_interrupted_function_is_none(tmp_path):
    text = "def work(): return 1\nwork()\nprint('ended')"
    measured = measure(tmp_path, sys.executable, text, "")
    row = paths(measured).index("program.py->work")
    (column,) = [column for column in measured.columns if column.name == "time_exclusive"]
    with open(measured.path, "r+b") as file:
        file.seek(measured.header.rows_at + row * measured.header.row_bytes + column.offset)
        file.write((2**64 - 1000).to_bytes(8, "little"))

    totals = measured.totals(measured.tick_s())

    assert totals["time_exclusive"][row] == 0
    assert totals["time"][row] > 0
