"""A network that loses, doubles, reorders and cuts; every run must come through whole.

Messages: sessions of agents speak through two faulty relays of whole messages, with clocks that run
fast so that waiting for lost answers is short. Cuts: real agents with real tables speak through a
relay of bytes that closes each connection after a random number of them.
"""

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import zmq

from insitu.campaign.store import open_store
from insitu.collectors.session import AgentSession, Step
from insitu.entities import RunState
from insitu.wire.codec import decode, encode
from insitu.wire.messages import Message
from insitu.wire.split import split_totals
from tests.collectors.test_node import rank_table
from tests.support.listeners import WAIT_S, Server, until
from tests.support.nodes import ModelNode, column
from tests.support.processes import HERE

FAST = 20.0  # the sessions' clocks
LOST, DOUBLED, LATE = 0.4, 0.3, 0.4
RANKS = 2  # of each node
SPEAKERS = (4, 16, 64)  # nodes of a run that speaks in messages
AGENTS = 16  # that speak through cut connections
PATHS = ("solve", "halo", "sum", "norm", "write")
CALM_S = 60.0  # within which every rank must be complete once the faults have ended
CUT_AT = 20_000  # bytes of a connection, at most
SPEAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from insitu.collectors.agent import Agent
Agent(sys.argv[2]).run()
"""


@dataclass
class Speaker:
    """One agent: the collectors' session, a made-up node, a socket of its own."""

    node: ModelNode
    socket: "zmq.Socket[bytes]"
    rng: random.Random
    session: AgentSession = field(default_factory=AgentSession)
    unsent: list[Message] = field(default_factory=list)
    late: list[bytes] = field(default_factory=list)
    has_ended: bool = False
    is_final: bool = False

    def turn(self, now: float, counts: Counter[str], *, is_bad: bool) -> None:
        """Hear answers, say what is due; with faults in both directions."""
        for frame in self._through(self._heard(), counts, is_bad=is_bad):
            self.session.receive(decode(frame))
        if self.session.is_behind:
            self._begin_again()
        for frame in self._through(self._said(now), counts, is_bad=is_bad):
            with contextlib.suppress(zmq.Again):
                self.socket.send(frame, zmq.NOBLOCK)

    def _heard(self) -> list[bytes]:
        frames = []
        with contextlib.suppress(zmq.Again):
            while True:
                frames.append(self.socket.recv(zmq.NOBLOCK))
        return frames

    def _said(self, now: float) -> list[bytes]:
        has_data = bool(self.unsent) or not self.is_final
        rows = len(self.node.paths)
        match self.session.step(now, has_data=has_data, has_ended=self.has_ended, rows=rows):
            case Step.HELLO:
                self._begin_again()
                return [encode(self.node.hello())]
            case Step.DIGEST:
                return [encode(self.node.digest())]
            case Step.PATHS:
                return [encode(self.node.dictionary(self.session.known_rows))]
            case Step.TOTALS:
                if not self.unsent:
                    self.is_final = self.has_ended
                    self.unsent = list(split_totals(self.node.totals(0), 1))
                part = self.unsent.pop(0)
                return [encode(replace(part, seq=self.session.sequence))]  # type: ignore[type-var]
            case Step.BYE:
                return [encode(self.node.bye(self.session.sequence))]
        return []

    def _begin_again(self) -> None:
        self.unsent.clear()
        self.is_final = False

    def _through(self, frames: list[bytes], counts: Counter[str], *, is_bad: bool) -> list[bytes]:
        """What comes out of the network when this goes in."""
        out: list[bytes] = []
        if not is_bad:
            return frames
        for frame in frames:
            counts["messages"] += 1
            if self.rng.random() < LOST:
                counts["messages dropped"] += 1
                continue
            doubled = self.rng.random() < DOUBLED
            counts["messages doubled"] += doubled
            for copy in [frame] * (1 + doubled):
                if self.rng.random() < LATE:
                    counts["messages delayed"] += 1
                    self.late.append(copy)
                else:
                    out.append(copy)
        answers = [frame for frame in self.late if decode(frame).__class__.__name__ in ANSWERS]
        own = frames and decode(frames[0]).__class__.__name__ in ANSWERS
        for frame in answers if own else [f for f in self.late if f not in answers]:
            if self.rng.random() < 0.3:
                self.late.remove(frame)
                out.append(frame)
        self.rng.shuffle(out)
        return out


