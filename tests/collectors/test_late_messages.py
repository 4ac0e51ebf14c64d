"""Waiting times for messages, from what both ranks have sampled."""

import random
from itertools import count

import pytest

from insitu.collectors.late_messages import (
    MAX_MISFITS,
    MIN_CALLS,
    REFUSALS,
    MessageSample,
    RankMessages,
    describe_refused,
    sample_messages,
)
from insitu.collectors.table_events import (
    COMPLETED_COLLECTIVE,
    FIRST,
    MATCHED,
    MESSAGES_ALWAYS,
    NEEDS_ALL,
    NEEDS_LISTED,
    NEEDS_LOWER,
    NEEDS_NOBODY,
    PROBED,
    RECEIVED,
    MessageEvent,
)
from insitu.collectors.table_header import EMPTY_HEADER

SENDS, RECEIVES = 3, 7  # rows
NUMBERS = count(1)


def event(key, posted, begin, end, row=RECEIVES, **others):
    values = {"call": next(NUMBERS), "number": 0, "size": 8, "members": 1, "flags": 0, "level": 32}
    return MessageEvent(key, posted, begin, end, row, **values | others)


def send(key, begin, end, **others):
    return event(key, begin, begin, end, row=SENDS, **others)


def receive(key, begin, end, flags=0, posted=None, **others):
    start = begin if posted is None else posted
    return event(key, start, begin, end, flags=RECEIVED | flags, **others)


def waits(*ranks):
    """Late sender and late receiver of each rank and row, in ticks."""
    samples, _ = sample_messages([RankMessages(events) for events in ranks])
    return [
        {row: (sample.late_sender, sample.late_receiver) for row, sample in rows.items()}
        for rows in samples
    ]


def test_a_receive_waits_until_the_message_is_sent():
    assert waits([send(1, 50, 52)], [receive(1, 10, 60)]) == [
        {SENDS: (0, 0)},
        {RECEIVES: (40, 0)},
    ]


def test_a_receive_of_a_message_that_was_sent_before_does_not_wait():
    assert waits([send(1, 5, 6)], [receive(1, 10, 60)])[1] == {RECEIVES: (0, 0)}


def test_a_synchronous_send_waits_until_the_receive_is_posted():
    late = receive(1, 45, 60, posted=30)

    assert waits([send(1, 10, 58)], [late]) == [{SENDS: (0, 20)}, {RECEIVES: (0, 0)}]


def test_a_buffered_send_does_not_wait():
    assert waits([send(1, 10, 11)], [receive(1, 90, 95)])[0] == {SENDS: (0, 0)}


def test_a_send_waits_until_a_message_that_was_probed_is_received():
    probe = receive(1, 5, 30, flags=PROBED)
    matching = receive(1, 5, 30, flags=MATCHED)

    assert waits([send(1, 10, 58)], [probe, receive(1, 40, 60)])[0] == {SENDS: (0, 30)}
    assert waits([send(1, 10, 58)], [matching])[0] == {SENDS: (0, 20)}


@pytest.mark.parametrize(("flags", "expected"), [(0, 40), (FIRST, 20)])
def test_a_call_waits_for_its_last_message_or_its_first(flags, expected):
    both = [receive(key, 10, 60, flags=flags, posted=3, call=1000, members=2) for key in (1, 2)]

    assert waits([send(1, 30, 31)], [send(2, 50, 51)], both)[2] == {RECEIVES: (expected, 0)}


def test_a_call_counts_only_if_all_its_messages_are_known():
    first, second = [receive(key, 10, 60, call=1000, members=2) for key in (1, 2)]

    assert waits([send(1, 30, 31)], [first, second])[1] == {RECEIVES: (0, 0)}
    assert waits([send(1, 30, 31), send(2, 50, 51)], [first])[1] == {}
    assert waits([send(1, 30, 31)], [receive(1, 10, 60, members=0)])[1] == {}


def test_pairs_that_one_rank_has_dropped_are_dropped_in_all():
    kept, dropped = 1, 1 << 63
    events = [receive(kept, 10, 60), receive(dropped, 10, 60)]
    sender = RankMessages([send(kept, 20, 21)], pairs_level=1)

    samples, _ = sample_messages([sender, RankMessages(events)])

    assert samples[1][RECEIVES].calls == 1


def test_messages_that_do_not_fit_are_not_reported():
    sends = [send(1, 70, 71), send(2, 20, 21, size=16)]
    receives = [receive(1, 10, 60), receive(2, 10, 60)]

    sample = sample_messages([RankMessages(sends), RankMessages(receives)])[0][1][RECEIVES]

    assert (sample.calls, sample.misfits) == (0, 2)
    assert sample.waits(2, 100, 1.0, is_complete=True) is None


def started(rank, posted, begin, end, *, needs=NEEDS_ALL, size=3, **others):
    """A collective that a rank of a communicator starts and completes."""
    values = {"flags": COMPLETED_COLLECTIVE, "size": size, "needs": needs, "rank": rank}
    return event(5, posted, begin, end, **values | others)


