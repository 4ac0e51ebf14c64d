"""Tables of several ranks as messages, and tables that are damaged."""

import json
import os
import socket
import time
from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from insitu.collectors import event_values, leftovers, node, spool, table, table_directory
from insitu.collectors.event_values import EventValues
from insitu.collectors.function_timer_py import PythonTimer
from insitu.collectors.intervals import CallDelays
from insitu.collectors.rank import RankInfo
from insitu.entities import STATUS_UNKNOWN
from insitu.errors import WireError
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Bye, Hello, Paths, Totals
from insitu.wire.split import shorten_json
from tests.support.parameters import examples

CORPUS = Path(__file__).parents[1] / "stress" / "corpus" / "table"
META = json.dumps({"run": "0" * 32, "campaign": "/nowhere", "parameters": {"n": 4}})


class Clock:
    """A clock that advances only when a test sets it."""

    def __init__(self) -> None:
        self.now = time.monotonic_ns()

    def __call__(self) -> int:
        return self.now


def rank_table(folder, number, size, calls, *, is_ended=True, meta=META):
    """The table of a rank that called the named functions, each for a microsecond."""
    clock = Clock()
    path = os.path.join(folder, f"rank-{number:06d}-{number}.table")
    timer = PythonTimer(path, RankInfo(number, size), "app.py", meta, clock)
    for name in calls:
        code = compile("", "app.py", "exec").replace(co_name=name, co_qualname=name)
        frame = type("Frame", (), {"f_code": code, "f_globals": {}, "f_lasti": 0})
        timer.enter(timer.main, frame)
        clock.now += 1000
        timer.leave(timer.main, code)
    if is_ended:
        timer.end(0)
    return timer, path


def by_type(messages):
    return {type(message): message for message in messages}


def test_ranks_with_other_call_paths_share_one_dictionary(tmp_path):
    rank_table(tmp_path, 0, 2, ["a", "b"])
    rank_table(tmp_path, 1, 2, ["b", "c"])

    messages = by_type(leftovers.read_messages(str(tmp_path)))

    assert messages[Paths].names == ("app.py", "a", "b", "c")
    assert (messages[Hello].size, messages[Hello].ranks) == (2, (0, 1))
    rows = [
        array("I", group.rows).tolist() for group in messages[Totals].groups if len(group.rows) > 4
    ]
    assert sorted(rows) == [[0, 1, 2], [0, 2, 3]]
    assert all(end.is_complete and end.status == 0 for end in messages[Bye].ends)


def test_ranks_with_the_same_call_paths_are_sent_as_one_matrix(tmp_path):
    for number in range(3):
        rank_table(tmp_path, number, 3, ["a", "b"])

    totals = by_type(leftovers.read_messages(str(tmp_path)))[Totals]

    (group,) = (group for group in totals.groups if len(group.rows) > 4)
    assert array("i", group.ranks).tolist() == [0, 1, 2]
    visits = array("Q", group.matrices[0]).tolist()
    assert visits == [1, 1, 1] * 3
    times = array("Q", group.matrices[1]).tolist()
    assert times == [2000, 1000, 1000] * 3
    assert array("d", group.tick_s).tolist() == [1e-9] * 3


def test_messages_of_a_node_survive_encoding_and_decoding(tmp_path):
    rank_table(tmp_path, 0, 1, ["a"])

    for message in leftovers.read_messages(str(tmp_path)):
        assert decode(encode(message)) == message


def test_a_rank_that_ended_without_storing_a_status_is_lost(tmp_path):
    timer, _ = rank_table(tmp_path, 0, 1, ["a"], is_ended=False)
    timer._set("pid", 2**22 + 1)

    (end,) = by_type(leftovers.read_messages(str(tmp_path)))[Bye].ends

    assert (end.status, end.is_complete) == (STATUS_UNKNOWN, False)


