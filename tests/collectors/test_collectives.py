"""Which collective calls an agent sends to the aggregator."""

import numpy as np

from insitu.collectors.collectives import (
    MAX_EVENTS_OF_RUN,
    MIN_EVENTS_OF_RANK,
    SpanningCalls,
    describe_spanning_calls,
    find_started,
    without_spanning_rows,
)
from insitu.collectors.ranks import Rank
from insitu.collectors.round_trips import MAX_TRIPS, RoundTrips
from insitu.collectors.table import MPI, Row
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    MESSAGES_ALWAYS,
    NEEDS_ALL,
    CollectiveEvent,
    IntervalEvent,
    MessageEvent,
)
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.wire.messages import Ack

TICK_S = 0.5
NAMES = ("main", "solve", "MPI_File_write_all", "MPI_Barrier", "MPI_Allreduce")
LOOSE, LOCAL, SPANNING = 2, 3, 4  # rows


class Table:
    """A table with these events."""

    def __init__(self, events, clocks):
        self.header = EMPTY_HEADER._replace(is_tsc=1, **clocks)
        self.events = events
        self.rows = [Row(0, MPI, name, "", 0) for name in NAMES]

    def totals(self, _):
        return {}

    def collective_events(self):
        return [each for each in self.events if isinstance(each, CollectiveEvent)]

    def message_events(self):
        return [each for each in self.events if isinstance(each, MessageEvent)]

    def interval_events(self):
        return [each for each in self.events if isinstance(each, IntervalEvent)], 0


def rank_of(number, events, **clocks):
    rank = Rank(Table(events, clocks), number, tick_s=TICK_S)
    rank.node_rows.extend([0, 10, 20, 30, 40])
    return rank


def event(key, *, rank, row=SPANNING, size=4, begin=100):
    return CollectiveEvent(key, begin, begin + 7, row, NEEDS_ALL, rank, size)


def test_calls_of_rows_with_ranks_on_other_nodes_are_sent_in_nanoseconds_of_the_node():
    local = [event(9, rank=i, row=LOCAL, size=2) for i in range(2)]
    ranks = [
        rank_of(4, [local[0], event(1, rank=2, begin=100)]),
        rank_of(5, [local[1], event(1, rank=3, begin=104)]),
    ]

    sent = describe_spanning_calls(ranks, size=8, round_trips=RoundTrips()).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == [1, 1]
    assert np.frombuffer(sent.ranks, "<i4").tolist() == [4, 5]
    assert np.frombuffer(sent.members, "<u4").tolist() == [2, 3]
    assert np.frombuffer(sent.rows, "<u4").tolist() == [40, 40]
    assert np.frombuffer(sent.begins, "<u8").tolist() == [0, 4 * 5 * 10**8]
    assert np.frombuffer(sent.ends, "<u8").tolist() == [7 * 5 * 10**8, 11 * 5 * 10**8]
    assert sent.is_steady


def started(key, *, number=0, members=1, row=SPANNING, flags=COMPLETED_COLLECTIVE):
    """A collective of four ranks that was started at tick 80 and completed from tick 100 on."""
    times = {"posted": 80, "begin": 100, "end": 107}
    event = {"row": row, "call": key, "number": number, "size": 4, "members": members}
    return MessageEvent(key, **times, **event, flags=flags, level=0, needs=NEEDS_ALL)


def test_collectives_are_sent_with_the_time_at_which_they_were_started():
    sent = describe_spanning_calls(
        [rank_of(0, [started(1), started(2, number=10 * MESSAGES_ALWAYS)])],
        size=4,
        round_trips=RoundTrips(),
    ).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == [1, 2]
    assert np.frombuffer(sent.arrivals, "<u8").tolist() == [0, 0]
    assert np.frombuffer(sent.begins, "<u8").tolist() == [20 * 5 * 10**8] * 2
    assert np.frombuffer(sent.weights, "<f4").tolist() == [1, 10]


def test_calls_that_complete_something_else_are_not_represented_by_collectives():
    message = started(3, flags=0)
    two = [started(4, members=2, row=LOCAL), started(5, members=2, row=LOCAL)]

    assert find_started([started(1), message, *two]) == []


def test_calls_that_ranks_may_leave_early_bound_no_clocks():
    ranks = [rank_of(0, [event(1, rank=0), event(2, rank=0, row=LOOSE)])]

    sent = describe_spanning_calls(ranks, size=4, round_trips=RoundTrips()).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == [1]


def test_the_node_compares_the_other_rows_itself():
    local, spanning = event(9, rank=0, row=LOCAL, size=1), event(1, rank=0)
    mixed = event(2, rank=0, size=1)  # in a row that has calls across nodes, too

    assert without_spanning_rows([[local, spanning, mixed]], is_whole_run=False) == [[local]]


def test_a_run_on_one_node_sends_nothing():
    """A rank may have dropped events, so that calls look as if they had ranks elsewhere."""
    ranks = [rank_of(i, [event(i, rank=i, size=2)]) for i in range(2)]

    sent = describe_spanning_calls(ranks, size=2, round_trips=RoundTrips())

    assert sent == SpanningCalls()
    assert without_spanning_rows([r.table.events for r in ranks], is_whole_run=True) == [
        rank.table.events for rank in ranks
    ]