@pytest.mark.parametrize(
    ("needs", "listed", "expected"),
    [
        ((NEEDS_ALL,) * 3, (), [40, 10, 0]),
        ((NEEDS_LOWER,) * 3, (), [0, 0, 0]),
        ((1, 1, NEEDS_NOBODY), (), [20, 0, 0]),
        ((NEEDS_LISTED, NEEDS_NOBODY, NEEDS_NOBODY), (1, 7), [20, 0, 0]),
    ],
)
def test_a_collective_is_completed_after_the_needed_ranks_have_started_it(needs, listed, expected):
    times = [(5, 10, 60), (30, 40, 61), (50, 55, 62)]
    ranks = [[started(rank, *times[rank], needs=needs[rank], listed=listed)] for rank in range(3)]

    samples, late = sample_messages([RankMessages(events) for events in ranks])

    assert [rows[RECEIVES].collective for rows in samples] == expected
    assert [(call.rank, call.waited) for call in late] == [
        (rank, waited) for rank, waited in enumerate(expected) if waited
    ]
    waits = samples[0][RECEIVES].waits(1, 50, 1.0, is_complete=True)
    assert waits == (None, None, expected[0])


def test_collectives_count_only_where_all_ranks_are_known():
    sides = [started(0, 5, 10, 60), started(1, 30, 40, 61), started(2, 50, 55, 62)]
    first, *others = [RankMessages([side]) for side in sides]
    across = RankMessages([started(0, 5, 10, 60, size=4)])
    unnumbered = RankMessages([started(0, 5, 10, 60, size=0)])
    early = RankMessages([started(0, 5, 10, 49)])

    def outcome(*ranks):
        sample = sample_messages(ranks)[0][0][RECEIVES]
        return sample.calls, sample.misfits

    assert outcome(first, *others) == (1, 0)
    assert outcome(first, others[0], RankMessages([])) == (0, 0)  # not completed there yet
    assert outcome(across, *others) == (0, 1)  # other ranks are on another node
    assert outcome(unnumbered, *others) == (0, 1)
    assert outcome(early, *others) == (0, 1)  # ended before another rank has started


def test_a_call_that_completes_a_message_and_a_collective_waits_for_the_last():
    both = [
        receive(1, 10, 60, call=1000, members=2),
        started(0, 5, 10, 60, call=1000, members=2, size=2),
    ]
    other = [send(1, 30, 31), started(1, 50, 55, 62, size=2)]

    sample = sample_messages([RankMessages(both), RankMessages(other)])[0][0][RECEIVES]

    assert sample.waits(1, 50, 1.0, is_complete=True) == (0, 0, 40)


def test_a_sample_is_complete_if_it_contains_all_messages_and_collectives():
    events = [receive(1, 10, 60), receive(2, 10, 60, flags=PROBED), started(0, 5, 10, 60)]

    assert RankMessages(events, total=1, collectives=1).is_complete
    assert not RankMessages(events, total=2, collectives=1).is_complete
    assert not RankMessages(events, total=1, collectives=2).is_complete


def test_few_sampled_calls_do_not_represent_many():
    few = MessageSample(calls=MIN_CALLS - 1, time=100.0, late_sender=50.0, has_messages=True)

    assert few.waits(1000, 800, 1.0, is_complete=False) is None
    assert few.waits(1000, 800, 1.0, is_complete=True) == (50, 0, 0)
    assert few.waits(MIN_CALLS - 1, 200, 1.0, is_complete=False) == (100, 0, 0)
    few.misfits = int(MAX_MISFITS * MIN_CALLS) + 1
    assert few.waits(MIN_CALLS - 1, 200, 1.0, is_complete=False) is None


def test_samples_of_late_messages_represent_all():
    """Waits grow; the first messages are kept, later ones with the probability 256 / n.

    Seed 4; the standard deviation over other seeds is 4 % of the truth.
    """
    draw = random.Random(4)
    n, truth = 40_000, 0
    sent, received = [], []
    for number in range(0, n, 4):
        is_kept = draw.random() < MESSAGES_ALWAYS / max(number, MESSAGES_ALWAYS)
        for k in range(number, number + 4):
            late = draw.randrange(50) + 50 * k // n
            truth += late
            if is_kept:
                sent.append(send(k, late, late + 1, number=k))
                received.append(receive(k, 0, 120, number=k))

    rows = sample_messages([RankMessages(sent), RankMessages(received)])[0][1]

    estimated = rows[RECEIVES].waits(n, 120 * n, 1.0, is_complete=False)
    assert estimated.late_sender == pytest.approx(truth, rel=0.12)


def test_the_most_frequent_reason_for_unnumbered_messages_is_named():
    head = EMPTY_HEADER._replace(refused_of_threads=30, refused_after_wildcard=20)

    text = describe_refused(head, 100)

    assert "50% of the messages have no number, since several threads" in text
    assert describe_refused(head, 500) == ""
    assert describe_refused(EMPTY_HEADER, 0) == ""


def test_every_counter_of_unnumbered_messages_has_its_reason():
    fields = {name for name in EMPTY_HEADER._fields if name.startswith("refused_")}

    assert fields == REFUSALS.keys()
    for name in fields:
        assert EMPTY_HEADER._replace(**{name: 1}).messages_refused == 1
