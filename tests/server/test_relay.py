"""A relay between nodes and an aggregator: what it sends to each of them, and when."""

import numpy as np

from insitu.analysis.board import make_board
from insitu.entities import RunState
from insitu.modeling.base import ModelSet
from insitu.server.events import (
    AnswerArrived,
    AppendToJournal,
    ConnectionLost,
    JournalSynced,
    MessageArrived,
    Reconnect,
    Reply,
    Send,
    SketchRequested,
    StopRequested,
    StoreRun,
    Tick,
)
from insitu.server.live import live_of
from insitu.server.relay.state import ANSWER_TIMEOUT_S, RelayState
from insitu.server.state import GRACE_S, SILENT_HEARTBEATS, CampaignState
from insitu.server.totals import table_of
from insitu.wire.codec import decode, encode
from insitu.wire.messages import REFUSED, Ack, Bye, Hello, Reject, Sketches
from tests.support.nodes import RUN, TOKEN, ModelNode, column

SIZE = 8
LOST_S = SILENT_HEARTBEATS + GRACE_S + 1.0


class Tree:
    """An aggregator whose disk never fails, and relays below it."""

    def __init__(self, relays=1, **more):
        self.root = CampaignState(instance="root", token=TOKEN, heartbeat_s=1.0, **more)
        self.relays = [self.relay(i) for i in range(relays)]
        self.sent = []
        self.answers = []
        self.stored = []
        self.is_up = True

    def relay(self, i):
        return RelayState(
            name=f"relay {i}",
            incarnation=10,
            instance=f"r{i}",
            token=TOKEN,
            heartbeat_s=1.0,
            memory_bytes=1 << 30,
        )

    def send(self, relay, node, *messages, at=0.0):
        for message in messages:
            self.handle(relay, MessageArrived(node.name.encode(), message, at))

    def handle(self, relay, event):
        for effect in relay.handle(event):
            match effect:
                case Reply(peer, message):
                    self.answers.append((peer.decode(), message))
                case Send(message):
                    self.sent.append(message)
                    if self.is_up:
                        self.deliver(relay, message, event)

    def deliver(self, relay, message, event):
        at = getattr(event, "at", None) or getattr(event, "now", 0.0)
        peer = relay.name.encode()
        effects = self.root.handle(MessageArrived(peer, decode(encode(message)), at))
        while effects:
            effect = effects.pop(0)
            match effect:
                case AppendToJournal(run, node, incarnation, _):
                    effects += self.root.handle(JournalSynced(run, node, incarnation))
                case StoreRun(record, table):
                    self.stored.append((record, table))
                case Reply(_, answer):
                    self.handle(relay, AnswerArrived(answer, at))

    def answers_to(self, node):
        return [message for name, message in self.answers if name == node.name]


def nodes():
    """Four nodes of two ranks; one behaves differently."""
    made = [ModelNode(f"n{k}", [2 * k, 2 * k + 1], SIZE) for k in range(SIZE // 2)]
    for k, node in enumerate(made):
        node.work("solve", 1_000 if k else 9_000)
    made[1].work("halo")
    return made


def test_sketches_show_the_same_as_all_values():
    tree = Tree(relays=2)
    every = nodes()
    for k, node in enumerate(every):
        tree.send(tree.relays[k % 2], node, node.hello(), node.dictionary(), node.totals(1))

    for relay in tree.relays:
        tree.handle(relay, SketchRequested(1.0))

    flat = CampaignState(instance="flat", token=TOKEN, heartbeat_s=1.0)
    for node in every:
        for message in (node.hello(), node.dictionary(), node.totals(1)):
            flat.handle(MessageArrived(node.name.encode(), message, 0.0))
    seen, truth = live_of(tree.root.runs[RUN]), live_of(flat.runs[RUN])
    assert {type(m) for m in tree.sent} == {Hello, *map(type, [node.dictionary()]), Sketches}
    assert tree.root.runs[RUN].registers == {}
    assert (seen.ranks_seen, seen.size) == (8, 8)
    means = {path.callpath: path[1:5] for path in seen.callpaths}
    assert means.keys() == {path.callpath for path in truth.callpaths}
    for path in truth.callpaths:
        np.testing.assert_allclose(means[path.callpath], path[1:5])
    assert [ranks for ranks, _ in seen.classes["main->solve"]] == [6, 2]
    rows = make_board([], ModelSet(), [seen]).series
    assert [r.behaviour for r in rows if r.callpath == "main->solve"] == [
        "all",
        "now 1/2: 6 ranks",
        "now 2/2: 2 ranks",
    ]


def test_an_end_is_durable_only_when_the_aggregator_says_so():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]

    tree.send(relay, node, *node.messages())
    before = [m for m in tree.answers_to(node) if isinstance(m, Ack) and m.is_durable]
    tree.is_up = True
    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 1.0))
    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 2.0))

    assert before == []
    assert tree.answers_to(node)[-1] == Ack("r0", 1, 2, True)
    assert relay.is_idle


def test_a_complete_run_has_every_value_of_its_nodes():
    tree = Tree(relays=2)
    every = nodes()

    for k, node in enumerate(every):
        tree.send(tree.relays[k % 2], node, *node.messages())

    ((record, table),) = tree.stored
    assert (record.state, record.missing) == (RunState.COMPLETE, ())
    for node in every:
        assert all(column(table, rank) == node.truth(rank) for rank in node.ranks)


