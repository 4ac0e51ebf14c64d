import math

import pytest

from insitu.entities import Finding
from insitu.monitor.board import Board, RunRow, SeriesRow
from insitu.monitor.trend import bar, news, ranks_of, spark


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
def test_points_are_drawn_as_bars(values: list[float], text: str):
    assert spark(values, 10) == text


def test_the_last_points_are_drawn_where_there_are_too_many():
    assert spark([9, 9, 1, 2], 2) == "▁█"


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
def test_ranks_are_told_in_words_and_bars(run: RunRow, text: str, bars: str):
    assert ranks_of(run) == text
    assert bar(run, 4) == bars


def test_only_what_is_new_is_told():
    run = RunRow("a", "p=4#0", "measuring", 4, 4, 0)
    row = SeriesRow("main", "time", "s", "all", 1.0, "1 * p")
    before = Board(runs=(run,), series=(row,), findings=(Finding("a", "known"),))
    after = Board(
        runs=(RunRow("a", "p=4#0", "sealed", 4, 4, 4),),
        series=(row, SeriesRow("main->f", "time", "s", "1/2", 0.5, "3")),
        findings=(Finding("a", "known"), Finding("b", "new\x1b[2J")),
    )

    assert list(news(before, after)) == [
        "run p=4#0: sealed, 4 of 4 ended",
        "model main->f time 1/2: 3",
        "note: new\\x1b[2J",
    ]
    assert list(news(after, after)) == []
    assert len(list(news(None, after))) == 5
