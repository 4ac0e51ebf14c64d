import math
from dataclasses import replace

import pytest

from insitu.analysis.board import Board, RunRow, SeriesRow
from insitu.analysis.progress import Agenda
from insitu.entities import Finding
from insitu.views.text import (
    describe_agenda,
    describe_failures,
    describe_ranks,
    describe_run,
    format_duration,
    format_factor,
    list_changes,
    rank_bar,
    sparkline,
)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
        ([8, 4, 2, 1], "█▄▂▁"),
        ([10, 10.5, 9.8], "▄▄▄"),
        ([0, 0], "▄▄"),
        ([1, math.nan, 2], "▁█"),
        ([], ""),
    ],
)
def test_values_are_drawn_as_bars(values: list[float], text: str):
    assert sparkline(values, 10) == text


def test_only_the_last_values_are_drawn_if_there_are_too_many():
    assert sparkline([9, 9, 1, 2], 2) == "▁█"


@pytest.mark.parametrize(
    ("run", "text", "bars"),
    [
        (RunRow("a", "p=4#0", "sealed", 4, 4, 4), "4 of 4 ended", "████"),
        (RunRow("a", "p=4#0", "measuring", 4, 3, 1), "3 of 4 heard, 1 ended", "█▒▒·"),
        (
            RunRow("a", "p=9#0", "partial", 9, 1, 1, missing=tuple(range(1, 9))),
            "1 of 9 ended; missing: 1, 2, 3, 4, 5, 6 …",
            "····",
        ),
    ],
)
def test_ranks_are_described_in_words_and_bars(run: RunRow, text: str, bars: str):
    assert describe_ranks(run) == text
    assert rank_bar(run, 4) == bars


def test_only_changes_are_listed():
    run = RunRow("a", "p=4#0", "measuring", 4, 4, 0)
    row = SeriesRow("main", "time", "s", "all", 1.0, "1 * p")
    before = Board(runs=(run,), series=(row,), findings=(Finding("a", "known"),))
    after = Board(
        runs=(RunRow("a", "p=4#0", "sealed", 4, 4, 4),),
        series=(row, SeriesRow("main->f", "time", "s", "1/2", 0.5, "3")),
        findings=(Finding("a", "known"), Finding("b", "new\x1b[2J")),
    )

    assert list(list_changes(before, after)) == [
        "run p=4#0: complete, 4 of 4 ended",
        "model main->f time 1/2: 3",
        "note: new\\x1b[2J",
    ]
    assert list(list_changes(after, after)) == []
    assert len(list(list_changes(None, after))) == 5


def test_a_deviation_is_listed_once():
    row = SeriesRow("main->f\x1b", "time", "s", "all", 1.0, "1 * p")
    before, after = Board(series=(row,)), Board(series=(replace(row, verdict="slower"),))

    assert list(list_changes(before, after)) == [
        "deviation main->f\\x1b time all: slower than predicted"
    ]
    assert list(list_changes(after, after)) == []


@pytest.mark.parametrize(
    ("part", "began", "text"),
    [
        (0.25, 100.0, "25 % done, 60 s left; 4 of 4 heard, 0 ended"),
        (0.01, 100.0, "1.0 % done, 33 min left; 4 of 4 heard, 0 ended"),
        (1.0, 100.0, "100 % done; 4 of 4 heard, 0 ended"),
        (None, 100.0, "4 of 4 heard, 0 ended"),
    ],
)
def test_a_run_is_described_with_its_progress_and_remaining_time(
    part: float | None, began: float, text: str
):
    run = RunRow("a", "p=4#0", "measuring", 4, 4, 0, began, part=part)

    assert describe_run(run, 120.0) == text


def test_an_agenda_is_described_with_its_remaining_time():
    assert describe_agenda(Agenda((), 4, 8, 5400.0, 1.0)) == ["4 of 12 made", "about 1.5 h to go"]
    assert describe_agenda(Agenda((), 4, 8, math.nan, math.nan)) == ["4 of 12 made"]
    assert describe_agenda(None) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.2449, "× 3.24"), (1630.4, "× 1,630"), (1e9, "× >1e5"), (math.inf, "× ∞"), (math.nan, "–")],
)
def test_factors_are_short(value: float, text: str):
    assert format_factor(value) == text


def test_failed_ranks_are_described_with_their_signal_or_exit_code():
    run = RunRow("a", "p=4#0", "partial", 4, 3, 3, failures=((1, -11), (2, 3), (3, -1000)))

    assert describe_failures(run) == (
        "rank 1: signal 11 (SIGSEGV), rank 2: exit code 3, rank 3: killed, no exit code"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.458, "458 ms"),
        (0.949, "949 ms"),
        (0.951, "1 s"),
        (89.4, "89 s"),
        (90, "2 min"),
    ],
)
def test_durations_below_a_second_have_digits(seconds, text):
    assert format_duration(seconds) == text
