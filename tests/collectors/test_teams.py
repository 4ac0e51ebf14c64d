"""Metrics of parallel regions: from the sums of a table to values per call path."""

from array import array

import pytest

from insitu.collectors.ranks import Rank
from insitu.collectors.table import OPENMP, PROGRAM, Row
from insitu.collectors.teams import SUMS, team_gauges

ROWS = [Row(0, PROGRAM, "app", "", 0), *[Row(0, OPENMP, "1000", "app", 0)] * 2]


class Table:
    """What `team_gauges` reads of a table."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows


def gauges(*values: tuple[int, ...], node_rows: tuple[int, ...] = (0, 1, 2)):
    """The metrics of rows with these values of SUMS; a tick is a millisecond."""
    totals = {
        name: array("Q", [0, *column])
        for name, column in zip(SUMS, zip(*values, strict=True), strict=True)
    }
    rank = Rank(Table(ROWS[: len(values) + 1]), 5, node_rows=array("I", node_rows), tick_s=1e-3)
    return team_gauges(rank, totals)


def test_imbalance_is_what_the_mean_lacks_of_the_longest_work():
    # Twice four threads that work 10, 20, 30 and 40 ms.
    ((rank, row, metrics),) = gauges((2, 200, 120, 8, 320, 0))

    assert (rank, row) == (5, 1)
    assert metrics == pytest.approx(
        {"time_busy": 0.2, "time_barrier": 0.12, "team_threads": 4, "imbalance": 0.375}
    )


def test_rows_of_several_threads_that_are_one_call_path_are_added():
    ((_, row, metrics),) = gauges((1, 50, 10, 2, 60, 0), (3, 70, 0, 6, 90, 0), node_rows=(0, 7, 7))

    assert row == 7
    assert metrics["time_busy"] == pytest.approx(0.12)
    assert metrics["team_threads"] == 2
    assert metrics["imbalance"] == pytest.approx(0.2)


def test_regions_whose_threads_are_unknown_or_have_not_ended_are_absent():
    assert gauges((1, 0, 0, 0, 0, 0), (2, 50, 10, 2, 60, 1)) == []