@pytest.mark.parametrize(
    ("state", "status", "mpi_state", "hook", "is_complete"),
    [
        (table.ENDED, 0, 0, b"twin", True),
        (table.ENDED, 3, 0, b"twin", True),
        (table.ENDED, 0, table.MPI_INITIALISED, b"twin", True),
        (table.ENDED, 3, table.MPI_INITIALISED, b"twin", True),  # mpi4py finalises MPI after that
        (table.ENDED, 3, table.MPI_INITIALISED, b"preload", False),  # the launcher ends the job
        (table.ABORTED, 9, table.MPI_INITIALISED, b"twin", False),
        (table.RUNNING, 0, table.MPI_FINALISED, b"twin", True),  # os._exit after MPI_Finalize
    ],
)
def test_how_a_rank_ended_decides_whether_its_data_are_complete(
    tmp_path, state, status, mpi_state, hook, is_complete
):
    timer, _ = rank_table(tmp_path, 0, 1, ["a"])
    fields = {"state": state, "exit_status": status, "mpi_state": mpi_state, "hook": hook}
    for field, value in fields.items():
        timer._set(field, value)
    timer._set("pid", 2**22 + 1)

    (end,) = by_type(leftovers.read_messages(str(tmp_path)))[Bye].ends

    assert end.is_complete is is_complete


def test_a_damaged_table_is_reported_and_the_others_are_read(tmp_path):
    rank_table(tmp_path, 0, 2, ["a"])
    (tmp_path / "rank-000001-1.table").write_bytes(b"rubbish" * 1000)

    bye = by_type(leftovers.read_messages(str(tmp_path)))[Bye]

    assert [end.rank for end in bye.ends] == [0]
    assert [code for code, _, _ in bye.findings] == ["table-damaged"]


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(WireError, match="nothing to ingest"):
        leftovers.read_messages(str(tmp_path))


def test_a_table_of_another_version_says_what_to_do(tmp_path):
    timer, path = rank_table(tmp_path, 0, 1, ["a"])
    timer._set("version", 9)

    with pytest.raises(WireError, match="version 9"):
        table.TableReader(path)


