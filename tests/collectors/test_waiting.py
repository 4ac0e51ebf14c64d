"""Waiting times in collective calls, from the events that ranks have sampled."""

import random

import pytest

from insitu.collectors.ranks import Rank
from insitu.collectors.table import MPI, Row
from insitu.collectors.table_events import (
    NEEDS_ALL,
    NEEDS_LISTED,
    NEEDS_LOWER,
    NEEDS_NOBODY,
    RECEIVED,
    CollectiveEvent,
    MessageEvent,
)
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.collectors.waiting import MIN_CALLS, describe_uncompared, find_waits, sample_waiting

ROW = 7


def call(begins, ends, needs, key=1):
    """One call, as each of its ranks keeps it."""
    size = len(begins)
    return [
        CollectiveEvent(key, begins[rank], ends[rank], ROW, needs[rank], rank, size)
        for rank in range(size)
    ]


def waited(ranks):
    return [samples[ROW].waited if ROW in samples else None for samples in sample_waiting(ranks)]


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ([NEEDS_ALL] * 3, [20, 15, 0]),
        ([NEEDS_LOWER] * 3, [0, 0, 0]),
        ([1, NEEDS_NOBODY, 1], [5, 0, 0]),  # rank 1 broadcasts
        ([NEEDS_ALL, NEEDS_NOBODY, NEEDS_NOBODY], [20, 0, 0]),  # rank 0 gathers
    ],
)
def test_a_rank_waits_until_the_ranks_that_it_needs_have_entered(needs, expected):
    ranks = call([10, 15, 30], [40, 41, 42], needs)

    assert waited([[event] for event in ranks]) == expected


def test_a_scan_waits_for_the_ranks_before_only():
    ranks = call([30, 10, 15], [40, 41, 42], [NEEDS_LOWER] * 3)

    assert waited([[event] for event in ranks]) == [0, 20, 15]


def test_a_neighbourhood_waits_for_the_listed_ranks_only():
    events = call([10, 30, 15], [40, 41, 42], [NEEDS_LISTED] * 3)
    listed = [(2,), (0, 2), ()]
    ranks = [event._replace(listed=ranks) for event, ranks in zip(events, listed, strict=True)]

    assert waited([[event] for event in ranks]) == [5, 0, 0]


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (5, ""),  # below 1 % of the time
        (40, "time_waiting is not known of collective calls on intercommunicators: 20 s in the"),
    ],
)
def test_calls_whose_waiting_is_unknown_are_named_where_they_take_time(ticks, text):
    head = EMPTY_HEADER._replace(latest_tick=1000, uncompared_ticks=ticks, uncompared_inter=1)
    table = Table([])
    table.header = head

    described = describe_uncompared([Rank(table, 0, tick_s=0.5)])

    assert described.startswith(text) and bool(described) == bool(text)


def test_a_call_counts_only_if_all_its_ranks_are_on_the_node():
    first, second, third = call([10, 15, 30], [40, 41, 42], [NEEDS_ALL] * 3)

    assert waited([[first], [second]]) == [None, None]
    assert waited([[first], [second], [third]]) == [20, 15, 0]


def test_calls_that_do_not_overlap_are_misfits():
    apart = call([10, 50], [20, 60], [NEEDS_ALL] * 2)

    samples = sample_waiting([[event] for event in apart])

    assert [(rows[ROW].calls, rows[ROW].misfits) for rows in samples] == [(0, 1), (0, 1)]
    assert samples[0][ROW].share(1) is None


def test_few_sampled_calls_do_not_represent_many():
    few = [
        call([10, 20], [30, 30], [NEEDS_ALL] * 2, key=key) for key in range(MIN_CALLS - 1)
    ]  # enough only if there are no other calls

    samples = sample_waiting([[call_events[rank] for call_events in few] for rank in range(2)])

    assert samples[0][ROW].share(1000) is None
    assert samples[0][ROW].share(MIN_CALLS - 1) == 0.5


def test_samples_that_differ_between_ranks_represent_all_calls():
    """Rank 0 samples one call of four, rank 1 one of sixteen, by key. Calls in both samples count.

    Seed 3; the standard deviation of the share over so many calls is 0.011.
    """
    draw = random.Random(3)
    sampled: list[list[CollectiveEvent]] = [[], []]
    waiting = time = 0
    for _ in range(20_000):
        key, late = draw.getrandbits(64), draw.randrange(100)
        pair = call([0, late], [120, 120], [NEEDS_ALL] * 2, key)
        waiting, time = waiting + late, time + 120
        for rank, zeros in ((0, 2), (1, 4)):
            if key >> (64 - zeros) == 0:
                sampled[rank].append(pair[rank])

    share = sample_waiting(sampled)[0][ROW].share(20_000)

    assert share == pytest.approx(waiting / time, abs=0.03)


