"""What is read of a table, from tables whose every byte is known."""

import os
import struct
from array import array

import pytest

from insitu.collectors import table
from insitu.collectors.table import (
    COMPILED,
    FOLDED,
    HEADER_BYTES,
    MAX_OPENED,
    MPI,
    OPENED,
    PARTNERS_UNKNOWN,
    PROGRAM,
    PYTHON,
    THROTTLED,
    OpenedFiles,
    Row,
    TableReader,
)
from insitu.collectors.table_events import (
    COLLECTIVE,
    INTERVAL,
    MESSAGE,
    NEEDS_ALL,
    NEEDS_LISTED,
    CollectiveEvent,
)
from insitu.errors import WireError
from tests.collectors.built_table import FIRST_COLUMN, Thread, build_table

ROWS = [
    Row(0, PROGRAM, "app", "app.c", 0),
    Row(0, PYTHON, "solve", "solver.py", 12),
    Row(1, MPI, "MPI_Send", "", 0),
]


def test_rows_are_read_as_they_were_written(tmp_path):
    reader = build_table(tmp_path, ROWS)

    assert reader.rows == ROWS
    assert reader.new_rows() == []


def test_a_name_that_is_not_utf_8_is_shown_with_replacements(tmp_path):
    reader = build_table(tmp_path, [Row(0, PROGRAM, "app", "", 0)])
    with open(reader.path, "r+b") as file:
        file.seek(reader.header.names_at + table.NAMES_START + table.NAME.size)
        file.write(b"a\xffp")

    (row,) = TableReader(reader.path).new_rows()

    assert row.name == "a\ufffdp"


def opened(row, files, is_full=0):
    return OPENED.pack(row, len(files), is_full, *files, *[0] * (32 - len(files)))


def test_opened_files_are_those_of_their_rows(tmp_path):
    section = opened(1, [5, 9]) + opened(2, list(range(32)), is_full=1) + opened(3, [7])

    reader = build_table(tmp_path, ROWS, sections={"opened_at": section}, opened_used=3)

    assert reader.opened_files() == [
        OpenedFiles(1, (5, 9), False),
        OpenedFiles(2, tuple(range(32)), True),  # and there is no row 3
    ]


def test_opened_files_end_where_the_file_or_the_section_ends(tmp_path):
    section = opened(1, [5]) * (MAX_OPENED + 1)
    full = build_table(tmp_path, ROWS, sections={"opened_at": section}, opened_used=MAX_OPENED + 1)
    exact = build_table(tmp_path, ROWS, sections={"opened_at": opened(1, [5])}, opened_used=1)
    short = build_table(tmp_path, ROWS, sections={"opened_at": section[:-1]}, opened_used=128)
    cut = build_table(tmp_path, ROWS, sections={"opened_at": opened(1, [5])[:-1]}, opened_used=1)
    older = build_table(tmp_path, ROWS, opened_used=1)

    lengths = [len(reader.opened_files()) for reader in (full, exact, short, cut, older)]

    assert lengths == [MAX_OPENED, 1, MAX_OPENED, 0, 0]


def test_partners_are_counts_of_four_bytes_and_unknown_ones_are_zero(tmp_path):
    section = array("I", [0, PARTNERS_UNKNOWN, PARTNERS_UNKNOWN - 1]).tobytes()

    reader = build_table(tmp_path, ROWS, sections={"partners_at": section})

    assert reader.partners() == array("I", [0, 0, PARTNERS_UNKNOWN - 1])


def test_partners_are_unknown_without_their_section_or_file(tmp_path):
    section = array("I", [4, 4, 4]).tobytes()
    older = build_table(tmp_path, ROWS)
    cut = build_table(tmp_path, ROWS, sections={"partners_at": section[:-1]})
    removed = build_table(tmp_path, ROWS, sections={"partners_at": section})
    os.remove(removed.path)

    for reader in (older, cut, removed):
        partners = reader.partners()
        assert (partners.typecode, partners.tolist()) == ("I", [0, 0, 0])


