"""A relay between nodes and an aggregator: what each of them is told, and when."""

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
from insitu.server.relay.state import ANSWER_WITHIN_S, RelayState
from insitu.server.state import GRACE_S, SILENT_BEATS, CampaignState
from insitu.server.totals import table_of
from insitu.wire.codec import decode, encode
from insitu.wire.messages import REFUSED, Ack, Hello, Reject, Sketches
from tests.support.nodes import RUN, TOKEN, ModelNode, column

SIZE = 8
LOST_S = SILENT_BEATS + GRACE_S + 1.0


class Tree:
    """An aggregator whose disk works, and relays below it."""

    def __init__(self, relays=1, **more):
        self.root = CampaignState(instance="root", token=TOKEN, heartbeat_s=1.0, **more)
        self.relays = [self.relay(i) for i in range(relays)]
        self.risen = []
        self.answers = []
        self.sealed = []
        self.is_up = True

    def relay(self, i):
        return RelayState(
            name=f"relay {i}",
            incarnation=10,
            instance=f"r{i}",
            token=TOKEN,
            heartbeat_s=1.0,
            room_bytes=1 << 30,
        )

    def say(self, relay, node, *messages, at=0.0):
        for message in messages:
            self.happen(relay, MessageArrived(node.name.encode(), message, at))

    def happen(self, relay, event):
        for effect in relay.handle(event):
            match effect:
                case Reply(peer, message):
                    self.answers.append((peer.decode(), message))
                case Send(message):
                    self.risen.append(message)
                    if self.is_up:
                        self.rise(relay, message, event)

    def rise(self, relay, message, event):
        at = getattr(event, "at", None) or getattr(event, "now", 0.0)
        peer = relay.name.encode()
        effects = self.root.handle(MessageArrived(peer, decode(encode(message)), at))
        while effects:
            effect = effects.pop(0)
            match effect:
                case AppendToJournal(run, node, incarnation, _):
                    effects += self.root.handle(JournalSynced(run, node, incarnation))
                case StoreRun(record, table):
                    self.sealed.append((record, table))
                case Reply(_, answer):
                    self.happen(relay, AnswerArrived(answer, at))

    def told(self, node):
        return [message for name, message in self.answers if name == node.name]