class Table:
    """The collective events of a table."""

    def __init__(self, events, messages=(), rows=()):
        self.events, self.messages, self.rows = events, messages, rows

    header = EMPTY_HEADER

    def collective_events(self):
        return self.events

    def message_events(self):
        return self.messages


def test_waiting_is_reported_by_rank_and_row_and_invalid_rows_are_skipped():
    odd = CollectiveEvent(2, 10, 20, 99, NEEDS_NOBODY, 0, 1)  # of a damaged table
    first, second = call([10, 30], [40, 40], [NEEDS_ALL] * 2)
    ranks = [Rank(Table([first, odd]), 0, tick_s=0.5), Rank(Table([second]), 1, tick_s=0.5)]
    totals = {"visits": [1] * (ROW + 1), "time": [30] * (ROW + 1)}
    for rank in ranks:
        rank.node_rows.extend(range(ROW + 1))

    gauges, _ = find_waits(ranks, [(rank, totals) for rank in ranks])

    operation = {"collective_time": 5.0, "collective_time_min": 5.0}  # 30 to 40, ticks of 0.5 s
    assert gauges == [
        (0, ROW, {"time_waiting": 10.0} | operation),
        (1, ROW, {"time_waiting": 0.0} | operation),
    ]


def test_the_time_of_an_operation_is_the_first_quartile_over_its_calls():
    """[VAL §3.2]: from the entry of the last rank to the exit of the last; slow calls are noise."""
    durations = [10, 11, 12, 13, 500, 14, 900, 15, 16]
    calls = [
        call([1000 * key, 1000 * key + 30], [1000 * key + 30 + time] * 2, [NEEDS_ALL] * 2, key=key)
        for key, time in enumerate(durations)
    ]
    ranks = []
    for number in range(2):
        rank = Rank(Table([events[number] for events in calls]), number, tick_s=1.0)
        rank.node_rows.extend(range(ROW + 1))
        ranks.append(rank)
    totals = {"visits": [9] * (ROW + 1), "time": [2000] * (ROW + 1)}

    gauges, _ = find_waits(ranks, [(rank, totals) for rank in ranks])

    assert [values["collective_time"] for _, _, values in gauges] == [12.0, 12.0]
    assert [values["collective_time_min"] for _, _, values in gauges] == [10.0, 10.0]


SEND, RECEIVE, OTHER = range(3)  # rows of a table; the last two are one call path of the node
MESSAGE_ROWS = [Row(0, MPI, name, "", 0) for name in ("MPI_Send", "MPI_Recv", "MPI_Recv")]


def message(key, at, row):
    flags = 0 if row == SEND else RECEIVED
    return MessageEvent(key, at, at, at + 1, row, at, 0, 8, 1, flags, 32)


def chains(messages, received, *, node_rows=(3, 5, 5), size=None):
    """The gauge `message_chain` by rank and row of the node; ranks are numbered from 10 on."""
    ranks, totals = [], []
    for number, events in enumerate(messages):
        rank = Rank(Table([], events, MESSAGE_ROWS), 10 + number, tick_s=1.0)
        rank.node_rows.extend(node_rows)
        ranks.append(rank)
        n_sent = sum(event.row == SEND for event in events)
        totals.append(
            {
                "visits": [len(events)] * 3,
                "time": [100] * 3,
                "messages_sent": [n_sent, 0, 0],
                "messages_received": [0, *received[number]],
            }
        )
    due = list(zip(ranks, totals, strict=True))[:size]
    gauges, _ = find_waits(ranks, due)
    return {
        (rank, row): values["message_chain"]
        for rank, row, values in gauges
        if "message_chain" in values
    }


# A message goes from rank to rank, and one from the last to the first: three links.
RING = [
    [message(1, 10, SEND), message(3, 60, OTHER)],
    [message(1, 20, RECEIVE), message(2, 30, SEND)],
    [message(2, 40, RECEIVE), message(3, 50, SEND)],
]


def test_all_ranks_that_receive_have_the_links_of_their_call_path():
    gauges = chains(RING, [(0, 1), (1, 0), (1, 0)])

    assert gauges == {(10, 5): 3.0, (11, 5): 3.0, (12, 5): 3.0}


def test_unknown_messages_lengthen_the_chain_as_the_known_ones_do():
    """Six of nine messages are unknown; all that are known are in the chain."""
    gauges = chains(RING, [(0, 4), (3, 0), (2, 0)])

    assert set(gauges.values()) == {9.0}


def test_call_paths_have_links_of_their_own():
    gauges = chains(RING, [(0, 1), (1, 0), (1, 0)], node_rows=(3, 5, 6))

    assert gauges == {(10, 6): 1.0, (11, 5): 2.0, (12, 5): 2.0}


def test_chains_are_not_known_before_all_ranks_have_ended_or_of_a_damaged_table():
    assert chains(RING, [(0, 1), (1, 0), (1, 0)], size=2) == {}
    assert chains(RING, [(0, 1), (1, 0), (1, 0)], node_rows=(3, 5)) == {}