ANSWERS = ("Welcome", "Ack", "Reject", "Halt")


def messages(folder: Path, length: int) -> Counter[str]:
    """Runs of some nodes each until so many hundred messages have gone through."""
    counts: Counter[str] = Counter()
    number = 100 * length
    campaign = folder / "messages.insitu"
    rng = random.Random(number)
    server = _served(campaign)
    address = json.loads((campaign / "aggregator.json").read_text())
    context = zmq.Context()
    run = 0
    while counts["messages"] < number:
        run += 1
        speakers = []
        nodes = rng.choice(SPEAKERS)
        for k in range(nodes):
            ranks = list(range(RANKS * k, RANKS * (k + 1)))
            node = ModelNode(f"n{k}", ranks, nodes * RANKS, run=f"{run:032x}")
            node.token = address["token"]
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.connect(address["endpoint"])
            speakers.append(Speaker(node, socket, random.Random(rng.random())))
        try:
            _live(speakers, rng, counts)
            _judge(campaign, speakers, counts)
        finally:  # a context that is collected with open sockets would wait for ever
            for speaker in speakers:
                speaker.socket.close()
    context.term()
    server.end()
    return counts


def _served(campaign: Path) -> Server:
    """An aggregator that listens."""
    campaign.parent.mkdir(exist_ok=True)
    return Server(campaign).wait()


def _live(speakers: list[Speaker], rng: random.Random, counts: Counter[str]) -> None:
    """Measure through a bad network, then end and be heard through a good one."""
    began = time.monotonic()
    bad_s = rng.uniform(1.0, 3.0)
    while (elapsed := time.monotonic() - began) < bad_s:
        for speaker in speakers:
            if not speaker.has_ended and rng.random() < 0.1:
                speaker.node.work(rng.choice(PATHS))
            if elapsed > bad_s / 2 and rng.random() < 0.02:
                speaker.has_ended = True
            speaker.turn(FAST * time.monotonic(), counts, is_bad=True)
        time.sleep(0.001)
    calm = time.monotonic()
    for speaker in speakers:
        speaker.has_ended = True
        speaker.is_final = speaker.is_final and speaker.session.is_durable
    while not all(speaker.session.is_durable for speaker in speakers):
        for speaker in speakers:
            speaker.turn(FAST * time.monotonic(), counts, is_bad=False)
        if time.monotonic() - calm > CALM_S:
            counts["nodes unfinished"] += sum(not s.session.is_durable for s in speakers)
            return
        time.sleep(0.001)


def _judge(campaign: Path, speakers: list[Speaker], counts: Counter[str]) -> None:
    counts["runs"] += 1
    run = speakers[0].node.run
    with open_store(str(campaign)) as store:
        until(lambda: any(r.id == run for r in store.runs()))
        record = next(r for r in store.runs() if r.id == run)
        until(lambda: any(r.id == run and r.state is RunState.COMPLETE for r in store.runs()), 5.0)
        record = next(r for r in store.runs() if r.id == run)
        counts["runs unfinished"] += record.state is not RunState.COMPLETE
        table = store.table(run)
    for speaker in speakers:
        for rank in speaker.node.ranks:
            counts["ranks compared"] += 1
            counts["values wrong"] += column(table, rank) != speaker.node.truth(rank)


# ---- connections that are cut ---------------------------------------------------------------