def test_throttled_rows_are_those_with_the_flag(tmp_path):
    values = [{}, {"flags": THROTTLED | FOLDED}, {"flags": FOLDED}]

    reader = build_table(tmp_path, ROWS, values, throttled=1)
    other = build_table(tmp_path, ROWS, values, name="other.table", throttled=0)

    assert reader.throttled_rows() == [1]
    assert other.throttled_rows() == []


def test_phases_have_the_values_of_their_marks(tmp_path):
    numbers = list(range(100, 100 + len(table.PHASE_VALUES)))
    section = table.PHASE_HEAD.pack(2, 0, *numbers) + table.PHASE_HEAD.pack(3, 0, *numbers)

    reader = build_table(
        tmp_path,
        ROWS,
        sections={"phases_at": section},
        phase_bytes=table.PHASE_HEAD.size,
        phases_used=2,
    )

    ((row, values),) = reader.phases()  # and there is no row 3
    assert row == 2
    assert (values["memory_rss"], values["cpu_ns"], values["mpi_time"]) == (100, 108, 109)


def test_iterations_are_in_the_order_of_the_program(tmp_path):
    ticks = array("Q", [30, 10, 20, 77]).tobytes()
    numbers = array("I", [8, 0, 4, 2]).tobytes()

    reader = build_table(
        tmp_path, ROWS, iterations=3, iteration_ticks=ticks, iteration_numbers=numbers
    )
    many = build_table(tmp_path, ROWS, iterations=1000, iteration_ticks=ticks)

    assert reader.iteration_ticks() == [10, 20, 30]
    assert len(many.iteration_ticks()) == 64


@pytest.mark.parametrize(("latest", "share"), [(300, 0.5), (201, 50.0), (200, 0.0)])
def test_the_share_of_the_timer_is_of_the_time_since_the_start(tmp_path, latest, share):
    reader = build_table(tmp_path, ROWS, start_tick=200, latest_tick=latest, hook_ticks=50)

    assert reader.hook_share() == share


@pytest.mark.parametrize(
    ("is_tsc", "elapsed_ns", "ticks", "expected"),
    [
        (0, 0, 0, 1e-9),
        (1, 1_000_000, 2_000_000, 0.5e-9),
        (1, 999_999, 2_000_000, 0.0),  # too young
        (1, 1_000_000, 0, 0.0),
        (1, 4_000_000_000, 1, 4.0),
    ],
)
def test_a_tick_is_what_both_clocks_have_counted(tmp_path, is_tsc, elapsed_ns, ticks, expected):
    reader = build_table(
        tmp_path,
        ROWS,
        is_tsc=is_tsc,
        start_ns=1_000,
        latest_ns=1_000 + elapsed_ns,
        start_tick=500,
        latest_tick=500 + ticks,
    )

    assert reader.tick_s() == pytest.approx(expected, rel=1e-12)


def test_open_calls_count_until_the_latest_tick(tmp_path):
    """The program is open since 100, solve since 150; 20 ticks of solve were in a call before."""
    values = [{"visits": 1}, {"visits": 1}, {"visits": 1, "time": 20, "time_exclusive": 20}]
    frames = [(100, 0, 0, 0), (150, 20, 1, 0)]

    reader = build_table(
        tmp_path, ROWS, values, threads=[Thread(), Thread(frames)], latest_tick=200
    )
    totals = reader.totals(0.0)

    assert totals["visits"].tolist() == [1, 1, 1]
    assert totals["time"].tolist() == [100, 50, 20]
    assert totals["time_exclusive"].tolist() == [50, 30, 20]
    assert sum(totals["time_exclusive"]) == totals["time"][0]


def test_an_open_recursion_adds_no_inclusive_time(tmp_path):
    frames = [(100, 0, 0, 0), (150, 0, 1, 0), (160, 0, 1, FOLDED)]

    totals = build_table(tmp_path, ROWS, threads=[Thread(frames)], latest_tick=200).totals(0.0)

    assert totals["time"].tolist() == [100, 50, 0]
    assert totals["time_exclusive"].tolist() == [50, 50, 0]


