"""The longest chain of messages, from the messages that both ranks have kept."""

from itertools import count

import pytest

from insitu.collectors.late_messages import RankMessages
from insitu.collectors.message_chains import ChainedRow, find_longest_chain
from insitu.collectors.table_events import (
    MESSAGES_ALWAYS,
    MESSAGES_WINDOW,
    NEEDS_ALL,
    PROBED,
    RECEIVED,
    CollectiveEvent,
    MessageEvent,
)

UP, DOWN = 3, 7  # rows that receive


class Messages:
    """The messages of a run, in the order in which they are exchanged, one at a time."""

    def __init__(self, size):
        self.events = [[] for _ in range(size)]
        self.collectives = [[] for _ in range(size)]
        self.ticks, self.keys = count(10, 10), count(1)

    def send(self, source, **others):
        at, key = next(self.ticks), next(self.keys) + (source + 1 << 32)
        self._add(source, key, at, row=1, flags=0, **others)
        return key

    def receive(self, rank, key, row, **others):
        self._add(rank, key, next(self.ticks), row=row, flags=RECEIVED, **others)

    def _add(self, rank, key, at, *, row, flags, number=0):
        event = MessageEvent(key, at, at, at + 1, row, at, number, 8, 1, flags, 32)
        self.events[rank].append(event)

    def synchronise(self, needs=NEEDS_ALL):
        """All ranks enter a collective call, and leave it when the last has entered."""
        size, key = len(self.events), next(self.keys)
        begins = [next(self.ticks) for _ in range(size)]
        for rank, begin in enumerate(begins):
            event = CollectiveEvent(key, begin, next(self.ticks), 9, needs, rank, size)
            self.collectives[rank].append(event)

    def find(self, **others):
        """The rows of the longest chain, those of all ranks together."""
        parts = {}
        ranks = [RankMessages(events, **others) for events in self.events]
        for chained in find_longest_chain(ranks, self.collectives):
            parts.setdefault(chained.row, ChainedRow(0, chained.row)).add(chained)
        return parts

    def lengths(self, **others):
        """The number of receives of each row in the longest chain."""
        return {row: part.in_chain for row, part in self.find(**others).items()}


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


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_messages_in_one_direction_are_no_longer_chain_than_those_of_one_step(size):
    """All ranks send upwind before they receive: none waits for more than the rank before it."""
    messages = Messages(size)
    for step in range(2 * size):
        keys = [messages.send(rank, number=step) for rank in range(size - 1)]
        for rank, key in enumerate(keys):
            messages.receive(rank + 1, key, UP, number=step)

    assert messages.lengths() == {UP: 1}


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_a_pipeline_of_many_blocks_is_a_chain_of_all_ranks(size):
    messages = Messages(size)
    for block in range(2 * size):
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank, number=block), UP, number=block)

    assert messages.lengths() == {UP: size - 1}


def passes(size, steps, after_each):
    """Messages from the first to the last rank, and what all ranks do after each pass."""
    messages = Messages(size)
    for _ in range(steps):
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank), UP)
        after_each(messages)
    return messages


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_passes_may_overlap_unless_a_rank_needs_the_last_one_in_a_collective_call(size):
    def broadcast_from_last(messages):
        messages.synchronise(needs=size - 1)

    def broadcast_from_first(messages):
        messages.synchronise(needs=0)

    links = size - 1
    assert passes(size, 4, Messages.synchronise).lengths() == {UP: 4 * links}
    assert passes(size, 4, broadcast_from_last).lengths() == {UP: 4 * links}
    assert passes(size, 4, broadcast_from_first).lengths() == {UP: links}
    assert passes(size, 4, lambda messages: None).lengths() == {UP: links}


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_a_pass_counts_in_each_step_that_also_sends_many_messages_in_one_direction(size):
    """As a token before each sweep of many blocks: the collective call ends them all."""
    messages, blocks = Messages(size), 20
    for step in range(4):
        number = step * (1 + blocks)
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank, number=number), UP, number=number)
        for block in range(number + 1, number + 1 + blocks):
            keys = [messages.send(rank, number=block) for rank in range(size - 1)]
            for rank, key in enumerate(keys):
                messages.receive(rank + 1, key, DOWN, number=block)
        messages.synchronise()

    assert messages.lengths() == {UP: 4 * (size - 1), DOWN: 0}


@pytest.mark.parametrize("size", [4, 5, 9])
def test_a_token_in_each_step_is_counted_in_whole_steps_where_not_all_messages_are_kept(size):
    """The first messages between two ranks end amid a step, when the token has moved once."""
    messages, blocks, steps = Messages(size + 3), 100, 6
    for step in range(steps):
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank, number=step), UP, number=step)
            if rank == 0:  # meanwhile, others pass blocks on, twice
                for number in filter(kept, range(step * blocks, (step + 1) * blocks)):
                    for other in (size, size + 1):
                        key = messages.send(other, number=number)
                        messages.receive(other + 1, key, DOWN, number=number)
        messages.synchronise()

    links = steps * (size - 1)

    assert chain_of_rows(messages, {UP: links, DOWN: 2 * steps * blocks})[UP] == links