def test_all_ranks_of_a_large_run_send_the_calls_with_the_smallest_keys():
    keys = list(range(3 * MIN_EVENTS_OF_RANK))
    ranks = [rank_of(i, [event(key, rank=i) for key in reversed(keys)]) for i in range(2)]

    sent = describe_spanning_calls(
        ranks, size=MAX_EVENTS_OF_RUN, round_trips=RoundTrips()
    ).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == 2 * keys[:MIN_EVENTS_OF_RANK]


def test_rows_with_few_calls_keep_them_all():
    few = [event(key, rank=0, row=LOCAL) for key in range(1000, 1010)]
    many = [event(key, rank=0) for key in range(1000)]

    sent = describe_spanning_calls(
        [rank_of(0, [*many, *few])], size=MAX_EVENTS_OF_RUN, round_trips=RoundTrips()
    ).collectives

    rows = np.frombuffer(sent.rows, "<u4").tolist()
    assert (rows.count(30), rows.count(40)) == (10, MIN_EVENTS_OF_RANK - 10)


def test_rows_of_a_damaged_table_are_left_out():
    ranks = [rank_of(0, [event(1, rank=0, row=99), event(2, rank=0)])]

    sent = describe_spanning_calls(ranks, size=4, round_trips=RoundTrips()).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == [2]


def test_trips_have_the_clock_of_the_events():
    """The unslewed clock showed 70 ns at tick 90, and ticks take 3 ns."""
    clocks = {"first_tick": 90, "first_unslewed_ns": 70, "last_tick": 110, "last_unslewed_ns": 130}
    ranks = [rank_of(0, [event(1, rank=0, begin=100)], **clocks)]
    trips = RoundTrips("listener", [(100, 5, 6, 130)])

    sent = describe_spanning_calls(ranks, size=4, round_trips=trips).collectives

    assert sent.listener == "listener"
    assert np.frombuffer(sent.trips, "<i8").tolist() == [0, 5, 6, 30]  # tick 100 is at 100 ns
    assert np.frombuffer(sent.ends, "<u8").tolist() == [21]


def test_without_the_clocks_of_a_killed_rank_there_are_no_trips():
    trips = RoundTrips("listener", [(100, 5, 6, 130)])

    sent = describe_spanning_calls(
        [rank_of(0, [event(1, rank=0)])], size=4, round_trips=trips
    ).collectives

    assert sent.trips == b""
    assert np.frombuffer(sent.ends, "<u8").tolist() == [7 * 5 * 10**8]


def answer(seq, *, instance="a", arrived_ns=5):
    return Ack(instance, seq, 0, False, arrived_ns, arrived_ns + 1)


def test_an_answer_ends_the_trip_of_the_totals_that_it_names():
    trips = RoundTrips()
    trips.begin(1, is_tsc=True)
    trips.end(answer(1))
    trips.end(answer(7))  # never sent in this session
    trips.end(answer(1, arrived_ns=0))  # made after the message was handled

    ((sent, arrived, answered, received),) = trips.trips
    assert (arrived, answered) == (5, 6)
    assert sent <= received


def test_totals_that_are_sent_again_keep_their_time():
    trips = RoundTrips()
    trips.begin(1, is_tsc=False)
    trips.end(answer(1))
    trips.begin(1, is_tsc=False)
    trips.end(answer(1))

    (first, second) = trips.trips
    assert first[0] == second[0]


def test_another_listener_has_another_clock():
    trips = RoundTrips()
    for seq, instance in enumerate("ab"):
        trips.begin(seq, is_tsc=True)
        trips.end(answer(seq, instance=instance))

    assert (trips.listener, len(trips.trips)) == ("b", 1)


def test_the_number_of_trips_is_limited():
    trips = RoundTrips()
    for seq in range(5 * MAX_TRIPS):
        trips.begin(seq, is_tsc=True)
        trips.end(answer(seq))

    assert MAX_TRIPS / 2 <= len(trips.trips) <= MAX_TRIPS


def test_every_field_of_an_event_is_sent_up_to_its_largest_value():
    """Tick 100 is the origin; ticks take half a second."""
    key, late = (1 << 64) - 1, 1 << 63
    events = [
        CollectiveEvent(key, 104, 110, SPANNING, needs=-3, rank=3, size=4),
        CollectiveEvent(5, 100, late, SPANNING, needs=2, rank=1, size=(1 << 32) - 1),
    ]

    sent = describe_spanning_calls(
        [rank_of(6, events)], size=8, round_trips=RoundTrips()
    ).collectives

    assert np.frombuffer(sent.keys, "<u8").tolist() == [5, key]
    assert np.frombuffer(sent.ranks, "<i4").tolist() == [6, 6]
    assert np.frombuffer(sent.members, "<u4").tolist() == [1, 3]
    assert np.frombuffer(sent.sizes, "<u4").tolist() == [(1 << 32) - 1, 4]
    assert np.frombuffer(sent.needs, "<i4").tolist() == [2, -3]
    assert np.frombuffer(sent.begins, "<u8").tolist() == [0, 2 * 10**9]
    assert np.frombuffer(sent.arrivals, "<u8").tolist() == [0, 2 * 10**9]
    assert np.frombuffer(sent.ends, "<u8").tolist() == [(1 << 63) - 1, 5 * 10**9]
    assert np.frombuffer(sent.weights, "<f4").tolist() == [1.0, 1.0]
