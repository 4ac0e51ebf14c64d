"""The agent of a node, beat by beat, with a real listener and tables of ranks that have ended."""

import fcntl
import json
import math
import os
from itertools import pairwise

import pytest
import zmq

from insitu.campaign import layout
from insitu.campaign.listener import ListenerAddress
from insitu.collectors import agent as module
from insitu.collectors import spool, table_directory
from insitu.collectors.agent import Agent
from insitu.collectors.session import ANSWER_WITHIN_S, HELLO_EVERY_S
from insitu.collectors.table import PROGRAM, PYTHON, RUNNING, Row
from insitu.wire.codec import decode, encode
from insitu.wire.messages import (
    NO_SESSION,
    Ack,
    Bye,
    Digest,
    Halt,
    Hello,
    Paths,
    Reject,
    Totals,
    Welcome,
)
from tests.collectors.built_table import build_table

TOKEN = "t" * 32
ROWS = [Row(0, PROGRAM, "app", "", 0), Row(0, PYTHON, "solve", "app.py", 1)]
TIMES = [{"visits": 1, "time": 70, "time_exclusive": 20}, {"visits": 3, "time": 50}]


class Listener:
    """A socket that agents find through the campaign's address file."""

    def __init__(self, path):
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        ListenerAddress(f"tcp://127.0.0.1:{port}", TOKEN).save(str(path))
        self.peer = b""

    def next_message(self, agent, now):
        """What the agent sends in a beat; it is repeated until the sockets are connected."""
        for _ in range(500):
            assert not agent.beat(now)
            if self.socket.poll(20):
                self.peer, frame = self.socket.recv_multipart()
                return decode(frame)
        raise AssertionError("the agent sent nothing")

    def answer(self, agent, message):
        """Answer, and wait until the answer is there to be read."""
        self.socket.send_multipart([self.peer, encode(message)])
        assert agent.connection.socket.poll(10_000)


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "campaign"
    path.mkdir()
    return path


@pytest.fixture
def run_directory(tmp_path, campaign):
    """A run directory with the tables of two ranks that have ended."""
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    meta = json.dumps({"run": "1" * 32, "campaign": str(campaign), "beat": 0.5}).encode()
    for rank in range(2):
        add_table(path, rank, meta)
    return path


def add_table(path, rank, meta, **header):
    """The table of one of two ranks."""
    build_table(
        path,
        ROWS,
        TIMES,
        sections={"meta_at": meta},
        name=f"rank-{rank:06d}-1.table",
        meta_used=len(meta),
        rank=rank,
        size=2,
        created_ns=1,
        **header,
    )


@pytest.fixture
def listen():
    """Start listeners, and close them after the test."""
    listeners = []

    def start(path):
        listeners.append(Listener(path))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.socket.close(0)


@pytest.fixture
def make_agent(monkeypatch):
    monkeypatch.delenv("INSITU_AGENT", raising=False)
    monkeypatch.setattr(module, "take_back", lambda _: None)  # the priority of the tests
    agents = []

    def make(directory):
        agents.append(Agent(str(directory)))
        return agents[-1]

    yield make
    for agent in agents:
        os.close(agent.wake_pipe)
        if agent.connection is not None:
            agent.connection.close()


