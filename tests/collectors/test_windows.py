"""The memory of windows, which a table counts as received bytes."""

from array import array
from types import SimpleNamespace

from insitu.collectors.table import MPI
from insitu.collectors.windows import separate_window_bytes, window_gauges


def row(name, kind=MPI):
    return SimpleNamespace(name=name, kind=kind)


ROWS = [row("app", 0), row("MPI_Win_allocate"), row("MPI_Recv"), row("MPI_Win_allocate")]


def test_the_memory_of_windows_is_no_longer_received():
    totals = {"bytes_received": array("Q", [0, 512, 7, 8])}

    separate_window_bytes(totals, ROWS)

    assert totals["bytes_received"].tolist() == [0, 0, 7, 0]
    assert totals["window_bytes"].tolist() == [0, 512, 0, 8]


def test_without_windows_nothing_is_added():
    totals = {"bytes_received": array("Q", [0, 0, 7])}

    separate_window_bytes(totals, [row("app", 0), row("MPI_Bcast"), row("MPI_Recv")])

    assert totals.keys() == {"bytes_received"}


def test_rows_of_one_call_path_are_added_and_rows_without_visits_left_out():
    rank = SimpleNamespace(
        number=3, node_rows=array("I", [0, 5, 6, 5]), table=SimpleNamespace(rows=ROWS)
    )
    totals = {"visits": array("Q", [1, 1, 1, 1]), "window_bytes": array("Q", [0, 512, 0, 8])}

    assert window_gauges(rank, totals) == [(3, 5, {"window_bytes": 520.0})]
    totals["visits"] = array("Q", [1, 0, 1, 0])
    assert window_gauges(rank, totals) == []