def test_the_last_totals_of_a_lost_node_are_delivered_in_its_name():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.send(relay, node, node.hello(), node.dictionary(), node.totals(1))

    tree.handle(relay, Tick(SILENT_HEARTBEATS + 1.0))

    run = tree.root.runs[RUN]
    assert list(run.sessions) == ["n0"]
    assert column(table_of(SIZE, run.registers), 1) == node.truth(1)


def test_a_relay_delivers_everything_before_it_stops():
    tree = Tree()
    (relay,) = tree.relays
    every = nodes()
    for node in every:
        tree.send(relay, node, node.hello(), node.dictionary(), node.totals(1))

    tree.handle(relay, StopRequested(1.0))

    assert relay.is_idle
    assert len(tree.root.runs[RUN].registers) == SIZE


def test_a_relay_forgets_a_run_that_is_delivered_and_silent():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.send(relay, node, *node.messages())

    tree.handle(relay, Tick(LOST_S))

    assert relay.nodes.runs == {}


def test_what_the_aggregator_has_no_memory_for_stays_on_the_node():
    tree = Tree(memory_bytes=1)
    (relay,) = tree.relays
    node = nodes()[0]

    tree.send(relay, node, *node.messages())
    tree.handle(relay, Tick(1.0))

    last = tree.answers_to(node)[-1]
    assert isinstance(last, Reject) and last.code == REFUSED
    assert "memory" in last.text
    tree.handle(relay, Tick(LOST_S))  # the relay forgets the run
    assert [type(m) for m in tree.sent] == [Hello]  # it is not tried again


def test_what_a_node_has_replaced_elsewhere_is_not_tried_again():
    """It has reached the aggregator by another way, and goes on measuring."""
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.send(relay, node, *node.messages())
    node.work("late")
    for message in (node.hello(), node.dictionary(), node.totals(7)):
        tree.root.handle(MessageArrived(b"n0", message, 1.0))
    tree.is_up = True

    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 1.0))
    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 2.0))
    n_sent = len(tree.sent)
    for later in (3.0, LOST_S, LOST_S + 1.0):
        tree.handle(relay, Tick(ANSWER_TIMEOUT_S + later))

    assert isinstance(tree.sent[-1], Bye)
    assert len(tree.sent) == n_sent
    assert column(table_of(SIZE, tree.root.runs[RUN].registers), 0) == node.truth(0)


def test_messages_during_a_delivery_are_delivered_too():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.send(relay, node, *node.messages())
    node.work("late")
    tree.send(relay, node, node.hello(), node.dictionary(), node.totals(2), node.bye(2))
    tree.is_up = True

    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 1.0))
    tree.handle(relay, Tick(ANSWER_TIMEOUT_S + 2.0))

    registers = tree.root.runs[RUN].registers
    assert column(table_of(SIZE, registers), 0) == node.truth(0)
    assert tree.answers_to(node)[-1].is_durable


def test_totals_of_lost_nodes_are_delivered_to_a_new_aggregator_again():
    tree = Tree()
    (relay,) = tree.relays
    lost, other = nodes()[:2]
    tree.send(relay, lost, lost.hello(), lost.dictionary(), lost.totals(1))
    tree.handle(relay, Tick(SILENT_HEARTBEATS + 1.0))

    tree.root = CampaignState(instance="next", token=TOKEN, heartbeat_s=1.0)
    tree.handle(relay, ConnectionLost(7.0))
    tree.send(relay, other, *other.messages(), at=8.0)

    assert set(tree.root.runs[RUN].sessions) == {"n0", "n1"}


def test_a_missing_answer_starts_a_new_connection():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.send(relay, node, *node.messages())

    effects = relay.handle(Tick(ANSWER_TIMEOUT_S + 1.0))
    next_effects = relay.handle(Tick(ANSWER_TIMEOUT_S + 2.0))

    assert not any(isinstance(effect, Send) for effect in effects)
    assert next_effects[-2] == Reconnect()
    assert isinstance(next_effects[-1], Send) and isinstance(next_effects[-1].message, Hello)


def test_a_node_is_answered_while_its_end_waits():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.send(relay, node, *node.messages())

    tree.handle(relay, Tick(1.0))

    assert tree.answers_to(node)[-1] == Ack("r0", 1, 2, False)


def test_a_relay_of_relays_is_refused():
    tree = Tree()
    node = nodes()[0]
    hello = Hello(**{f: getattr(node.hello(), f) for f in Hello.__slots__} | {"is_relay": True})

    tree.send(tree.relays[0], node, hello)

    assert tree.answers_to(node)[-1].code == REFUSED


def test_a_relay_has_no_ranks_and_a_node_no_sketches():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.send(relay, node, node.hello(), node.dictionary(), node.totals(1))
    tree.handle(relay, SketchRequested(1.0))
    (sketches,) = [m for m in tree.sent if isinstance(m, Sketches)]

    def refusal(peer, message):
        (reply, *_) = tree.root.handle(MessageArrived(peer, message, 2.0))
        return reply.message

    assert refusal(b"relay 0", node.totals(9)).code == REFUSED
    tree.root.handle(MessageArrived(b"n9", nodes()[3].hello(), 2.0))
    assert refusal(b"n9", sketches).code == REFUSED
