"""Partners of call paths: which rows of a table have a number that is right."""

from array import array

from insitu.collectors.partners import partner_gauges
from insitu.collectors.rank_end import find_problems, rank_end
from insitu.collectors.ranks import Rank
from insitu.collectors.table import PARTNER_ONLY
from insitu.collectors.table_header import EMPTY_HEADER


class Table:
    """What `partner_gauges` reads of a table."""

    def __init__(self, partners: list[int]) -> None:
        self._partners = array("I", partners)

    def partners(self) -> "array[int]":
        return self._partners


def test_rows_without_partners_are_absent_and_rows_with_none_are_zero():
    rank = Rank(Table([0, 1, 4]), 5, node_rows=array("I", [0, 7, 8]))

    assert partner_gauges(rank) == [(5, 7, {"partners": 0.0}), (5, 8, {"partners": 3.0})]


def test_a_call_path_of_several_rows_has_no_partners_because_they_may_be_the_same_ranks():
    rank = Rank(Table([0, 3, 3, 4]), 5, node_rows=array("I", [0, 7, 7, 8]))

    assert partner_gauges(rank) == [(5, 8, {"partners": 3.0})]


def test_the_only_partner_is_named():
    rank = Rank(Table([PARTNER_ONLY, PARTNER_ONLY + 70_000]), 5, node_rows=array("I", [7, 8]))

    assert partner_gauges(rank) == [
        (5, 7, {"partners": 1.0, "only_partner": 0.0}),
        (5, 8, {"partners": 1.0, "only_partner": 70_000.0}),
    ]


def test_partners_for_which_there_was_no_room_are_reported():
    head = EMPTY_HEADER._replace(partners_refused=1)

    codes = [code for code, _ in find_problems(head, rank_end(0, head))]

    assert "partners-truncated" in codes
