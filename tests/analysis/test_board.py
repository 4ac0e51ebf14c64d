import json
import math

import numpy as np
import pytest

from insitu.analysis.board import Board, LiveRun, make_board
from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import measured_shares
from insitu.analysis.forecast import LivePath
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, RunKey, RunRecord, RunState
from insitu.errors import WireError
from insitu.modeling.base import Clusters, Model, ModelSet, Quality, Segment, SeriesModel
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.pmnf import Function
from insitu.text import printable
from tests.support.campaigns import HALO, MAIN, REDUCE, SOLVE, heat_run


def series(
    path: CallPath, values: list[float], *, behaviour: str = "all", metric: str = "time_exclusive"
) -> SeriesModel:
    model = Model(
        parameters=("p",),
        segments=(Segment(-math.inf, math.inf, Function(("p",), values[0], ())),),
        quality=Quality(1.5, math.nan),
        modeler="search",
        coordinates=np.array([[2.0], [4.0]]),
        values=np.array(values),
    )
    unit = TIME if metric == "time" else TIME_EXCLUSIVE
    return SeriesModel(SeriesKey(path, metric, behaviour), unit, model)


def test_shares_of_exclusive_time_add_up_to_one():
    models = ModelSet(("p",), (series(MAIN, [1, 1]), series(SOLVE, [9, 3])))

    assert measured_shares(models) == {MAIN: 0.25, SOLVE: 0.75}


def test_a_share_counts_every_rank_of_a_class():
    classes = Clusters(
        HALO, "time_exclusive", RunKey.of({"p": 4}), np.array([0, 1, 1, 0]), ("edge", "inner")
    )
    models = ModelSet(
        ("p",),
        (
            series(MAIN, [1, 4]),
            series(HALO, [1, 1], behaviour="edge"),
            series(HALO, [1, 5], behaviour="inner"),
        ),
        (classes,),
    )

    assert measured_shares(models) == {MAIN: 4 / 16, HALO: 12 / 16}


def test_inclusive_times_are_shares_of_the_whole():
    models = ModelSet(
        ("p",), (series(MAIN, [8, 8], metric="time"), series(SOLVE, [9, 6], metric="time"))
    )

    assert measured_shares(models) == {MAIN: 1.0, SOLVE: 0.75}


def test_an_empty_campaign_has_a_board():
    board = make_board([], ModelSet())

    assert board == Board()


def test_the_most_expensive_call_path_stands_first():
    board = make_board([], ModelSet(("p",), (series(REDUCE, [1, 1]), series(SOLVE, [9, 3]))))

    assert [row.callpath for row in board.series] == [str(SOLVE), str(REDUCE)]
    assert board.series[0].points == (((2.0,), 9.0), ((4.0,), 3.0))


def test_a_live_run_stands_above_those_that_are_kept():
    record, _ = heat_run(4)
    live = LiveRun(
        "x", RunKey.of({"p": 8}), RunState.MEASURING, 6, 1, 8, (LivePath("main", 1, 0.5),)
    )

    board = make_board([record], ModelSet(), [live])

    assert [(run.name, run.state, run.seen, run.ended) for run in board.runs] == [
        ("p=8#0", "measuring", 6, 1),
        ("p=4#0", "sealed", 4, 4),
    ]
    assert [(row.callpath, row.live, row.share) for row in board.series] == [("main", 0.5, 1.0)]


def test_before_there_are_models_call_paths_have_shares_of_the_longest():
    callpaths = (LivePath("main", 1, 0.5), LivePath("main->solve", 1, 0.25))
    live = LiveRun("x", RunKey.of({"p": 8}), RunState.MEASURING, 6, 1, 8, callpaths)

    board = make_board([], ModelSet(), [live])

    assert [row.share for row in board.series] == [1.0, 0.5]


def test_a_run_that_was_sealed_is_not_live_any_more():
    record, _ = heat_run(4)
    live = LiveRun(record.id, record.key, RunState.CLOSING, 4, 4, 4)

    assert len(make_board([record], ModelSet(), [live]).runs) == 1


def test_findings_of_runs_and_models_are_shown_once():
    finding = Finding("classes-differ", "2 at p=4, 3 at p=8", "main")
    partial = RunRecord(
        "z", RunKey.of({"p": 4}), RunState.INCOMPLETE, missing=(1,), findings=(finding,)
    )

    board = make_board([partial], ModelSet(findings=(finding,)))

    assert [finding.code for finding in board.findings] == ["classes-differ", "run-partial"]


def test_a_board_survives_json():
    board = make_board(
        [heat_run(4)[0]],
        ModelSet(("p",), (series(MAIN, [1, math.nan]),), findings=(Finding("a", "b"),)),
        [
            LiveRun(
                "x",
                RunKey.of({"p": 8}),
                RunState.MEASURING,
                6,
                1,
                8,
                (LivePath("main", 1, math.nan),),
            )
        ],
    )

    text = json.dumps(board.to_dict(), allow_nan=False)

    assert Board.from_dict(json.loads(text)) == board


@pytest.mark.parametrize("data", [{}, {"runs": 3}, Board().to_dict() | {"runs": [{"id": "x"}]}])
def test_data_that_are_not_a_board_raise_an_error(data: dict[str, object]):
    with pytest.raises(WireError, match="cannot read the board"):
        Board.from_dict(data)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (60, "main->solve->exchange->MPI_Sendrecv"),
        (30, "…->exchange->MPI_Sendrecv"),
        (27, "…->exchange->MPI_Sendrecv"),
        (24, "…exchange->MPI_Sendrecv"),
        (20, "…->MPI_Sendrecv"),
        (8, "…endrecv"),
    ],
)
def test_a_call_path_is_shortened_at_its_beginning(width: int, text: str):
    assert last_frames(str(HALO), width) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [("größe → [b]x[/b]", "größe → [b]x[/b]"), ("a\x1b[2J\nb\u202e", "a\\x1b[2J\\nb\\u202e")],
)
def test_a_name_cannot_steer_the_terminal(name: str, text: str):
    assert printable(name) == text
