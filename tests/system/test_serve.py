"""The aggregator as a process of its own: real sockets, real signals, kills at any moment."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zmq
import zmq.auth

from insitu.analysis.board import Board
from insitu.campaign.store import open_store
from insitu.collectors import agent
from insitu.collectors.connection import Connection
from insitu.entities import RunState
from insitu.wire.codec import decode, encode
from insitu.wire.messages import NO_SESSION, REFUSED, Ack, Reject, Welcome
from insitu.wire.split import split_totals
from tests.collectors.test_node import rank_table
from tests.support.nodes import ModelNode, column

HERE = Path(__file__).resolve().parents[2]
WAIT_S = 90.0
KILLS, RUNS = 8, 4


class Serving:
    """`insitu serve` on a campaign."""

    def __init__(self, campaign, *options):
        self.campaign = campaign
        self.process = subprocess.Popen(
            [sys.executable, "-m", "insitu", "serve", str(campaign), "--beat", "0.1", *options],
            cwd=HERE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def address(self):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                found = json.loads((self.campaign / "aggregator.json").read_text())
            except FileNotFoundError:
                found = {}
            if found.get("pid") == self.process.pid:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not up: {self.end(signal.SIGKILL)}")

    def end(self, number=signal.SIGTERM):
        """The exit code and what was said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said


class Speaker:
    """An agent's socket."""

    def __init__(self, address, keys=None):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.limit_waiting(WAIT_S)
        if keys is not None:
            self.socket.curve_serverkey, _ = zmq.auth.load_certificate(
                f"{address['curve']}/server.key"
            )
            self.socket.curve_publickey, self.socket.curve_secretkey = keys
        self.socket.connect(address["endpoint"])

    def limit_waiting(self, seconds):
        """An aggregator that refuses a key ends the connection, and messages wait for another."""
        self.socket.rcvtimeo = self.socket.sndtimeo = int(1000 * seconds)

    def ask(self, message):
        self.socket.send(encode(message))
        return decode(self.socket.recv())

    def live(self, node):
        """All that an agent says in its life; the last answer."""
        answer = self.ask(node.hello())
        assert isinstance(answer, Welcome), answer
        self.ask(node.dictionary())
        self.ask(node.totals(1))
        return self.ask(node.bye(1))

    def close(self):
        self.socket.close()


@pytest.fixture
def campaign(tmp_path):
    yield tmp_path / "test.insitu"


@pytest.fixture
def serve(campaign):
    started = []

    def start(*options):
        started.append(Serving(campaign, *options))
        return started[-1]

    yield start
    for server in started:
        server.end(signal.SIGKILL)


@pytest.fixture
def speak():
    opened = []

    def connect(address, keys=None):
        opened.append(Speaker(address, keys))
        return opened[-1]

    yield connect
    for session in opened:
        session.close()


def runs(campaign):
    with open_store(str(campaign)) as store:
        return store.runs()


def test_a_run_is_sealed_and_the_aggregator_ends_with_a_signal(serve, speak, campaign):
    serving = serve()
    address = serving.address()
    nodes = (
        ModelNode("n0", [0, 1], 3, token=address["token"]),
        ModelNode("n1", [2], 3, token=address["token"]),
    )

    answers = [speak(address).live(node) for node in nodes]
    code, said = serving.end()

    assert all(answer.is_durable for answer in answers)
    assert code == 0
    assert "run p=3,n=4#0: complete, 1 call paths of 3 ranks" in said
    (record,) = runs(campaign)
    assert record.state is RunState.COMPLETE
    assert not (campaign / "aggregator.json").exists()
    assert not os.path.exists(address["endpoint"].removeprefix("ipc://"))


def test_what_is_not_complete_at_the_end_is_partial_and_completed_later(serve, speak, campaign):
    first = serve()
    address = first.address()
    a = ModelNode("n0", [0, 1], 3, token=address["token"])
    b = ModelNode("n1", [2], 3, token=address["token"])
    speak(address).live(a)
    code, said = first.end(signal.SIGINT)
    assert (code, runs(campaign)[0].state) == (0, RunState.INCOMPLETE)
    assert "incomplete; 2 of 3 ranks are complete; missing: 2" in said

    second = serve()
    speak(second.address()).live(b)
    second.end()

    (record,) = runs(campaign)
    assert record.state is RunState.COMPLETE


def test_only_the_owner_can_read_the_token_and_reach_the_socket(serve, campaign):
    address = serve().address()

    directory = os.path.dirname(address["endpoint"].removeprefix("ipc://"))
    assert stat.S_IMODE(os.stat(campaign / "aggregator.json").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(campaign / "keys" / "token").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(campaign).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert len(address["endpoint"]) < 107


def test_a_second_aggregator_is_refused_in_one_line(serve, campaign):
    first = serve()
    first.address()

    code, said = serve().end(signal.SIGCONT)

    assert code == 3
    assert f"another aggregator (pid {first.process.pid} on host" in said
    assert said.count("\n") == 1


def test_a_wrong_token_and_garbage_are_refused(serve, speak):
    address = serve().address()
    speaker = speak(address)

    wrong = speaker.ask(ModelNode("n0", [0], 1, token="b" * 64).hello())
    speaker.socket.send(b"INS1 garbage")
    garbage = decode(speaker.socket.recv())
    stranger = speaker.ask(ModelNode("n0", [0], 1).totals(1))

    codes = [answer.code for answer in (wrong, garbage, stranger) if isinstance(answer, Reject)]
    assert codes == [REFUSED, REFUSED, NO_SESSION]


def test_the_aggregator_ends_with_the_run_that_it_was_started_for(serve, speak):
    serving = serve("--exit-with", "0" * 31 + "1")
    address = serving.address()

    speak(address).live(ModelNode("n0", [0], 1, token=address["token"]))
    code = serving.process.wait(WAIT_S)

    assert code == 0


def test_the_aggregator_ends_when_nobody_waits_for_its_run(serve):
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)

    serving = serve("--exit-with", "0" * 31 + "1", "--parent", gone.stdout.strip())

    assert serving.process.wait(WAIT_S) == 0


