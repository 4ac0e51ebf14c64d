"""Many agents in one process: bare sockets that speak ZMTP, so that they cost less than who hears.

Each agent has a connection and a moment of its own in every beat. It says its totals then, unless
the answer to the last ones has not come yet: one message is outstanding.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass, field, replace

from insitu.wire.codec import decode, encode
from insitu.wire.messages import Ack, Column, Message, Totals, Welcome
from tests.support.nodes import ModelNode

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 32)
READY = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
MORE, LONG, COMMAND = 1, 2, 4
AT_ONCE = 200  # that greet at the same time
WAIT_S = 120.0


def framed(body: bytes, flags: int = 0) -> bytes:
    """A frame of ZMTP."""
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | LONG,)) + struct.pack(">Q", len(body)) + body


@dataclass(slots=True)
class Agent:
    """One connection."""

    node: ModelNode
    socket: socket.socket
    heard: bytearray = field(default_factory=bytearray)
    asked_at: float = 0.0  # 0 while nothing is outstanding
    seq: int = 0
    greeting: int = len(GREETING)  # bytes of the other's that have not come yet
    first: bytes = b""  # to be said then

    @classmethod
    def at(cls, path: str, node: ModelNode) -> "Agent":
        """Connect and shake hands, without waiting for the other's."""
        agent = cls(node, socket.socket(socket.AF_UNIX))
        agent.socket.settimeout(WAIT_S)
        agent.socket.connect(path)
        agent.socket.sendall(GREETING)
        return agent

    def say(self, frame: bytes) -> None:
        """Send a message; there is room for one, since nothing is outstanding."""
        self.asked_at = time.monotonic()
        if self.greeting:
            self.first = framed(READY, COMMAND) + framed(frame)
        else:
            self.socket.sendall(framed(frame))

    def answers(self) -> list[bytes]:
        """The messages that have arrived; a heartbeat is answered."""
        data = self.socket.recv(65_536)
        if not data:
            raise RuntimeError(f"the aggregator hung up on {self.node.name}")
        self.heard += data[self.greeting :]
        self.greeting -= min(self.greeting, len(data))
        if self.first and not self.greeting:
            self.socket.sendall(self.first)
            self.first = b""
        found = []
        while len(self.heard) > 1:
            is_long = self.heard[0] & LONG
            at = 9 if is_long else 2
            if len(self.heard) < at:
                break
            size = struct.unpack_from(">Q", self.heard, 1)[0] if is_long else self.heard[1]
            if len(self.heard) < at + size:
                break
            body = bytes(self.heard[at : at + size])
            if not self.heard[0] & COMMAND:
                found.append(body)
            elif body.startswith(b"\x04PING"):
                self.socket.sendall(framed(b"\x04PONG" + body[7:], COMMAND))
            del self.heard[: at + size]
        return found


@dataclass(slots=True)
class Crowd:
    """Agents with the same call paths."""

    columns: tuple[Column, ...]
    agents: list[Agent] = field(default_factory=list)
    poller: select.epoll = field(default_factory=select.epoll)
    by_number: dict[int, Agent] = field(default_factory=dict)
    greeting: int = 0  # agents whose call paths are not known yet
    waits: list[float] = field(default_factory=list)  # for the answers to totals, in seconds
    skipped: int = 0  # beats whose moment came before the answer to the last one

    def greet(self, path: str, nodes: list[ModelNode]) -> None:
        """Connect all of them and say Hello and what their call paths are."""
        deadline = time.monotonic() + WAIT_S + len(nodes) / 50
        for node in nodes:
            while self.greeting >= AT_ONCE:
                self._listen(deadline)
            agent = Agent.at(path, node)
            agent.socket.setblocking(False)
            self.agents.append(agent)
            self.by_number[agent.socket.fileno()] = agent
            self.poller.register(agent.socket, select.EPOLLIN)
            self.greeting += 1
            agent.say(encode(replace(node.hello(), columns=self.columns)))
        while self.greeting:
            self._listen(deadline)

    def beat(self, totals: list[Totals], seconds: int) -> None:
        """Say totals, one of each agent, once a second; then wait for the last answers."""
        moments = [(k * 0.618) % 1.0 for k in range(len(self.agents))]
        turn = sorted(range(len(self.agents)), key=moments.__getitem__)
        began, done = time.monotonic(), 0
        deadline = began + seconds + WAIT_S
        while done < seconds * len(turn) or any(agent.asked_at for agent in self.agents):
            now = time.monotonic() - began
            while done < seconds * len(turn):
                beat, k = divmod(done, len(turn))
                if now < beat + moments[turn[k]]:
                    break
                self._say(self.agents[turn[k]], totals[turn[k]])
                done += 1
            self._listen(deadline)

    def _say(self, agent: Agent, totals: Totals) -> None:
        if agent.asked_at:
            self.skipped += 1
            return
        agent.seq += 1
        agent.say(encode(replace(totals, seq=agent.seq)))

    def _listen(self, deadline: float) -> None:
        """Take the answers that are here."""
        for number, _ in self.poller.poll(0.001):
            agent = self.by_number[number]
            for frame in agent.answers():
                self._hear(agent, decode(frame))
        if time.monotonic() > deadline:
            raise RuntimeError("the aggregator does not answer")

    def _hear(self, agent: Agent, answer: Message) -> None:
        took, agent.asked_at = time.monotonic() - agent.asked_at, 0.0
        if agent.seq:
            if not isinstance(answer, Ack) or answer.seq != agent.seq:
                raise RuntimeError(f"an answer that was not expected: {answer}")
            self.waits.append(took)
        elif isinstance(answer, Welcome | Ack) and answer.known == len(agent.node.paths):
            self.greeting -= 1
        elif isinstance(answer, Welcome):
            agent.say(encode(agent.node.digest()))
        elif isinstance(answer, Ack):
            agent.say(encode(agent.node.dictionary()))
        else:
            raise RuntimeError(f"an answer that was not expected: {answer}")

    def close(self) -> None:
        """Hang up."""
        self.poller.close()
        for agent in self.agents:
            agent.socket.close()