def test_a_session_from_hello_to_durable_totals(run_directory, campaign, listen, make_agent):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    agent = make_agent(run_directory)

    hello = listener.next_message(agent, 100.0)
    assert isinstance(hello, Hello)
    assert (hello.token, hello.run, hello.size, hello.ranks) == (TOKEN, "1" * 32, 2, (0, 1))
    assert agent.session.heartbeat_s == 0.5
    assert not (run_directory / table_directory.WELCOMED).exists()

    listener.answer(agent, Welcome(instance="a", known=0, last_seq=7, beat_ms=250))
    assert isinstance(listener.next_message(agent, 100.1), Digest)
    assert (run_directory / table_directory.WELCOMED).exists()
    assert agent.session.heartbeat_s == 0.25

    listener.answer(agent, Ack("a", 7, 0, False))
    paths = listener.next_message(agent, 100.2)
    assert isinstance(paths, Paths)
    assert (paths.first, paths.names) == (0, ("app", "solve"))

    listener.answer(agent, Ack("a", 7, 2, False))
    totals = listener.next_message(agent, 100.3)
    assert isinstance(totals, Totals)
    assert (totals.seq, agent.beats, agent.totals_at) == (8, 1, 100.3)

    listener.answer(agent, Ack("a", 8, 2, False))
    bye = listener.next_message(agent, 100.4)
    assert isinstance(bye, Bye)
    assert bye.final_seq == 8
    assert [(end.rank, end.status, end.is_complete) for end in bye.ends] == [
        (0, 0, True),
        (1, 0, True),
    ]
    cost = json.loads(bye.cost)
    assert (cost["beats"], cost["dropped"], cost["errors"]) == (1, 0, [])
    assert cost["agent_cpu_s"] > 0 and cost["agent_rss_bytes"] > 1 << 20

    listener.answer(agent, Ack("a", 8, 2, True))
    assert agent.beat(100.5)
    assert not run_directory.exists()