@examples(300, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bytes_changed_anywhere_in_a_table_never_crash_the_reader(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    _, path = rank_table(folder, 0, 1, ["a", "b"])
    interesting = [*range(300), *range(4096 + (64 << 10), 4096 + (64 << 10) + 192)]
    changes = data.draw(
        st.lists(st.tuples(st.sampled_from(interesting), st.integers(0, 255)), max_size=8)
    )
    with open(path, "r+b") as file:
        for at, byte in changes:
            file.seek(at)
            file.write(bytes([byte]))

    try:
        messages = leftovers.read_messages(str(folder))
    except WireError:
        return
    assert len(messages) == 4


def test_names_that_are_not_unicode_fit_into_a_message(tmp_path):
    rank_table(tmp_path, 0, 1, ["x" * 990 + "\udcff" * 10])

    paths = by_type(leftovers.read_messages(str(tmp_path)))[Paths]

    assert decode(encode(paths)).names[1].startswith("x" * 990)


def test_a_table_whose_rows_share_one_long_name_is_damaged(tmp_path):
    (tmp_path / "rank-000000-1.table").write_bytes((CORPUS / "shared.table").read_bytes())

    with pytest.raises(WireError, match="shares its name"):
        leftovers.read_messages(str(tmp_path))


def test_nodes_with_the_same_host_name_have_different_names(tmp_path):
    names = []
    for name in ("a", "b"):
        directory = tmp_path / name
        directory.mkdir()
        rank_table(directory, 0, 1, ["solve"])
        names.append([node.Node(str(directory)).name for _ in range(2)])

    assert names[0] != names[1]
    assert names[0][0] == names[0][1]
    assert all(name.startswith(f"{socket.gethostname()}-") for name, _ in names)


def test_tables_that_an_agent_copies_during_the_wait_are_found_in_the_spool(tmp_path, monkeypatch):
    campaign, directory = tmp_path / "c.insitu", tmp_path / ("0" * 32)
    directory.mkdir()
    meta = json.dumps({"run": "0" * 32, "campaign": str(campaign), "parameters": {}})
    rank_table(directory, 0, 1, ["solve"], meta=meta)

    def is_ending(path):
        spool.copy_tables(path, str(campaign), {})
        leftovers.remove(path)
        return False

    monkeypatch.setattr(table_directory, "run_directories", lambda: [str(directory)])
    monkeypatch.setattr(leftovers, "_is_ending", is_ending)

    (found,) = leftovers.find_leftovers(str(campaign))

    assert Path(found).parent == campaign / "spool"


def test_tables_that_an_agent_has_begun_to_copy_are_read_where_it_copies_from(
    tmp_path, monkeypatch
):
    campaign, directory = tmp_path / "c.insitu", tmp_path / ("0" * 32)
    directory.mkdir()
    meta = json.dumps({"run": "0" * 32, "campaign": str(campaign), "parameters": {}})
    rank_table(directory, 0, 1, ["solve"], meta=meta)
    spool.make_folder(str(campaign), directory.name, "node")
    other = spool.make_folder(str(campaign), "1" * 32, "node")
    monkeypatch.setattr(table_directory, "run_directories", lambda: [str(directory)])

    assert leftovers.find_leftovers(str(campaign)) == [str(directory), other]


def test_a_folder_of_the_spool_keeps_the_name_of_its_node(tmp_path):
    campaign, directory = tmp_path / "c.insitu", tmp_path / ("0" * 32)
    directory.mkdir()
    rank_table(directory, 0, 1, ["solve"])
    before = node.Node(str(directory)).name

    spool.copy_tables(str(directory), str(campaign), {})

    (folder,) = (campaign / "spool").iterdir()
    assert folder.name == f"{directory.name}-{before}"
    assert node.Node(str(folder)).name == before
    assert spool.host_name(str(folder)) == socket.gethostname()


def test_tables_without_an_agent_come_with_the_facts_of_their_node(tmp_path):
    campaign, directory = tmp_path / "c.insitu", tmp_path / ("0" * 32)
    directory.mkdir()
    rank_table(directory, 0, 1, ["solve"])
    spool.copy_tables(str(directory), str(campaign), {"processors": 4711, "load": 0.5})
    (folder,) = (campaign / "spool").iterdir()

    here, spooled = (
        json.loads(by_type(leftovers.read_messages(str(path)))[Hello].configuration)["node"]
        for path in (directory, folder)
    )

    assert spooled == {"processors": 4711, "load": 0.5}
    assert here["processors"] == os.cpu_count()
    assert "load" not in here  # that of now is not that of the run
    (folder / spool.FACTS_FILE).write_text("[1")
    assert spool.facts_of_node(str(folder)) == {}


def test_causes_of_waiting_of_many_ranks_and_long_call_paths_fit_into_a_message(tmp_path):
    for rank in range(2):
        rank_table(tmp_path, rank, 2, ["a" * 200, "b" * 200])
    here = node.Node(str(tmp_path))
    here.scan()
    here.totals(1, everything=True)
    costs = {(1 + row % 2, rank): 1.0 for row in range(2) for rank in range(96)}
    delays = {row: CallDelays(waited=200.0, costs=dict(costs)) for row in range(3)}
    here.event_values = EventValues(delays=delays)

    bye = here.bye(1, {})
    shortened = json.loads(shorten_json({"delays": json.loads(bye.cost)["delays"]}, 5000))

    assert len(json.loads(bye.cost)["delays"]) == 3
    assert decode(encode(bye)) == bye
    assert 0 < len(shortened["delays"]) < 3


def test_an_error_about_events_costs_neither_the_counts_nor_the_run(tmp_path, monkeypatch):
    def fail(*_args, **_others):
        raise ZeroDivisionError("division by zero")

    rank_table(tmp_path, 0, 1, ["a"])
    monkeypatch.setattr(event_values, "find_waits", fail)

    messages = by_type(leftovers.read_messages(str(tmp_path)))

    assert messages[Totals].groups
    assert all(end.is_complete for end in messages[Bye].ends)
    ((code, text, _),) = messages[Bye].findings
    assert code == "events-unread"
    assert "ZeroDivisionError: division by zero (test_node.py:" in text
