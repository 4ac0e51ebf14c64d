"""The longest chain of collective calls that some of the ranks make."""

from itertools import count

import pytest

from insitu.collectors.call_chains import find_call_chain
from insitu.collectors.table_events import NEEDS_ALL, CollectiveEvent

EDGE, ALL = 3, 9  # rows of calls


class Calls:
    """The collective calls of a run, one at a time."""

    def __init__(self, size):
        self.events = [[] for _ in range(size)]
        self.ticks, self.keys = count(10, 10), count(1)

    def call(self, ranks, row, needs=NEEDS_ALL):
        key = next(self.keys)
        begins = {rank: next(self.ticks) for rank in ranks}
        for number, (rank, begin) in enumerate(begins.items()):
            event = CollectiveEvent(key, begin, next(self.ticks), row, needs, number, len(ranks))
            self.events[rank].append(event)

    def length(self):
        return sum(row.in_chain for row in find_call_chain(self.events))


def edges(size, steps, *, order):
    """Each edge between two ranks has a communicator; a call of all ranks ends a step."""
    calls = Calls(size)
    for _ in range(steps):
        for lower in order(size):
            calls.call((lower, lower + 1), EDGE)
        calls.call(range(size), ALL)
    return calls


@pytest.mark.parametrize("size", [3, 5, 9])
def test_calls_of_neighbours_in_the_order_of_ranks_are_a_chain_of_all(size):
    calls = edges(size, 4, order=lambda size: range(size - 1))

    assert calls.length() == 4 * (size - 1)


@pytest.mark.parametrize("size", [3, 5, 9])
def test_calls_of_even_and_of_odd_edges_in_turn_are_a_chain_of_two(size):
    calls = edges(size, 4, order=lambda size: [*range(0, size - 1, 2), *range(1, size - 1, 2)])

    assert calls.length() == 4 * 2


def test_rows_and_columns_are_a_chain_of_two_calls():
    calls = Calls(9)
    for _ in range(5):
        for first in (0, 3, 6):
            calls.call((first, first + 1, first + 2), EDGE)
        for first in (0, 1, 2):
            calls.call((first, first + 3, first + 6), EDGE)

    assert calls.length() == 5 * 2


def test_a_call_that_needs_its_root_only_waits_for_no_other_rank():
    calls = Calls(4)
    for lower in range(2, -1, -1):  # of two ranks, the lower is the root, and has called nothing
        calls.call((lower, lower + 1), EDGE, needs=0)

    assert calls.length() == 1


def test_the_gap_is_from_the_last_call_of_the_rank_that_is_needed():
    calls = Calls(3)
    calls.call((0, 1), EDGE)  # rank 1 leaves at 40
    calls.ticks = count(100, 10)
    calls.call((1, 2), EDGE)

    assert sum(row.gap for row in find_call_chain(calls.events)) == 60


def test_calls_of_all_ranks_alone_are_no_chain():
    calls = Calls(2)
    calls.call((0, 1), EDGE)

    assert find_call_chain(calls.events) == []
    assert find_call_chain([]) == []


def test_more_calls_than_an_agent_has_room_for_have_no_chain(monkeypatch):
    calls = edges(5, 4, order=lambda size: range(size - 1))
    n_calls = sum(map(len, calls.events))

    monkeypatch.setattr("insitu.collectors.call_chains.MOST_CALLS", n_calls)
    assert calls.length() == 16
    monkeypatch.setattr("insitu.collectors.call_chains.MOST_CALLS", n_calls - 1)
    assert calls.length() == 0
