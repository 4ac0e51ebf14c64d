"""Agents, a network that loses, doubles and reorders, an aggregator that is killed: what must hold.

The agents' side is the real session of the collectors; the aggregator's is the real keeper with its
files. The truth is what the ranks of the nodes have measured.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from insitu.collectors.session import Session, Step
from insitu.entities import RunState
from insitu.server.events import MessageArrived, Reply, Ticked
from insitu.server.journal import FILE
from insitu.server.keeper import Keeper
from insitu.server.totals import table_of
from insitu.wire.codec import decode, encode
from tests.server.nodes import RUN, ModelNode, column

NODES = 2
SIZE = 4
MANY = 300  # rounds within which a healed world must come to rest


@dataclass
class ModelAgent:
    """The agent of a node, with the connection that it has now."""

    node: ModelNode
    peer: bytes
    session: Session = field(default_factory=Session)
    has_ended: bool = False
    is_final: bool = False  # totals after the end have been sent in this session

    def step(self, now: float) -> list:
        """What it sends now, as collectors/agent.py does."""
        step = self.session.step(now, has_data=not self.is_final, has_ended=self.has_ended)
        if step is Step.HELLO:
            self.is_final = False
            return [self.node.hello()]
        if step is Step.TOTALS:
            self.is_final = self.has_ended
            known = self.session.known
            fresh = [self.node.dictionary(known)] if known < len(self.node.paths) else []
            return [*fresh, self.node.totals(self.session.seq)]
        return [self.node.bye(self.session.seq)] if step is Step.BYE else []


class World(RuleBasedStateMachine):
    """Two nodes of two ranks each, one run."""

    @initialize(killed=st.sampled_from([(), (), (), (2,)]))
    def begin(self, killed):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.campaign = tempfile.mkdtemp(prefix="insitu-world-", dir=base)
        self.now = 0.0
        self.connections = 0
        self.instances = 0
        self.to_server: list[tuple[bytes, bytes]] = []
        self.to_agents: list[tuple[bytes, bytes]] = []
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
        self.keeper = Keeper(self.campaign, instance=f"i{self.instances}", beat_s=1.0)
        for agent in self.agents:
            agent.node.token = self.keeper.token
        self.carry(self.keeper.replay(self.now))

    def new_peer(self):
        self.connections += 1
        return f"peer {self.connections}".encode()

    def remember(self):
        for agent in self.agents:
            for rank in agent.node.ranks:
                self.history[rank].append(agent.node.truth(rank))

    def carry(self, effects):
        for effect in effects:
            if isinstance(effect, Reply):
                self.to_agents.append((effect.peer, encode(effect.message)))

    @rule(k=st.integers(0, NODES - 1), path=st.sampled_from(["solve", "halo", "sum"]))
    def work(self, k, path):
        if not self.agents[k].has_ended:
            self.agents[k].node.work(path)
            self.remember()

    @rule(k=st.integers(0, NODES - 1))
    def end(self, k):
        self.agents[k].has_ended = True

    @rule(k=st.integers(0, NODES - 1), wait_s=st.sampled_from([0.1, 1.0, 6.0]))
    def speak(self, k, wait_s):
        self.now += wait_s
        agent = self.agents[k]
        self.to_server += [(agent.peer, encode(m)) for m in agent.step(self.now)]

    @rule(at=st.integers(0, 30), is_kept=st.booleans())
    def deliver(self, at, is_kept):
        """Any message on its way arrives, perhaps to arrive once more."""
        if self.to_server:
            at %= len(self.to_server)
            peer, frame = self.to_server[at] if is_kept else self.to_server.pop(at)
            event = MessageArrived(peer, decode(frame), self.now)
            self.carry(self.keeper.handle(event))

    @rule(at=st.integers(0, 30))
    def lose(self, at):
        if self.to_server:
            self.to_server.pop(at % len(self.to_server))

    @rule(at=st.integers(0, 30), is_lost=st.booleans())
    def answer(self, at, is_lost):
        if self.to_agents:
            peer, frame = self.to_agents.pop(at % len(self.to_agents))
            for agent in self.agents:
                if agent.peer == peer and not is_lost:
                    agent.session.receive(decode(frame))

    @rule(wait_s=st.sampled_from([0.5, 3.0, 20.0]))
    def tick(self, wait_s):
        self.now += wait_s
        self.carry(self.keeper.handle(Ticked(self.now)))

    @rule(k=st.integers(0, NODES - 1))
    def disconnect(self, k):
        """The connection breaks; what was on its way may still arrive, no answer does."""
        self.agents[k].peer = self.new_peer()
        self.agents[k].session.lose()

    @rule(k=st.integers(0, NODES - 1))
    def restart_agent(self, k):
        """The agent is killed; another one finds the tables and speaks for them."""
        agent = self.agents[k]
        agent.node.incarnation += 1
        agent.session, agent.peer, agent.is_final = Session(), self.new_peer(), False

    @rule(tail=st.binary(max_size=40))
    def kill_aggregator(self, tail):
        """Only files survive, perhaps with a torn record behind what was synced."""
        self.keeper.close()
        if tail:
            path = os.path.join(self.campaign, FILE)
            with open(path, "ab") as journal:
                if os.path.getsize(path):
                    journal.write(tail)
        self.open()
        for k in range(NODES):
            self.disconnect(k)

    @invariant()
    def every_rank_shows_one_real_moment(self):
        if not hasattr(self, "keeper"):
            return
        run = self.keeper.state.runs.get(RUN)
        if run is not None:
            table = table_of(SIZE, run.registers)
            for rank in run.registers:
                assert column(table, rank) in self.history[rank]

    @invariant()
    def what_an_agent_was_told_is_safe(self):
        if not hasattr(self, "keeper"):
            return
        for agent in self.agents:
            if agent.session.is_durable:
                assert self.keeper.state.has(agent.node.hello())

    def teardown(self):
        if not hasattr(self, "keeper"):
            return
        try:
            self.heal()
            self.check_the_end()
        finally:
            self.keeper.close()
            shutil.rmtree(self.campaign)

    def heal(self):
        """From now on nothing is lost and everything ends."""
        for k in range(NODES):
            self.end(k)
        for _ in range(MANY):
            if all(agent.session.is_durable for agent in self.agents):
                return
            for k in range(NODES):
                self.speak(k, 0.2)
            while self.to_server:
                self.deliver(0, is_kept=False)
            while self.to_agents:
                self.answer(0, is_lost=False)
        raise AssertionError(f"not at rest after {MANY} rounds: {self.agents}")

    def check_the_end(self):
        self.carry(self.keeper.handle(Ticked(self.now)))
        (record,) = self.keeper.store.runs()
        assert record.state is (RunState.PARTIAL if self.killed else RunState.SEALED)
        assert record.missing == self.killed
        table = self.keeper.store.table(RUN)
        for agent in self.agents:
            for rank in agent.node.ranks:
                assert column(table, rank) == agent.node.truth(rank)
                assert column(table, rank, "memory_rss") == {"main": 1e6 + rank}


World.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
test_no_schedule_of_faults_loses_or_spoils_what_was_measured = World.TestCase