def test_a_message_that_arrives_after_a_collective_call_is_received_in_the_next_step():
    messages = Messages(2)
    for _ in range(3):
        early = messages.send(0)
        messages.synchronise()
        messages.receive(1, early, UP)

    assert messages.lengths() == {UP: 3}


def test_a_collective_call_makes_an_exchange_with_neighbours_no_longer():
    messages = exchanges(5, steps=1)
    messages.synchronise()
    others = exchanges(5, steps=1)

    assert messages.lengths() == others.lengths()


def test_the_gap_is_from_the_last_receive_of_a_rank_to_its_next_send():
    """At ticks 10 to 120: rank 1 is sent two messages, and works on for 20 ticks before its own."""
    messages = Messages(3)
    keys = [messages.send(0), messages.send(0)]
    for key in keys:
        messages.receive(1, key, UP)  # ends at 31, and at 41
    next(messages.ticks)
    messages.receive(2, messages.send(1), DOWN)

    found = messages.find()

    assert {row: (part.in_chain, part.gap) for row, part in found.items()} == {
        UP: (1, 0),
        DOWN: (1, 60 - 41),
    }


def test_work_after_a_collective_call_is_no_gap_of_the_chain():
    found = passes(3, 2, Messages.synchronise).find()

    # In each pass, rank 1 sends 9 ticks after it has received. Rank 0 sends after the call.
    assert found[UP].gap == 2 * 9


def test_a_chain_with_missing_messages_is_not_known():
    messages = sweeps(4, steps=2)

    assert messages.lengths(refused=1) == {}
    assert messages.lengths(level=1) == {}
    assert messages.lengths(pairs_level=1) == {}


def kept(number):
    """Whether a message belongs to the sample: the first ones, and one window of sixteen."""
    return number < MESSAGES_ALWAYS or number // MESSAGES_WINDOW % 16 == 0


def chain_of_rows(messages, received):
    """The lengths of the chain if rows have received as many messages: (n,) by row."""
    return {row: part.extend_to(received[row]) for row, part in messages.find().items()}


@pytest.mark.parametrize("size", [2, 3, 5])
def test_passes_that_overlap_make_no_longer_chain_where_not_all_are_kept(size):
    steps, change = 2000, 700
    messages = Messages(size)
    for step in filter(kept, range(steps)):
        row = UP if step < change else DOWN
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank, number=step), row, number=step)

    links = size - 1
    lengths = chain_of_rows(messages, {UP: change * links, DOWN: (steps - change) * links})

    assert lengths == {UP: links, DOWN: 0}  # each pass may begin before the one before it ends


@pytest.mark.parametrize("size", [2, 3, 5])
def test_passes_there_and_back_add_one_message_for_each_rank_also_where_not_all_are_kept(size):
    steps, messages = 2000, Messages(size)
    for step in filter(kept, range(steps)):
        for rank in range(size - 1):
            messages.receive(rank + 1, messages.send(rank, number=step), UP, number=step)
        for rank in range(size - 1, 0, -1):
            messages.receive(rank - 1, messages.send(rank, number=step), DOWN, number=step)

    received = steps * (size - 1)
    lengths = chain_of_rows(messages, {UP: received, DOWN: received})

    assert lengths == pytest.approx({UP: received, DOWN: received}, rel=1e-9)


def test_what_no_window_shows_since_ranks_exchange_more_in_one_direction_is_not_known():
    messages = Messages(2)
    for step in filter(kept, range(900)):
        messages.receive(1, messages.send(0, number=step), UP, number=step)
        if step >= 600:
            back = messages.send(1, number=step - 600)
            messages.receive(0, back, DOWN, number=step - 600)

    assert chain_of_rows(messages, {UP: 900, DOWN: 300}) == {UP: 1}


def test_probes_do_not_count():
    messages = Messages(2)
    probed = messages.send(0)
    messages._add(1, probed, 200, row=DOWN, flags=RECEIVED | PROBED)
    messages.receive(1, probed, UP)

    assert messages.lengths() == {UP: 1}


def test_receives_of_first_halves_of_windows_alone_add_nothing_known():
    """As in ABySS, whose ranks receive by another call once they have sent all k-mers."""
    messages = Messages(2)
    window = MESSAGES_ALWAYS // MESSAGES_WINDOW * MESSAGES_WINDOW
    for step in range(window + MESSAGES_WINDOW):
        row = DOWN if step == window + 1 else UP
        messages.receive(1, messages.send(0, number=step), row, number=step)
        messages.receive(0, messages.send(1, number=step), UP, number=step)

    lengths = chain_of_rows(messages, received={UP: 10_000, DOWN: 9})

    assert lengths[DOWN] is None
    assert lengths[UP] > 0