def nodes():
    """Four nodes of two ranks; one behaves differently."""
    found = [ModelNode(f"n{k}", [2 * k, 2 * k + 1], SIZE) for k in range(SIZE // 2)]
    for k, node in enumerate(found):
        node.work("solve", 1_000 if k else 9_000)
    found[1].work("halo")
    return found


def test_while_ranks_run_the_aggregator_sees_what_it_would_see_of_every_value():
    tree = Tree(relays=2)
    every = nodes()
    for k, node in enumerate(every):
        tree.say(tree.relays[k % 2], node, node.hello(), node.dictionary(), node.totals(1))

    for relay in tree.relays:
        tree.happen(relay, SketchRequested(1.0))

    flat = CampaignState(instance="flat", token=TOKEN, heartbeat_s=1.0)
    for node in every:
        for message in (node.hello(), node.dictionary(), node.totals(1)):
            flat.handle(MessageArrived(node.name.encode(), message, 0.0))
    seen, truth = live_of(tree.root.runs[RUN]), live_of(flat.runs[RUN])
    assert {type(m) for m in tree.risen} == {Hello, *map(type, [node.dictionary()]), Sketches}
    assert tree.root.runs[RUN].registers == {}
    assert (seen.ranks_seen, seen.size) == (8, 8)
    means = {one.callpath: one[1:5] for one in seen.callpaths}
    assert means.keys() == {one.callpath for one in truth.callpaths}
    for one in truth.callpaths:
        np.testing.assert_allclose(means[one.callpath], one[1:5])
    assert [ranks for ranks, _ in seen.classes["main->solve"]] == [6, 2]
    rows = make_board([], ModelSet(), [seen]).series
    assert [r.behaviour for r in rows if r.callpath == "main->solve"] == [
        "all",
        "now 1/2: 6 ranks",
        "now 2/2: 2 ranks",
    ]


def test_an_end_is_durable_only_when_it_is_so_above():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]

    tree.say(relay, node, *node.messages())
    before = [m for m in tree.told(node) if isinstance(m, Ack) and m.is_durable]
    tree.is_up = True
    tree.happen(relay, Tick(ANSWER_WITHIN_S + 1.0))
    tree.happen(relay, Tick(ANSWER_WITHIN_S + 2.0))

    assert before == []
    assert tree.told(node)[-1] == Ack("r0", 1, 2, True)
    assert relay.is_idle


def test_a_run_is_sealed_with_every_value_that_its_nodes_brought():
    tree = Tree(relays=2)
    every = nodes()

    for k, node in enumerate(every):
        tree.say(tree.relays[k % 2], node, *node.messages())

    ((record, table),) = tree.sealed
    assert (record.state, record.missing) == (RunState.COMPLETE, ())
    for node in every:
        assert all(column(table, rank) == node.truth(rank) for rank in node.ranks)


def test_what_a_lost_node_said_last_is_brought_in_its_name():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.say(relay, node, node.hello(), node.dictionary(), node.totals(1))

    tree.happen(relay, Tick(SILENT_BEATS + 1.0))

    run = tree.root.runs[RUN]
    assert list(run.sessions) == ["n0"]
    assert column(table_of(SIZE, run.registers), 1) == node.truth(1)


def test_a_relay_that_stops_brings_what_it_has():
    tree = Tree()
    (relay,) = tree.relays
    every = nodes()
    for node in every:
        tree.say(relay, node, node.hello(), node.dictionary(), node.totals(1))

    tree.happen(relay, StopRequested(1.0))

    assert relay.is_idle
    assert len(tree.root.runs[RUN].registers) == SIZE


def test_a_relay_forgets_what_is_safe_above_and_nobody_speaks_of():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.say(relay, node, *node.messages())

    tree.happen(relay, Tick(LOST_S))

    assert relay.nodes.runs == {}


def test_what_has_no_room_above_stays_with_the_node():
    tree = Tree(room_bytes=1)
    (relay,) = tree.relays
    node = nodes()[0]

    tree.say(relay, node, *node.messages())
    tree.happen(relay, Tick(1.0))

    last = tree.told(node)[-1]
    assert isinstance(last, Reject) and last.code == REFUSED
    assert "needs" in last.text
    assert [type(m) for m in tree.risen] == [Hello]  # it is not tried again


def test_what_a_node_says_while_its_end_goes_up_goes_up_too():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.say(relay, node, *node.messages())
    node.work("late")
    tree.say(relay, node, node.hello(), node.dictionary(), node.totals(2), node.bye(2))
    tree.is_up = True

    tree.happen(relay, Tick(ANSWER_WITHIN_S + 1.0))
    tree.happen(relay, Tick(ANSWER_WITHIN_S + 2.0))

    registers = tree.root.runs[RUN].registers
    assert column(table_of(SIZE, registers), 0) == node.truth(0)
    assert tree.told(node)[-1].is_durable


def test_a_new_aggregator_hears_again_what_lost_nodes_said():
    tree = Tree()
    (relay,) = tree.relays
    lost, other = nodes()[:2]
    tree.say(relay, lost, lost.hello(), lost.dictionary(), lost.totals(1))
    tree.happen(relay, Tick(SILENT_BEATS + 1.0))

    tree.root = CampaignState(instance="next", token=TOKEN, heartbeat_s=1.0)
    tree.happen(relay, ConnectionLost(7.0))
    tree.say(relay, other, *other.messages(), at=8.0)

    assert set(tree.root.runs[RUN].sessions) == {"n0", "n1"}


def test_an_answer_that_does_not_come_begins_a_new_connection():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.say(relay, node, *node.messages())

    effects = relay.handle(Tick(ANSWER_WITHIN_S + 1.0))
    next_effects = relay.handle(Tick(ANSWER_WITHIN_S + 2.0))

    assert not any(isinstance(effect, Send) for effect in effects)
    assert next_effects[-2] == Reconnect()
    assert isinstance(next_effects[-1], Send) and isinstance(next_effects[-1].message, Hello)


def test_while_an_end_waits_the_node_is_answered():
    tree = Tree()
    (relay,) = tree.relays
    tree.is_up = False
    node = nodes()[0]
    tree.say(relay, node, *node.messages())

    tree.happen(relay, Tick(1.0))

    assert tree.told(node)[-1] == Ack("r0", 1, 2, False)


def test_a_relay_of_relays_is_refused():
    tree = Tree()
    node = nodes()[0]
    hello = Hello(**{f: getattr(node.hello(), f) for f in Hello.__slots__} | {"is_relay": True})

    tree.say(tree.relays[0], node, hello)

    assert tree.told(node)[-1].code == REFUSED


def test_a_relay_has_no_ranks_and_a_node_no_sketches():
    tree = Tree()
    (relay,) = tree.relays
    node = nodes()[0]
    tree.say(relay, node, node.hello(), node.dictionary(), node.totals(1))
    tree.happen(relay, SketchRequested(1.0))
    (told,) = [m for m in tree.risen if isinstance(m, Sketches)]

    def refusal(peer, message):
        (reply, *_) = tree.root.handle(MessageArrived(peer, message, 2.0))
        return reply.message

    assert refusal(b"relay 0", node.totals(9)).code == REFUSED
    tree.root.handle(MessageArrived(b"n9", nodes()[3].hello(), 2.0))
    assert refusal(b"n9", told).code == REFUSED