def test_open_calls_count_until_now_only_in_a_live_rank(tmp_path, monkeypatch):
    reader = build_table(
        tmp_path,
        ROWS,
        threads=[Thread([(100, 0, 0, 0)])],
        start_tick=100,
        start_ns=5_000_000_000,
        latest_tick=130,
    )
    monkeypatch.setattr(table.time, "monotonic_ns", lambda: 7_000_000_000)

    assert reader.totals(0.5)["time"][0] == 30
    assert reader.totals(0.01, is_alive=True)["time"][0] == 200  # two seconds
    assert reader.totals(0.5, is_alive=True)["time"][0] == 30  # four ticks, which is in the past
    assert reader.totals(0.0, is_alive=True)["time"][0] == 30


def test_an_open_call_of_a_row_that_is_not_read_ends_the_stack(tmp_path):
    frames = [(100, 0, 0, 0), (150, 0, 3, 0), (160, 0, 1, 0)]

    totals = build_table(tmp_path, ROWS, threads=[Thread(frames)], latest_tick=200).totals(0.0)

    assert totals["time"].tolist() == [100, 0, 0]
    assert totals["time_exclusive"].tolist() == [100, 0, 0]


def test_one_thread_inside_mpi_suffices(tmp_path):
    outside, inside = Thread(), Thread(is_in_mpi=True)

    assert not build_table(tmp_path, ROWS, threads=[outside, outside]).is_in_mpi()
    assert build_table(tmp_path, ROWS, threads=[outside, inside]).is_in_mpi()
    assert not build_table(tmp_path, ROWS).is_in_mpi()


def test_events_are_read_up_to_their_number_and_with_their_lists(tmp_path):
    calls = COLLECTIVE.pack(1, 10, 20, 2, NEEDS_ALL, 0, 3)
    calls += COLLECTIVE.pack(2, 30, 40, 2, NEEDS_LISTED - 1, 1, 3)
    calls += COLLECTIVE.pack(3, 50, 60, 2, NEEDS_ALL, 2, 3)
    words = array("I", [77, 2, 0, 2, 88]).tobytes()
    sections = {"collectives_at": calls, "listed_at": words}

    reader = build_table(
        tmp_path, ROWS, sections=sections, collectives_used=2, collectives_sequence=4, listed_used=5
    )

    assert reader.collective_events() == [
        CollectiveEvent(1, 10, 20, 2, NEEDS_ALL, 0, 3),
        CollectiveEvent(2, 30, 40, 2, NEEDS_LISTED, 1, 3, (0, 2)),
    ]


@pytest.mark.parametrize("sequence", [1, 2, 3])
def test_events_that_the_writer_moves_are_not_read(tmp_path, sequence):
    collective = COLLECTIVE.pack(1, 10, 20, 2, NEEDS_ALL, 0, 3)
    sections = {
        "collectives_at": collective,
        "messages_at": bytes(MESSAGE.size),
        "intervals_at": bytes(INTERVAL.size),
    }
    kinds = ("collectives", "messages", "intervals")
    header = {f"{kind}_used": 1 for kind in kinds} | {
        f"{kind}_sequence": sequence for kind in kinds
    }

    reader = build_table(tmp_path, ROWS, sections=sections, intervals_threshold=9, **header)

    n_read = 0 if sequence % 2 else 1
    intervals, threshold = reader.interval_events()
    assert len(reader.collective_events()) == n_read
    assert len(reader.message_events()) == n_read
    assert (len(intervals), threshold) == ((1, 9) if n_read else (0, 0))


def test_events_that_moved_since_are_not_read(tmp_path, monkeypatch):
    """The sequence number is even before and after, but another one."""
    kinds = ("collectives", "messages", "intervals")
    sections = {
        "collectives_at": COLLECTIVE.pack(1, 10, 20, 2, NEEDS_ALL, 0, 3),
        "messages_at": bytes(MESSAGE.size),
        "intervals_at": bytes(INTERVAL.size),
    }
    reader = build_table(tmp_path, ROWS, sections=sections, **{f"{kind}_used": 1 for kind in kinds})
    heads = iter(
        reader.header._replace(**{f"{kind}_sequence": 2 * i for kind in kinds}) for i in range(6)
    )
    monkeypatch.setattr(reader, "read_header", lambda: next(heads))

    assert reader.collective_events() == []
    assert reader.message_events() == []
    assert reader.interval_events() == ([], 0)


