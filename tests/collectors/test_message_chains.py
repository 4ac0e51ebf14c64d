"""The longest chain of messages, from the messages that both ranks have kept."""

from itertools import count

from insitu.collectors.late_messages import RankMessages
from insitu.collectors.message_chains import find_longest_chain
from insitu.collectors.table_events import MESSAGES_ALWAYS, PROBED, RECEIVED, MessageEvent

UP, DOWN = 3, 7  # rows that receive


class Messages:
    """The messages of a run, in the order in which they are exchanged, one at a time."""

    def __init__(self, size):
        self.events = [[] for _ in range(size)]
        self.ticks, self.keys = count(10, 10), count(1)

    def send(self, source):
        at, key = next(self.ticks), next(self.keys)
        self._add(source, key, at, row=1, flags=0)
        return key

    def receive(self, rank, key, row, **others):
        self._add(rank, key, next(self.ticks), row=row, flags=RECEIVED, **others)

    def _add(self, rank, key, at, *, row, flags, number=0):
        event = MessageEvent(key, at, at, at + 1, row, at, number, 8, 1, flags, 32)
        self.events[rank].append(event)

    def lengths(self, **others):
        """The number of receives of each row in the longest chain."""
        ranks = [RankMessages(events, **others) for events in self.events]
        lengths = {}
        for chained in find_longest_chain(ranks):
            lengths[chained.row] = lengths.get(chained.row, 0) + chained.in_chain
        return lengths


def sweeps(size, steps):
    """Messages that pass through all ranks and back, in each step."""
    messages = Messages(size)
    for _ in range(steps):
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank), UP)
        for rank in range(size - 1, 0, -1):
            messages.receive(rank - 1, messages.send(rank), DOWN)
    return messages


def exchanges(size, steps):
    """Messages to both neighbours, all of which are sent before any is received."""
    messages = Messages(size)
    for _ in range(steps):
        upwards = [messages.send(rank) for rank in range(size - 1)]
        downwards = [messages.send(rank) for rank in range(1, size)]
        for rank, key in enumerate(upwards):
            messages.receive(rank + 1, key, UP)
        for rank, key in enumerate(downwards):
            messages.receive(rank, key, DOWN)
    return messages


def test_the_chain_of_a_sweep_there_and_back_grows_with_steps_and_ranks():
    for size in (2, 3, 5, 9):
        assert sweeps(size, steps=4).lengths() == {UP: 4 * (size - 1), DOWN: 4 * (size - 1)}


def test_the_chain_of_an_exchange_with_neighbours_grows_with_the_steps_only():
    for size in (2, 3, 5, 9):
        assert sum(exchanges(size, steps=4).lengths().values()) == 4


def test_one_rank_that_asks_all_others_in_turn_waits_for_two_messages_each():
    messages = Messages(5)
    for rank in range(1, 5):
        messages.receive(rank, messages.send(0), UP)
        messages.receive(0, messages.send(rank), DOWN)

    assert messages.lengths() == {UP: 4, DOWN: 4}


def test_a_chain_with_missing_messages_is_not_known():
    messages = sweeps(4, steps=2)

    assert messages.lengths(refused=1) == {}
    assert messages.lengths(level=1) == {}
    assert messages.lengths(pairs_level=1) == {}


def test_messages_of_the_sample_and_probes_do_not_count():
    messages = Messages(2)
    late = messages.send(0)
    messages.receive(1, late, UP, number=MESSAGES_ALWAYS)
    probed = messages.send(0)
    messages._add(1, probed, 200, row=DOWN, flags=RECEIVED | PROBED)
    messages.receive(1, probed, UP)

    assert messages.lengths() == {UP: 1}