def test_all_totals_are_sent_again_to_a_listener_that_missed_some(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    agent = make_agent(run_directory)
    listener.next_message(agent, 100.0)
    listener.answer(agent, Welcome(instance="a", known=2, last_seq=0, beat_ms=500))
    first = listener.next_message(agent, 100.1)

    listener.answer(agent, Ack("a", 0, 2, False))
    again = listener.next_message(agent, 100.2)

    assert (first.seq, again.seq) == (1, 2)
    assert again.groups == first.groups
    assert first.groups


def test_a_session_that_the_listener_does_not_know_begins_again(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    agent = make_agent(run_directory)
    listener.next_message(agent, 100.0)
    listener.answer(agent, Welcome(instance="a", known=2, last_seq=0, beat_ms=500))
    totals = listener.next_message(agent, 100.1)

    listener.answer(agent, Reject(NO_SESSION, "unknown"))
    hello = listener.next_message(agent, 100.2)
    listener.answer(agent, Welcome(instance="b", known=2, last_seq=1, beat_ms=500))

    assert isinstance(hello, Hello)
    assert listener.next_message(agent, 100.3).groups == totals.groups


def linger_of(agent, begin, step=1 / 128):
    """For how long after `begin` the agent goes on."""
    beats = 0
    while not agent.beat(begin + beats * step):
        beats += 1
        assert beats * step < 100
    return pytest.approx(beats * step, abs=step)


def test_without_any_listener_the_agent_lingers_half_a_second_and_one_try(
    run_directory, make_agent
):
    assert linger_of(make_agent(run_directory), 100.0) == 0.7
    assert run_directory.exists()  # for `insitu ingest`


def test_without_ranks_the_agent_lingers_half_a_second(tmp_path, make_agent):
    assert linger_of(make_agent(tmp_path), 100.0) == 0.5


def test_the_agent_lingers_longer_for_each_listener_that_it_could_try(
    run_directory, campaign, make_agent
):
    (campaign / layout.RELAYS).mkdir()
    for name in ("a.json", "b.json"):
        (campaign / layout.RELAYS / name).write_text("damaged")

    assert linger_of(make_agent(run_directory), 100.0) == 1.1


def test_the_agent_lingers_for_an_aggregator_that_is_expected(run_directory, campaign, make_agent):
    (campaign / layout.AGGREGATOR_EXPECTED).touch()

    assert linger_of(make_agent(run_directory), 100.0, step=1 / 8) == 20.2


def test_a_refused_agent_does_not_wait_for_an_aggregator(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    (campaign / layout.AGGREGATOR_EXPECTED).touch()
    agent = make_agent(run_directory)
    listener.next_message(agent, 100.0)
    listener.answer(agent, Halt("other version"))

    assert not agent.beat(100.69)
    assert agent.beat(100.7)
    assert agent.session.refusal == "other version"


def test_after_the_last_answer_the_agent_lingers_two_seconds_but_a_minute_at_most(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    agent = make_agent(run_directory)
    listener.next_message(agent, 100.0)
    listener.answer(agent, Welcome(instance="a", known=2, last_seq=0, beat_ms=500))
    listener.next_message(agent, 100.1)  # totals
    listener.answer(agent, Ack("a", 1, 2, False))
    listener.next_message(agent, 101.5)  # Bye; the answer says that they are not durable
    assert agent.answered_at == 101.5

    assert not agent.beat(103.49)
    agent.answered_at = 159.0
    assert not agent.beat(159.9)
    assert agent.beat(160.0)


def test_undelivered_tables_are_copied_where_an_aggregator_holds_its_lock(
    run_directory, campaign, listen, make_agent
):
    listen(campaign / layout.AGGREGATOR_ADDRESS)  # which answers nothing
    with open(campaign / layout.AGGREGATOR_LOCK, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent = make_agent(run_directory)
        agent.beat(100.0)
        assert agent.beat(101.0)

    (folder,) = spool.complete_folders(str(campaign))
    assert len(table_directory.table_names(folder)) == 2
    assert not run_directory.exists()


def test_in_mode_spool_tables_are_copied_when_all_ranks_have_ended(
    run_directory, campaign, monkeypatch, make_agent
):
    monkeypatch.setenv("INSITU_AGENT", "spool")
    node = spool.node_name(str(run_directory))
    agent = Agent(str(run_directory))
    os.close(agent.wake_pipe)
    assert (run_directory / table_directory.WELCOMED).exists()

    assert agent.beat(100.0)

    assert spool.complete_folders(str(campaign)) == [str(campaign / "spool" / f"run-{node}")]
    assert not run_directory.exists()


def test_a_rank_that_runs_keeps_the_agent(run_directory, campaign, make_agent):
    with open("/proc/self/stat", encoding="ascii") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    meta = json.dumps({"run": "1" * 32, "campaign": str(campaign)}).encode()
    add_table(run_directory, 0, meta, state=RUNNING, pid=os.getpid(), pid_started=started)
    agent = make_agent(run_directory)

    assert not any(agent.beat(100.0 + 10 * i) for i in range(10))
    assert agent.ended_at is None
    assert len(agent.processes.descriptors()) == 1

    add_table(run_directory, 0, meta)
    other = make_agent(run_directory)
    assert linger_of(other, 300.0) == 0.7


class Peer:
    """Stands for a connection: listeners that accept connections and answer nothing."""

    socket = monitor = address = None
    token = ""

    def __init__(self, n_addresses):
        self.n_addresses = n_addresses
        self.unresponsive_at = []
        self.looked_at = []
        self.now = 0.0

    def connect(self, *, is_unresponsive):
        self.looked_at.append(self.now)
        if is_unresponsive:
            self.unresponsive_at.append(self.now)
        self.address = object()
        return False

    def close(self):
        self.socket = None


def look(agent, peer, until_s):
    agent.connection = peer
    for beat in range(round(until_s * 64)):  # fractions that add up exactly
        peer.now = beat / 64
        agent._connect(peer.now)


def gaps(times):
    return [later - at for at, later in pairwise(times)]


def test_the_time_for_a_listener_doubles_with_each_round_up_to_five_seconds(tmp_path, make_agent):
    agent, peer = make_agent(tmp_path), Peer(n_addresses=1)
    agent.ended_at = 0.0  # so that it looks every 0.1 s

    look(agent, peer, until_s=30)

    assert gaps([0.0, *peer.unresponsive_at]) == pytest.approx(
        [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5], abs=0.12
    )


def test_each_of_several_listeners_gets_the_same_time_in_a_round(tmp_path, make_agent):
    agent, peer = make_agent(tmp_path), Peer(n_addresses=3)
    agent.ended_at = 0.0

    look(agent, peer, until_s=5)

    assert gaps([0.0, *peer.unresponsive_at]) == pytest.approx(
        [0.2] * 3 + [0.4] * 3 + [0.8] * 3, abs=0.12
    )


@pytest.mark.parametrize(
    ("age_s", "has_ended", "is_welcome", "every_s"),
    [
        (0, False, False, 0.1),
        (10, False, False, 0.5),
        (10, True, False, 0.1),
        (0, False, True, 5.0),
        (10, True, True, 5.0),
    ],
)
def test_how_often_the_agent_looks_for_a_listener(
    tmp_path, make_agent, age_s, has_ended, is_welcome, every_s
):
    agent, peer = make_agent(tmp_path), Peer(n_addresses=1)
    agent.started_at -= age_s
    agent.ended_at = 0.0 if has_ended else None
    agent.session.is_welcome = is_welcome

    look(agent, peer, until_s=11)

    assert set(gaps(peer.looked_at)) == {math.ceil(every_s * 64) / 64}
    assert is_welcome == (agent.tries == 0)


def test_a_wake_ends_the_sleep_and_is_consumed(run_directory, make_agent):
    agent = make_agent(run_directory)
    agent.session.heartbeat_s = 3600.0
    agent.started_at -= 10  # so that it need not look for a listener
    writer = os.open(run_directory / table_directory.WAKE, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writer, b"xx")
    os.close(writer)

    agent.sleep()

    with pytest.raises(BlockingIOError):
        os.read(agent.wake_pipe, 1)
    agent.session.heartbeat_s = 0.001
    agent.sleep()  # at the next heartbeat, without a wake


@pytest.mark.parametrize(("mode", "n_errors"), [("spool", 11), ("", 1001)])
def test_a_heartbeat_that_always_fails_ends_the_agent(
    tmp_path, monkeypatch, make_agent, mode, n_errors
):
    monkeypatch.setenv("INSITU_AGENT", mode)
    agent = Agent(str(tmp_path))
    os.close(agent.wake_pipe)
    log = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(agent, "beat", lambda _: 1 / 0)
    monkeypatch.setattr(agent, "sleep", lambda: None)
    monkeypatch.setattr(module.os, "write", lambda file, text: log)

    agent.run()
    os.close(log)

    assert len(agent.errors) == n_errors
    assert agent.cost()["errors"] == ["ZeroDivisionError: division by zero"] * 10


def test_a_welcome_long_after_the_end_of_the_ranks_leaves_time_for_the_totals(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    (campaign / layout.AGGREGATOR_EXPECTED).touch()
    agent = make_agent(run_directory)
    listener.next_message(agent, 100.0)
    listener.next_message(agent, 115.0)
    listener.answer(agent, Welcome(instance="a", known=2, last_seq=0, beat_ms=500))

    assert isinstance(listener.next_message(agent, 116.0), Totals)
    assert not agent.beat(117.9)
    assert agent.beat(118.0)


def test_hello_is_repeated_and_unanswered_totals_end_the_session(
    run_directory, campaign, listen, make_agent
):
    listener = listen(campaign / layout.AGGREGATOR_ADDRESS)
    (campaign / layout.AGGREGATOR_EXPECTED).touch()
    agent = make_agent(run_directory)
    agent.started_at = -1e9

    assert isinstance(listener.next_message(agent, 100.0), Hello)
    assert isinstance(listener.next_message(agent, 100.0 + HELLO_EVERY_S), Hello)
    listener.answer(agent, Welcome(instance="a", known=2, last_seq=0, beat_ms=500))
    assert isinstance(listener.next_message(agent, 102.0), Totals)
    agent.answered_at = 102.0 + ANSWER_WITHIN_S
    assert isinstance(listener.next_message(agent, 102.0 + ANSWER_WITHIN_S), Hello)