def test_sections_that_older_tables_lack_are_empty(tmp_path):
    reader = build_table(
        tmp_path, ROWS, collectives_used=1, messages_used=1, intervals_used=1, meta_used=0
    )

    assert reader.collective_events() == []
    assert reader.message_events() == []
    assert reader.interval_events() == ([], 0)
    assert reader.meta() == b""


def test_the_metadata_are_those_of_the_launcher(tmp_path):
    reader = build_table(tmp_path, ROWS, sections={"meta_at": b'{"n": 4} '}, meta_used=8)

    assert reader.meta() == b'{"n": 4}'


@pytest.mark.parametrize(
    "header",
    [
        {"magic": b"INSITUT2"},
        {"version": table.VERSION + 1},
        {"rows_used": 0},
        {"rows_used": 4},
        {"row_capacity": 10_000},
        {"rows_at": HEADER_BYTES + 4},
        {"row_bytes": FIRST_COLUMN + 25},
        {"threads_used": 2},
        {"thread_capacity": 1000},
        {"frame_capacity": 5},
        {"frame_bytes": table.FRAME.size + 8},
        {"names_used": 100_000},
        {"meta_used": 100_000},
        {"phases_used": 1, "phase_bytes": table.PHASE_HEAD.size - 1},
        {"phases_used": 1000, "phase_bytes": table.PHASE_HEAD.size},
        {"columns": b"visits 1 all 64;time 1 all 72;"},
        {"columns": b"visits 1 all 64;time 1 all 72;time_exclusive 1 all 84;"},
        {"columns": b"visits 1 all 64;time 1 all 72;time_exclusive 1 all 88;"},
        {"columns": b"visits 1 all 64;time 1 all 72;time_exclusive all 80;"},
        {"columns": b"visits 1 all 64;time 1 all 72;time_exclusive 1 all x;"},
    ],
    ids="-".join,
)
def test_a_header_that_cannot_be_is_refused(tmp_path, header):
    with pytest.raises(WireError):
        build_table(tmp_path, ROWS, threads=[Thread()], **header)


def test_the_smallest_and_the_fullest_header_are_read(tmp_path):
    one_row = build_table(tmp_path, ROWS[:1])
    exact = build_table(
        tmp_path,
        ROWS,
        threads=[Thread()],
        sections={"phases_at": table.PHASE_HEAD.pack(1, 0, *[0] * 10)},
        phase_bytes=table.PHASE_HEAD.size,
        phases_used=1,
    )

    assert len(one_row.rows) == 1
    assert [row for row, _ in exact.phases()] == [1]


def test_a_file_of_less_than_a_header_is_too_short(tmp_path):
    path = tmp_path / "rank-000000-1.table"
    path.write_bytes(bytes(HEADER_BYTES - 1))

    with pytest.raises(WireError, match=r"too short for a table \(4095 bytes\)"):
        TableReader(str(path))


@pytest.mark.parametrize(("row", "parent"), [(0, 1), (1, 1), (2, 2)])
def test_a_row_comes_after_its_parent(tmp_path, row, parent):
    rows = list(ROWS)
    rows[row] = Row(parent, COMPILED, "f", "", 0)

    with pytest.raises(WireError, match=f"row {row} is damaged"):
        build_table(tmp_path, rows)


def test_rows_that_share_a_long_name_are_refused(tmp_path):
    reader = build_table(tmp_path, [Row(0, PROGRAM, "a" * 100, "", 0), Row(0, PYTHON, "b", "", 0)])
    head = reader.header
    with open(reader.path, "r+b") as file:
        file.seek(head.rows_at + head.row_bytes + table.ROW_NAME)
        file.write(struct.pack("<I", table.NAMES_START))

    with pytest.raises(WireError, match="row 1 shares its name with others"):
        TableReader(reader.path).new_rows()
