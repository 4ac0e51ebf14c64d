"""Which intervals the agent of a node sends to the aggregator."""

import numpy as np
import pytest

from insitu.collectors import node_intervals
from insitu.collectors.node_intervals import describe_intervals, read_spanning_intervals
from insitu.collectors.ranks import Rank
from insitu.collectors.table import COMPILED, MPI, PROGRAM, Row
from insitu.collectors.table_events import NEEDS_ALL, NEEDS_LISTED, NEEDS_LOWER, IntervalEvent
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.wire.messages import NO_INTERVALS

MAIN, WORK, CALL, LOOSE_CALL = range(4)  # rows
KINDS = (PROGRAM, COMPILED, MPI, MPI)
NODE_ROWS = (0, 10, 20, 30)
SIZE = 4  # ranks of the run, of which two are on this node
TICK_S = 1e-8


class Clock:
    """A clock with nanoseconds ten times as many as ticks."""

    def to_ns(self, tick: int) -> int:
        return 10 * tick


class Table:
    """A table with these intervals."""

    def __init__(self, events, threshold):
        self.header = EMPTY_HEADER
        self.rows = [Row(0, kind, "", "", 0) for kind in KINDS]
        self.events, self.threshold = events, threshold

    def interval_events(self):
        return self.events, self.threshold


def interval(key, *, rank, size=SIZE, row=CALL, needs=NEEDS_ALL, length=100, rows=(WORK,)):
    head = (key, key + 1, 1000, 1000 + length - 10, 1000 + length, row)
    return IntervalEvent(*head, needs, rank, size, rows, (float(length - 10),) * len(rows))


def describe(*ranks, size=SIZE, threshold=0, loose=()):
    """What a node sends with ranks that have kept these intervals."""
    tables = []
    for number, events in enumerate(ranks):
        rank = Rank(Table(events, threshold), number, tick_s=TICK_S)
        rank.node_rows.extend(NODE_ROWS)
        tables.append(rank)
    spanning = read_spanning_intervals(tables, [set(loose)] * len(ranks))
    return describe_intervals(spanning, clock=Clock(), size=size)


def keys(intervals):
    return np.frombuffer(intervals.keys, "<u8").tolist()


def test_intervals_before_calls_across_nodes_are_sent_with_what_the_ranks_did():
    sent = describe([interval(5, rank=2)], [interval(5, rank=3, rows=(WORK, MAIN))], threshold=2000)

    assert keys(sent) == [5, 5]
    assert np.frombuffer(sent.previous_keys, "<u8").tolist() == [6, 6]
    assert np.frombuffer(sent.starts, "<u8").tolist() == [10_000] * 2
    assert np.frombuffer(sent.begins, "<u8").tolist() == [10_900] * 2
    assert np.frombuffer(sent.ends, "<u8").tolist() == [11_000] * 2
    assert np.frombuffer(sent.ranks, "<u4").tolist() == [0, 1]
    assert np.frombuffer(sent.members, "<u4").tolist() == [2, 3]
    assert np.frombuffer(sent.sizes, "<u4").tolist() == [SIZE] * 2
    assert np.frombuffer(sent.rows, "<u4").tolist() == [20] * 2
    assert np.frombuffer(sent.needs, "<i4").tolist() == [NEEDS_ALL] * 2
    assert np.frombuffer(sent.counts, "<u4").tolist() == [1, 2]
    assert np.frombuffer(sent.profile_rows, "<u4").tolist() == [10, 10, 0]
    assert np.frombuffer(sent.profile_seconds, "<f4") == pytest.approx([90 * TICK_S] * 3)
    assert np.frombuffer(sent.mpi_rows, "<u4").tolist() == [20, 30]
    assert (sent.threshold_ns, sent.is_sampled) == (20_000, False)


@pytest.mark.parametrize(
    "others",
    [
        [interval(5, rank=rank, size=2) for rank in range(2)],  # all ranks are here
        [interval(5, rank=0, needs=NEEDS_LOWER), interval(5, rank=1)._replace(needs=NEEDS_LISTED)],
        [interval(5, rank=rank, row=LOOSE_CALL) for rank in range(2)],
        [interval(5, rank=rank, row=99) for rank in range(2)],  # of a damaged table
    ],
)
def test_what_is_not_compared_across_nodes_stays_here(others):
    assert describe([others[0]], [others[1]], loose=[LOOSE_CALL]) == NO_INTERVALS


def test_too_many_intervals_are_thinned_out_alike_on_all_nodes_and_the_long_ones_stay(monkeypatch):
    monkeypatch.setattr(node_intervals, "MAX_INTERVALS_OF_RUN", 100 * SIZE)
    rng = np.random.default_rng(0)
    numbers = [int(key) for key in rng.integers(0, 1 << 64, 2000, dtype=np.uint64)]
    lengths = [100_000 if i % 100 == 0 else 100 for i in range(2000)]
    first, second = (
        [interval(k, rank=rank, length=n) for k, n in zip(numbers, lengths, strict=True)]
        for rank in (0, 2)
    )

    sent, other = describe(first, []), describe([], second)

    assert set(keys(sent)) == set(keys(other))
    assert 50 < len(keys(sent)) <= 200
    assert {k for k, n in zip(numbers, lengths, strict=True) if n > 100} <= set(keys(sent))
    # As many short intervals are kept as the threshold implies.
    short = len(keys(sent)) - 20
    assert short == pytest.approx(1980 * 100 * TICK_S * 1e9 / sent.threshold_ns, rel=0.3)


def test_the_bytes_of_a_node_are_limited(monkeypatch):
    monkeypatch.setattr(node_intervals, "MAX_BYTES_OF_NODE", 4096)
    numbers = range(1 << 56, 1 << 63, 1 << 56)

    sent = describe([interval(key, rank=0, rows=(WORK,) * 14) for key in numbers])

    assert 0 < len(keys(sent)) * node_intervals.BYTES_OF_INTERVAL < 4096


def test_a_run_with_more_ranks_than_intervals_sends_none():
    assert describe([interval(5, rank=0)], size=1 << 22) == NO_INTERVALS
