"""Agents, a network that loses, duplicates and reorders messages, and an aggregator that is killed.

The agents' side is the real session of the collectors; the aggregator's is the real writer with its
files. The truth is what the ranks of the nodes have measured.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from insitu.campaign.layout import AGGREGATOR_JOURNAL
from insitu.collectors.session import AgentSession, Step
from insitu.entities import RunState
from insitu.server.events import (
    AnswerArrived,
    ConnectionLost,
    MessageArrived,
    Reconnect,
    Reply,
    Report,
    Send,
    SketchRequested,
    Tick,
)
from insitu.server.relay.state import RelayState
from insitu.server.totals import table_of
from insitu.server.writer import CampaignWriter
from insitu.wire.codec import decode, encode
from insitu.wire.split import split_totals
from tests.support.nodes import RUN, ModelNode, column
from tests.support.parameters import examples

NODES = 2
SIZE = 4
FATES = st.sampled_from(["arrive", "arrive", "arrive", "late", "lost", "twice"])
BEAT = st.tuples(
    st.sampled_from([0.1, 0.1, 1.0, 6.0]), FATES, st.sampled_from([True, True, True, False])
)
MANY = 300  # rounds within which a healed world must come to rest


@dataclass
class ModelAgent:
    """The agent of a node, with the connection that it has now."""

    node: ModelNode
    peer: bytes
    session: AgentSession = field(default_factory=AgentSession)
    has_ended: bool = False
    is_final: bool = False  # totals after the end have been sent in this session
    unsent: list = field(default_factory=list)

    def step(self, now: float) -> list:
        """What it sends now, as collectors/agent.py does; totals in two parts."""
        session, node = self.session, self.node
        if session.is_behind:
            self.restart_totals()
        has_data = bool(self.unsent) or not self.is_final
        step = session.step(now, has_data=has_data, has_ended=self.has_ended, rows=len(node.paths))
        match step:
            case Step.HELLO:
                self.restart_totals()
                return [node.hello()]
            case Step.DIGEST:
                return [node.digest()]
            case Step.PATHS:
                return [node.dictionary(session.known_rows)]
            case Step.TOTALS:
                if not self.unsent:
                    self.is_final = self.has_ended
                    self.unsent = split_totals(node.totals(0), 1)
                return [replace(self.unsent.pop(0), seq=session.sequence)]
            case Step.BYE:
                return [node.bye(session.sequence)]
        return []

    def restart_totals(self):
        self.unsent.clear()
        self.is_final = False


class FaultyWorld(RuleBasedStateMachine):
    """Two nodes of two ranks each, one run."""

    @initialize(killed=st.sampled_from([(), (), (), (2,)]))
    def begin(self, killed):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.campaign = tempfile.mkdtemp(prefix="insitu-world-", dir=base)
        self.now = 0.0
        self.connections = 0
        self.instances = 0
        self.late: list[tuple[bytes, bytes]] = []
        self.answers: list[tuple[bytes, bytes]] = []
        self.killed = killed
        self.agents = []
        self.history: dict[int, list] = {rank: [] for rank in range(SIZE)}
        self.durable: set[int] = set()
        for k in range(NODES):
            ranks = [2 * k, 2 * k + 1]
            node = ModelNode(f"n{k}", ranks, SIZE, statuses={r: -9 for r in killed if r in ranks})
            self.agents.append(ModelAgent(node, self.new_peer()))
        self.remember()
        self.open()

    def open(self):
        self.instances += 1
        self.shown: dict[int, float] = {}
        self.writer = CampaignWriter(self.campaign, instance=f"i{self.instances}", heartbeat_s=1.0)
        for agent in self.agents:
            agent.node.token = self.writer.token
        self.collect_answers(self.writer.replay(self.now))

    def new_peer(self):
        self.connections += 1
        return f"peer {self.connections}".encode()

    def remember(self):
        for agent in self.agents:
            for rank in agent.node.ranks:
                self.history[rank].append(agent.node.truth(rank))

    def collect_answers(self, effects):
        for effect in effects:
            if isinstance(effect, Reply):
                self.answers.append((effect.peer, encode(effect.message)))

    @rule(k=st.integers(0, NODES - 1), path=st.sampled_from(["solve", "halo", "sum"]))
    def work(self, k, path):
        if not self.agents[k].has_ended:
            self.agents[k].node.work(path)
            self.remember()

    @rule(
        k=st.integers(0, NODES - 1),
        what=st.sampled_from(["end", "disconnect", "restart_agent", "kill_aggregator", "silence"]),
        tail=st.binary(max_size=40),
    )
    def fault(self, k, what, tail):
        match what:
            case "end":
                self.end(k)
            case "disconnect":
                self.disconnect(k)
            case "restart_agent":
                self.restart_agent(k)
            case "kill_aggregator":
                self.kill_aggregator(tail)
            case "silence":
                self.tick(20.0)

    def end(self, k):
        self.agents[k].has_ended = True

    @rule(k=st.integers(0, NODES - 1), beats=st.lists(BEAT, min_size=1, max_size=9))
    def send(self, k, beats):
        """An agent sends messages; each message may be lost, delayed or doubled, as its answers."""
        for wait_s, fate, is_answered in beats:
            for sent in self.next_messages(k, wait_s):
                if fate in ("late", "twice"):
                    self.late.append(sent)
                if fate in ("arrive", "twice"):
                    self.deliver(sent)
            self.deliver_answers(is_answered=is_answered)
            self.tick(0.1)

    @rule(at=st.integers(0, 30), is_answered=st.booleans())
    def deliver_late(self, at, is_answered):
        """A delayed message arrives."""
        if self.late:
            self.deliver(self.late.pop(at % len(self.late)))
            self.deliver_answers(is_answered=is_answered)

    def next_messages(self, k, wait_s):
        self.now += wait_s
        agent = self.agents[k]
        return [(agent.peer, encode(message)) for message in agent.step(self.now)]

    def deliver(self, sent):
        peer, frame = sent
        self.collect_answers(self.writer.handle(MessageArrived(peer, decode(frame), self.now)))

    def deliver_answers(self, *, is_answered):
        """Deliver the answers to agents that are still connected."""
        for peer, frame in self.answers:
            for agent in self.agents:
                if agent.peer == peer and is_answered:
                    agent.session.receive(decode(frame))
        self.answers.clear()

    def tick(self, wait_s):
        self.now += wait_s
        self.collect_answers(self.writer.handle(Tick(self.now)))

    def disconnect(self, k):
        """The connection breaks: messages may still arrive, answers do not."""
        self.agents[k].peer = self.new_peer()
        self.agents[k].session.lose()

    def restart_agent(self, k):
        """The agent is killed; another one finds its tables and continues."""
        agent = self.agents[k]
        agent.node.incarnation += 1
        agent.session, agent.peer = AgentSession(), self.new_peer()
        agent.restart_totals()

    def kill_aggregator(self, tail):
        """Only files survive, perhaps with a torn record after those that were synced."""
        self.writer.close()
        if tail:
            path = os.path.join(self.campaign, AGGREGATOR_JOURNAL)
            with open(path, "ab") as journal:
                if os.path.getsize(path):
                    journal.write(tail)
        self.open()
        for k in range(NODES):
            self.disconnect(k)

    @invariant()
    def every_rank_shows_one_real_moment(self):
        if not hasattr(self, "writer"):
            return
        run = self.writer.state.runs.get(RUN)
        if run is not None:
            table = table_of(SIZE, run.registers)
            for rank in run.registers:
                values = column(table, rank)
                assert values in self.history[rank]
                assert sum(values.values()) >= self.shown.get(rank, 0.0)  # totals never decrease
                self.shown[rank] = sum(values.values())

    @invariant()
    def what_is_acknowledged_as_durable_is_on_the_disk(self):
        if not hasattr(self, "writer"):
            return
        for agent in self.agents:
            if agent.session.is_durable:
                assert self.writer.state.is_durable(agent.node.hello())

    def teardown(self):
        if not hasattr(self, "writer"):
            return
        try:
            self.heal()
            self.check_the_end()
        finally:
            self.writer.close()
            shutil.rmtree(self.campaign)

    def heal(self):
        """Stop all faults: deliver delayed messages, end all ranks, wait until all is durable."""
        for k in range(NODES):
            self.end(k)
        while self.late:
            self.deliver_late(0, is_answered=True)
        for _ in range(MANY):
            if all(agent.session.is_durable for agent in self.agents):
                return
            for k in range(NODES):
                for sent in self.next_messages(k, 0.2):
                    self.deliver(sent)
            self.run_relays()
            self.deliver_answers(is_answered=True)
        raise AssertionError(f"not durable after {MANY} rounds: {self.agents}")

    def run_relays(self):
        """Let relays between agents and the aggregator continue, if there are any."""

    def check_the_end(self):
        self.collect_answers(self.writer.handle(Tick(self.now)))
        (record,) = self.writer.store.runs()
        assert record.state is (RunState.INCOMPLETE if self.killed else RunState.COMPLETE)
        assert record.missing == self.killed
        table = self.writer.store.table(RUN)
        for agent in self.agents:
            for rank in agent.node.ranks:
                assert column(table, rank) == agent.node.truth(rank)
                assert column(table, rank, "memory_rss") == {"main": 1e6 + rank}


@dataclass
class ModelRelay:
    """A relay, with the connection to the aggregator that it has now."""

    state: RelayState
    peer: bytes


class RelayedFaultyWorld(FaultyWorld):
    """The same with two relays, which are killed as well, and between which agents change."""

    def open(self):
        if not hasattr(self, "relays"):
            self.fates: list[str] = []
            self.to_aggregator: list[tuple[bytes, bytes]] = []
            self.relay_of = dict.fromkeys(range(NODES), 0)  # the relay of each agent
            self.relays = []
        super().open()
        if not self.relays:
            self.relays = [self.new_relay(0), self.new_relay(1)]

    def new_relay(self, i):
        self.connections += 1
        state = RelayState(
            name=f"relay {i}",
            incarnation=1_000 * self.connections,
            instance=f"r{self.connections}",
            token=self.writer.token,
            heartbeat_s=1.0,
            memory_bytes=1 << 30,
        )
        return ModelRelay(state, self.new_peer())

    def deliver(self, sent):
        """Deliver a message to the relay that its agent was connected to."""
        peer, frame = sent
        relay = self.relays[peer.endswith(b"1")]
        self.handle(relay, MessageArrived(peer, decode(frame), self.now))

    def new_peer(self):
        return super().new_peer() + b" at 0"

    def handle(self, relay, event):
        for effect in relay.state.handle(event):
            match effect:
                case Reply(peer, message):
                    self.answers.append((peer, encode(message)))
                case Send(message):
                    self.rise((relay.peer, encode(message)))
                case Reconnect():
                    relay.peer = self.new_peer()
                case Report(finding):
                    is_late = "a newer agent of" in finding.text
                    assert finding.code == "rank-silent" or is_late, finding

    def rise(self, sent):
        """A message goes up; it has a fate as well."""
        fate = self.fates.pop() if self.fates else "arrive"
        if fate in ("late", "twice"):
            self.to_aggregator.append(sent)
        if fate in ("arrive", "twice"):
            self.come_up(sent)

    def come_up(self, sent):
        peer, frame = sent
        self.collect_answers(self.writer.handle(MessageArrived(peer, decode(frame), self.now)))

    def collect_answers(self, effects):
        """The aggregator's answers reach a relay that still has the connection."""
        for effect in effects:
            relay = None
            if isinstance(effect, Reply):
                relay = next((relay for relay in self.relays if relay.peer == effect.peer), None)
            if relay is not None and (not self.fates or self.fates.pop() != "lost"):
                answer = decode(encode(effect.message))
                self.handle(relay, AnswerArrived(answer, self.now))

    def tick(self, wait_s):
        super().tick(wait_s)
        for relay in self.relays:
            self.handle(relay, Tick(self.now))
            self.handle(relay, SketchRequested(self.now))

    @rule(fates=st.lists(FATES, max_size=12))
    def weather(self, fates):
        """What becomes of the next messages above the relays."""
        self.fates = fates

    @rule(at=st.integers(0, 30))
    def deliver_late_to_aggregator(self, at):
        if self.to_aggregator:
            self.come_up(self.to_aggregator.pop(at % len(self.to_aggregator)))

    @rule(i=st.integers(0, 1), what=st.sampled_from(["kill", "disconnect", "stall"]))
    def relay_fault(self, i, what):
        relay = self.relays[i]
        match what:
            case "kill":
                self.relays[i] = self.new_relay(i)
                for k, relay_index in self.relay_of.items():
                    if relay_index == i:
                        self.disconnect(k)
            case "disconnect":
                relay.peer = self.new_peer()
                self.handle(relay, ConnectionLost(self.now))
            case "stall":
                self.tick(11.0)

    @rule(k=st.integers(0, NODES - 1))
    def change_relay(self, k):
        """An agent connects to the other relay."""
        self.relay_of[k] = 1 - self.relay_of[k]
        self.disconnect(k)

    def disconnect(self, k):
        super().disconnect(k)
        self.agents[k].peer = self.agents[k].peer[:-1] + b"%d" % self.relay_of[k]

    def restart_agent(self, k):
        super().restart_agent(k)
        self.agents[k].peer = self.agents[k].peer[:-1] + b"%d" % self.relay_of[k]

    def heal(self):
        self.fates = []
        while self.to_aggregator:
            self.deliver_late_to_aggregator(0)
        self.now += 11.0  # messages that were lost on the way to the aggregator are repeated
        super().heal()

    def run_relays(self):
        for relay in self.relays:
            self.handle(relay, Tick(self.now))


def schedules(number):
    """Settings for `number` fixed schedules, a quarter of them in the plain suite, or
    INSITU_SCHEDULES random ones."""
    options = {
        "stateful_step_count": 40,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    }
    if random := os.environ.get("INSITU_SCHEDULES"):
        return settings(max_examples=int(random), derandomize=False, **options)
    return examples(number, derandomize=True, **options)


FaultyWorld.TestCase.settings = schedules(400)
RelayedFaultyWorld.TestCase.settings = schedules(160)
test_no_schedule_of_faults_loses_or_changes_values = FaultyWorld.TestCase
test_no_schedule_of_faults_with_relays_loses_or_changes_values = RelayedFaultyWorld.TestCase
