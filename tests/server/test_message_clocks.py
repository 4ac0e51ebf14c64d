"""Times of one node by the clock of another, from messages."""

import numpy as np
import pytest

from insitu.server.message_clocks import MessageClocks
from insitu.server.round_trips import ListenerClocks
from insitu.server.wait_intervals import Events
from insitu.wire.messages import Collectives

NO_CALLS = Events(*(np.zeros(0, dtype=np.intp) for _ in range(6)), *(np.zeros(0) for _ in range(4)))
OFFSET_S = 1234.5  # of the second node's clock
TIMES = np.array([1.0, 5.0, 9.0])


def clocks_of(senders, sent_at, received_at, calls=NO_CALLS):
    """The clocks of two nodes; times are those of the first one."""
    shift = np.where(senders == 1, OFFSET_S, 0.0)
    return MessageClocks(
        senders=senders,
        receivers=1 - senders,
        sent_at=sent_at + shift,
        received_at=received_at + OFFSET_S - shift,
        calls=calls,
        is_steady=np.ones(2, dtype=bool),
        listeners=ListenerClocks([Collectives(), Collectives()]),
    )


def convert(clocks, node):
    """The bounds of `TIMES` of a node by the other one's clock, less what they are there."""
    shown = TIMES + node * OFFSET_S
    nodes = np.full(TIMES.size, node)
    low, high = clocks.convert(shown, nodes, 1 - nodes)
    truth = TIMES + (1 - node) * OFFSET_S
    return low - truth, high - truth


def messages(rng, directions):
    senders = rng.choice(directions, 200)
    sent_at = np.sort(rng.uniform(0, 10, 200))
    return senders, sent_at, sent_at + rng.exponential(1e-5, 200)


@pytest.mark.parametrize("node", [0, 1])
def test_messages_of_both_directions_bound_the_times(node):
    clocks = clocks_of(*messages(np.random.default_rng(1), [0, 1]))

    low, high = convert(clocks, node)

    assert ((low <= 0) & (high >= 0)).all()
    assert (high - low < 1e-5).all()


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("direction", [0, 1])
def test_messages_of_one_direction_bound_the_times_from_one_side(node, direction):
    """The receiver is not earlier than the sender says, but may be later by any time."""
    clocks = clocks_of(*messages(np.random.default_rng(1), [direction]))

    low, high = convert(clocks, node)

    assert ((low <= 0) & (high >= 0)).all()
    bounded, open_side = (high, low) if node == direction else (low, high)
    assert (np.abs(bounded) < 1e-5).all()
    assert np.isinf(open_side).all()


def test_collective_calls_bound_the_other_side():
    """Rank 1 enters a call after rank 0 and leaves it at once, and so does rank 0."""
    senders, sent_at, received_at = messages(np.random.default_rng(1), [0])
    at = np.repeat(np.linspace(0, 10, 20), 2)
    node = np.tile([0, 1], 20)
    entered = at + node * (1e-3 + OFFSET_S)
    left = at + 1e-3 + 2e-6 + node * OFFSET_S
    calls = Events(
        calls=np.repeat(np.arange(20), 2),
        nodes=node,
        members=node,
        ranks=node,
        paths=np.zeros(40, dtype=np.intp),
        needs=np.full(40, -1),
        begins=entered,
        ends=left,
        arrivals=entered,
        weights=np.ones(40),
    )

    low, high = convert(clocks_of(senders, sent_at, received_at, calls), 0)

    assert ((low <= 0) & (high >= 0)).all()
    assert (high - low < 1e-5).all()


def test_nothing_is_known_without_messages():
    nothing = np.zeros(0, dtype=np.intp)
    clocks = clocks_of(nothing, np.zeros(0), np.zeros(0))

    low, high = convert(clocks, 0)

    assert np.isneginf(low).all()
    assert np.isposinf(high).all()