@dataclass
class Cutter:
    """A relay of bytes between UNIX sockets, in a thread; cuts while it is bad."""

    here: str
    there: str
    rng: random.Random
    cuts: int = 0
    is_bad: bool = True
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def start(self) -> None:
        """Listen."""
        self.loop.run_until_complete(asyncio.start_unix_server(self._relay, self.here))
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        out_reader, out_writer = await asyncio.open_unix_connection(self.there)
        left = [self.rng.randrange(CUT_AT) if self.is_bad else 1 << 60]
        both = (self._pump(reader, out_writer, left), self._pump(out_reader, writer, left))
        with contextlib.suppress(OSError):
            await asyncio.gather(*both)
        for end in (writer, out_writer):
            end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]
    ) -> None:
        while data := await reader.read(4096):
            data = data[: left[0]]
            left[0] -= len(data)
            writer.write(data)
            await writer.drain()
            if left[0] <= 0:
                self.cuts += 1
                raise ConnectionError
        raise ConnectionError


def cuts(folder: Path, length: int) -> Counter[str]:
    """Agents whose connections are cut until it has happened twice as often as length says."""
    counts: Counter[str] = Counter()
    number = max(2 * length, 10)
    campaign = folder / "cuts.insitu"
    server = _served(campaign)
    address = json.loads((campaign / "aggregator.json").read_text())
    view = folder / "view.insitu"  # what agents see: an aggregator behind the cutter
    view.mkdir()
    cutter = Cutter(str(folder / "cut"), address["endpoint"][6:], random.Random(number))
    cutter.start()
    address["endpoint"] = f"ipc://{cutter.here}"
    (view / "aggregator.json").touch(0o600)
    (view / "aggregator.json").write_text(json.dumps(address))
    agents, nodes = [], []
    for k in range(AGENTS):
        meta = {"run": f"{k + 1:032x}", "campaign": str(view), "beat": 0.05, "parameters": {}}
        tables = folder / f"node{k}"
        tables.mkdir(0o700)
        names = [f"f{i}" for i in range(50 * (k + 1))]
        timers = [
            rank_table(tables, r, RANKS, names, is_ended=False, meta=json.dumps(meta))[0]
            for r in range(RANKS)
        ]
        nodes.append((timers, names))
        words = [sys.executable, "-c", SPEAKER, str(HERE), str(tables)]
        with open(folder / "agents.log", "ab") as log:
            agents.append(subprocess.Popen(words, env={**os.environ}, stderr=log))
    until(lambda: cutter.cuts >= number or any(a.poll() is not None for a in agents), 3600.0)
    counts["connections cut"] += cutter.cuts
    cutter.is_bad = False
    for timers, _ in nodes:
        for timer in timers:
            timer.end(0)
    began = time.monotonic()
    for agent in agents:
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(max(WAIT_S + began - time.monotonic(), 0.1))
    counts["agents unfinished"] += sum(agent.poll() != 0 for agent in agents)
    for agent in agents:
        agent.kill()
    server.end()
    _judge_cuts(campaign, [names for _, names in nodes], counts)
    return counts


def _judge_cuts(campaign: Path, nodes: list[list[str]], counts: Counter[str]) -> None:
    """A run is in the campaign, or all of its tables are there for `insitu ingest`."""
    with open_store(str(campaign)) as store:
        sealed = {r.id: store.table(r.id) for r in store.runs() if r.state is RunState.COMPLETE}
    for k, names in enumerate(nodes):
        table = sealed.get(f"{k + 1:032x}")
        counts["runs compared"] += 1
        if table is None:
            tables = list((campaign.parent / f"node{k}").glob("*.table"))
            counts["runs left as tables" if len(tables) == RANKS else "runs lost"] += 1
            continue
        visits = table.values["visits"]
        counts["values wrong"] += int(visits.shape != (len(names) + 1, RANKS))
        counts["values wrong"] += int(np.count_nonzero(visits != 1.0))
