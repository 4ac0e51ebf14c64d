"""Which messages the agent of a node sends to the aggregator."""

import numpy as np
import pytest

from insitu.collectors import node_messages
from insitu.collectors.late_messages import RankMessages
from insitu.collectors.node_messages import (
    count_messages,
    describe_messages,
    describe_unnumbered,
    find_message_rows,
    read_messages,
)
from insitu.collectors.ranks import Rank
from insitu.collectors.table import MPI, PYTHON, Row
from insitu.collectors.table_events import COMPLETED_COLLECTIVE, PROBED, RECEIVED, MessageEvent
from insitu.wire.messages import MESSAGES_BYTES, WHOLE_SAMPLE, PointToPoint
from tests.collectors.built_table import TIMES, build_table

SEND, WAIT, RECEIVE = 1, 2, 3  # rows
SIZE = 4  # ranks of the run, of which two are on this node


class Clock:
    """A clock with nanoseconds ten times as many as ticks."""

    def to_ns(self, tick: int) -> int:
        return 10 * tick


def event(key, *, row, flags=0, call=1, members=1, level=32, posted=5):
    return MessageEvent(key, posted, 6, 7, row, call, 0, 8, members, flags, level)


def sent(key, **others):
    return event(key, row=SEND, **others)


def received(key, row=RECEIVE, flags=0, **others):
    return event(key, row=row, flags=RECEIVED | flags, **others)


def describe(messages, rows=None):
    """The columns that are sent, by name."""
    ranks = []
    for number in range(len(messages)):
        ranks.append(Rank(None, 4 + number, tick_s=1.0))
        ranks[-1].node_rows.extend([0, 10, 20, 30])
    rows = find_message_rows(messages, is_whole_run=False) if rows is None else rows
    described = describe_messages(ranks, messages, rows, clock=Clock(), size=SIZE)
    return {
        name: np.frombuffer(getattr(described, name), f"<u{width}").tolist()
        for name, width in MESSAGES_BYTES.items()
    }


def test_rows_with_messages_of_other_nodes():
    """Key 1 stays on the node, key 2 comes from another one; key 3 goes there."""
    ranks = [
        RankMessages([sent(1), sent(3)]),
        RankMessages([received(1, row=WAIT), received(2)]),
    ]

    assert find_message_rows(ranks, is_whole_run=False) == [{SEND}, {RECEIVE}]
    assert find_message_rows(ranks, is_whole_run=True) == [set(), set()]


def test_messages_that_a_rank_has_dropped_are_not_on_another_node():
    low, high = 1, 1 << 63
    ranks = [
        RankMessages([], level=5, pairs_level=1),
        RankMessages([received(low, level=4), received(high)]),
    ]

    assert find_message_rows(ranks, is_whole_run=False) == [set(), set()]


def test_what_is_sent_of_a_call_that_completes_messages_of_both_kinds():
    """The other side on this node is sent, too, but not its own waiting."""
    ranks = [
        RankMessages([sent(1, call=3), sent(9)], total=2),
        RankMessages(
            [
                received(1, row=WAIT, call=7, members=2),
                received(2, row=WAIT, call=7, members=2),
                received(9),
            ],
            total=3,
        ),
    ]

    columns = describe(ranks)

    assert columns["keys"] == [1, 1, 2]
    assert columns["ranks"] == [4, 5, 5]
    assert columns["rows"] == [10, 20, 20]
    assert columns["calls"] == [3, 7, 7]
    assert columns["counts"] == [0, 2, 2]
    assert columns["posted"] == [50, 50, 50]
    assert columns["begins"] == [60, 60, 60]
    assert columns["ends"] == [70, 70, 70]
    assert columns["flags"] == [WHOLE_SAMPLE, *[RECEIVED | WHOLE_SAMPLE] * 2]


def test_probes_are_sent_with_the_message_and_collectives_are_not():
    probe = received(2, flags=PROBED)
    collective = event(3, row=WAIT, flags=COMPLETED_COLLECTIVE)

    columns = describe([RankMessages([probe, received(2), collective])])

    assert columns["keys"] == [2, 2]


def test_a_rank_whose_messages_have_no_numbers_does_not_tell_how_long_it_waited():
    columns = describe([RankMessages([received(2)], refused=2, total=10)])

    assert columns["counts"] == [0]


def test_a_sample_that_is_too_large_is_thinned_out_by_levels(monkeypatch):
    monkeypatch.setattr(node_messages, "MAX_MESSAGES_OF_NODE", 10)
    events = [received(1000 + key, level=key % 4, call=key) for key in range(40)]

    columns = describe([RankMessages(events, total=40)])

    assert len(columns["keys"]) == 10
    assert columns["levels"] == [3] * 10
    assert columns["flags"] == [RECEIVED] * 10


def test_messages_that_no_level_makes_fewer_are_not_sent(monkeypatch):
    monkeypatch.setattr(node_messages, "MAX_MESSAGES_OF_NODE", 1)
    messages = [RankMessages([received(1), received(2)])]

    assert describe(messages) == {name: [] for name in MESSAGES_BYTES}


@pytest.mark.parametrize("row", [4, 1 << 20])
def test_rows_of_a_damaged_table_are_left_out(row):
    assert describe([RankMessages([received(1, row=row)])])["keys"] == []


def test_a_run_on_one_node_sends_nothing():
    messages = [RankMessages([sent(1)]), RankMessages([received(1)])]
    ranks = [Rank(None, number, tick_s=1.0) for number in range(2)]

    described = describe_messages(ranks, messages, [set(), set()], clock=Clock(), size=2)

    assert described == PointToPoint()


def rank_with_messages(folder, *, kinds=("messages_sent", "messages_received"), **header):
    """A rank whose MPI calls sent 6 and received 4 messages."""
    rows = [Row(0, PYTHON, "main", "", 0), Row(0, MPI, "MPI_Send", "", 0), Row(0, MPI, "x", "", 0)]
    values = [
        {"messages_sent": 1000, "messages_received": 1000},  # other memory, as it is no call of MPI
        {"messages_sent": 5, "messages_received": 1},
        {"messages_sent": 1, "messages_received": 3},
    ]
    columns = dict.fromkeys(TIMES, "all") | dict.fromkeys(kinds, "mpi")
    return Rank(build_table(folder, rows, values, kinds=columns, **header), 3, tick_s=1.0)


def test_messages_are_counted_in_rows_of_mpi(tmp_path):
    rank = rank_with_messages(tmp_path)
    older = rank_with_messages(tmp_path, kinds=())

    assert count_messages(rank, rank.table.totals(1.0)) == 10
    assert count_messages(older, older.table.totals(1.0)) == 0


def test_why_messages_have_no_number_is_said_where_these_are_more_than_a_tenth(tmp_path):
    few = rank_with_messages(tmp_path, refused_after_cancel=1)
    many = rank_with_messages(tmp_path, refused_after_cancel=2, refused_of_threads=3)

    assert describe_unnumbered(few) == ""
    assert describe_unnumbered(many) == (
        "late senders and receivers are not known: 50% of the messages have no number, since"
        " several threads exchange messages on one communicator"
    )


def test_what_a_rank_has_kept_is_read_from_its_table(tmp_path):
    rank = rank_with_messages(
        tmp_path,
        messages_level=3,
        message_pairs_level=2,
        refused_after_gap=4,
        collectives_started=9,
    )

    kept = read_messages(rank, rank.table.totals(1.0))

    assert (kept.level, kept.pairs_level, kept.refused) == (3, 2, 4)
    assert (kept.total, kept.collectives, kept.events) == (10, 9, [])
    assert read_messages(rank, None).total == 0
