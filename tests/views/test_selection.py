import pytest

from insitu.analysis.board import SeriesRow
from insitu.analysis.outlook import Outlook
from insitu.views.terminal.selection import (
    DEVIATION,
    GROWTH,
    NAME,
    TARGET,
    TREE,
    Selection,
    deviation,
    find_branches,
)


def row(callpath: str, share: float, behaviour: str = "all", **more) -> SeriesRow:
    return SeriesRow(callpath, "time", "s", behaviour, share, **more)


ROWS = (
    row("main->solve->dot", 0.5, "corner"),
    row("main->solve->dot", 0.5, "inner"),
    row("main->io", 0.3),
    row("main->solve", 0.15, live=3.0, expected=(1.0, 2.0, 2.5), verdict="slower"),
    row("main", 0.05, live=0.1, expected=(0.3, 0.4, 0.5), verdict="faster"),
)


def names(selection: Selection, ahead: Outlook | None = None) -> list[str]:
    found = selection.apply(ROWS, ahead or Outlook())
    return [f"{row.callpath.split('->')[-1]} {row.behaviour}" for row in found]


def test_without_a_wish_everything_is_shown_by_cost():
    assert names(Selection()) == ["dot corner", "dot inner", "io all", "solve all", "main all"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (Selection(text="solve"), ["dot corner", "dot inner", "solve all"]),
        (Selection(text="main->s*e"), ["solve all"]),
        (Selection(text="[b]"), []),
        (Selection(behaviour="inner"), ["dot inner"]),
        (Selection(metric="visits"), []),
    ],
)
def test_text_pattern_class_and_metric_choose(asked, found):
    assert names(asked) == found


def test_a_tree_has_callers_before_what_they_call_the_dearest_branch_first():
    assert names(Selection(order=TREE)) == [
        "main all",
        "solve all",
        "dot corner",
        "dot inner",
        "io all",
    ]


def test_callers_without_rows_stand_before_the_name_of_what_they_call():
    rows = [*ROWS, row("main->solve->halo->pack->MPI_Isend", 0.1), row("other->f", 0.1)]

    branches = find_branches(rows)

    assert branches["main"] == (0, "main")
    assert branches["main->solve->dot"] == (2, "dot")
    assert branches["main->solve->halo->pack->MPI_Isend"] == (2, "halo->pack->MPI_Isend")
    assert branches["other->f"] == (0, "other->f")


def test_names_are_in_the_order_of_the_alphabet():
    assert names(Selection(order=NAME))[:2] == ["main all", "io all"]


def test_growth_and_share_ahead_come_from_the_models_classes_staying_together():
    ahead = Outlook(
        shares={"main->io": 0.9, "main": 0.05},
        factors={
            ("main->io", "time", "all"): 2.0,
            ("main->solve->dot", "time", "inner"): 8.0,
            ("main->solve->dot", "time", "corner"): 1.0,
        },
    )

    assert names(Selection(order=GROWTH), ahead)[:3] == ["dot corner", "dot inner", "io all"]
    assert names(Selection(order=TARGET), ahead)[:2] == ["io all", "main all"]


def test_the_largest_deviation_stands_first_and_those_without_last():
    assert names(Selection(order=DEVIATION))[:2] == ["main all", "solve all"]
    assert [deviation(row) for row in ROWS[2:]] == [-1.0, 1.5, pytest.approx(4.0)]
