"""Metrics of GPUs: from a table to values per call path and of the whole rank."""

from array import array

import pytest

from insitu.collectors.devices import device_gauges
from insitu.collectors.ranks import Rank
from insitu.collectors.table import DEVICE, PROGRAM, Row
from insitu.collectors.table_header import EMPTY_HEADER

ROWS = [Row(0, PROGRAM, "app", "", 0), *[Row(0, DEVICE, "advance", "", 0)] * 2]


class Table:
    """What `device_gauges` reads of a table."""

    def __init__(self, **header: int) -> None:
        self.rows = ROWS
        self.header = EMPTY_HEADER._replace(**header)


def gauges(ns, copied, *, node_rows=(0, 1, 2), **header):
    totals = {"device_ns": array("Q", [0, *ns]), "device_bytes": array("Q", [0, *copied])}
    rank = Rank(Table(**header), 3, node_rows=array("I", node_rows), tick_s=1e-3)
    return device_gauges(rank, totals)


def test_kernels_have_times_and_copies_bytes_too():
    assert gauges((2_000, 500), (0, 4096)) == [
        (3, 1, {"device_time": pytest.approx(2e-6)}),
        (3, 2, {"device_time": pytest.approx(5e-7), "bytes_copied": 4096.0}),
    ]


def test_rows_that_are_one_call_path_are_added():
    assert gauges((2_000, 500), (1, 2), node_rows=(0, 9, 9)) == [
        (3, 9, {"device_time": pytest.approx(2.5e-6), "bytes_copied": 3.0}),
    ]


def test_devices_are_idle_between_the_first_and_the_last_thing_that_they_do():
    *_, whole = gauges(
        (1, 1), (0, 0), device_busy_ns=3_000_000, device_span_ns=4_000_000, device_memory_peak=77
    )

    assert whole == (
        3,
        0,
        {
            "device_busy": pytest.approx(0.003),
            "device_idle": pytest.approx(0.25),
            "device_memory_peak": 77.0,
        },
    )