def test_boards_are_published_each_beat(serve, speak):
    address = serve().address()
    eyes = zmq.Context.instance().socket(zmq.SUB)
    eyes.linger = 0
    eyes.subscribe(b"")
    eyes.rcvtimeo = int(1000 * WAIT_S)
    eyes.connect(address["boards"])
    node = ModelNode("n0", [0], 2, token=address["token"])
    speaker = speak(address)
    speaker.ask(node.hello())
    speaker.ask(node.dictionary())
    speaker.ask(node.totals(1))

    board = Board.from_dict(json.loads(eyes.recv()))
    while not board.runs or not board.runs[0].seen:
        board = Board.from_dict(json.loads(eyes.recv()))

    eyes.close()
    assert (board.runs[0].state, board.runs[0].seen, board.runs[0].size) == ("measuring", 1, 2)


@pytest.mark.full
def test_nothing_that_was_acknowledged_is_lost_by_kills(serve, speak, campaign):
    """Killed at random moments while nodes of several runs end; each is asked again until safe."""
    seed = 20261121
    rng = random.Random(seed)
    nodes = [
        ModelNode(f"n{k}", [2 * k, 2 * k + 1], 6, run=f"{run:032x}")
        for run in range(RUNS)
        for k in range(3)
    ]
    for node in nodes:
        node.work("solve")
    waiting, kills = list(nodes), 0
    serving = serve()
    while waiting:
        address = serving.address()
        speaker = speak(address)
        speaker.limit_waiting(0.5)
        if kills < KILLS:
            os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", f"sleep {rng.uniform(0, 0.04):.4f}; kill -9 {serving.process.pid}"],
                os.environ,
            )
        try:
            for node in list(waiting):
                node.token = address["token"]
                answer = speaker.live(node)
                if isinstance(answer, Ack) and answer.is_durable:
                    waiting.remove(node)
        except zmq.Again:
            pass
        if kills < KILLS:
            serving.process.wait(WAIT_S)
            kills += 1
            serving = serve()
        speaker.close()
    serving.address()  # what the last kill left is taken up
    code, said = serving.end()

    assert code == 0, said
    records = runs(campaign)
    assert [record.state for record in records] == [RunState.COMPLETE] * RUNS, f"seed {seed}"
    assert sorted(record.key.repetition for record in records) == list(range(RUNS))
    with open_store(str(campaign)) as store:
        for node in nodes:
            table = store.table(node.run)
            assert all(column(table, rank) == node.truth(rank) for rank in node.ranks)
    assert not (campaign / "aggregator.journal").exists()


def test_between_machines_only_the_key_of_the_campaign_is_let_in(serve, speak, tmp_path):
    address = serve("--bind", "tcp://127.0.0.1:0").address()
    node = ModelNode("n0", [0], 1, token=address["token"])
    assert address["endpoint"].startswith("tcp://127.0.0.1:")
    ours = zmq.auth.load_certificate(f"{address['curve']}/client.key_secret")
    stranger = zmq.curve_keypair()

    answer = speak(address, ours).live(node)
    refused = []
    for keys in (stranger, None):
        speaker = speak(address, keys)
        speaker.limit_waiting(0.5)
        with pytest.raises(zmq.Again):
            speaker.ask(node.hello())
        refused.append(keys)

    assert answer.is_durable
    assert len(refused) == 2


def test_totals_of_more_parts_than_a_pipe_holds_arrive(serve, campaign, tmp_path, monkeypatch):
    """They went all at once, filled the pipe, and the agent said Hello again for ever."""
    serve().address()
    run, ranks = "5" * 32, 24
    tables = tmp_path / "run"
    tables.mkdir(0o700)
    meta = json.dumps({"run": run, "campaign": str(campaign), "beat": 0.1})
    for rank in range(ranks):
        rank_table(tables, rank, ranks, ["solve"], meta=meta)
    monkeypatch.setattr(agent, "split_totals", lambda totals: split_totals(totals, max_bytes=1))

    agent.Agent(str(tables)).run()

    (record,) = runs(campaign)
    assert (record.state, record.key.size) == (RunState.COMPLETE, ranks)
    assert not tables.exists()


def test_an_agent_trusts_only_addresses_that_nobody_else_could_write(serve, campaign):
    serve().address()
    (campaign / "aggregator.json").chmod(0o660)
    connection = Connection(str(campaign), "n0")

    was_trusted = connection.connect()
    (campaign / "aggregator.json").chmod(0o600)

    assert (was_trusted, connection.connect()) == (False, True)
    connection.close()


def test_names_from_the_wire_are_escaped_where_they_are_said(serve, speak):
    serving = serve()
    address = serving.address()
    node = ModelNode("n0\x1b[2J\u202e", [0], 1, token=address["token"], incarnation=2)
    speak(address).ask(node.hello())

    node.incarnation = 1
    speak(address).ask(node.hello())
    _, said = serving.end()

    assert "a newer agent of node n0" in said
    assert "\x1b" not in said and "\u202e" not in said


def test_answers_say_when_a_message_arrived_and_when_they_were_made(serve, speak):
    address = serve().address()
    speaker, node = speak(address), ModelNode("n0", [0], 2, token=address["token"])
    speaker.ask(node.hello())

    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    answer = speaker.ask(node.dictionary())
    received = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    assert sent < answer.arrived_ns < answer.answered_ns < received
